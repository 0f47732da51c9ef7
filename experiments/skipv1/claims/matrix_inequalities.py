"""The inequalities on singular values at the end of SkipV1Former's proof of Theorem 2 (appendix A.1), one by one."""

from __future__ import annotations

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from theory.prompts.moments import Array
from theory.skipv1.paper import PAPER
from theory.toy.tokens import whole


def _tail_norm(matrix: Array, rank: int) -> float:
    """||M - R_a(M)||_F."""
    return float(np.linalg.norm(np.linalg.svd(matrix, compute_uv=False)[rank:]))


def factor_bounds(which: str) -> bool:
    """||Lambda M - R_a(Lambda M)|| >= s ||M - R_a(M)||, s the least (or greatest) singular value of Lambda.

    Proof.  For regular Lambda with least singular value s, Lambda^-1 R_a(Lambda M) has rank a at most, so
    ||M - R_a(M)|| <= ||M - Lambda^-1 R_a(Lambda M)|| <= ||Lambda M - R_a(Lambda M)|| / s.  Else s = 0.
    """
    rng = np.random.default_rng(61)
    for d in range(1, 7):
        for diagonal in (True, False):
            scale, m = rng.standard_normal((2, d, d))
            scale = np.diag(np.diag(scale)) if diagonal else scale
            singular = np.linalg.svd(scale, compute_uv=False)
            factor = singular.min() if which == "least" else singular.max()
            slack = 100 * d * np.finfo(float).eps * singular.max() * np.linalg.norm(m)
            if any(_tail_norm(scale @ m, a) < factor * _tail_norm(m, a) - slack for a in range(d + 1)):
                return False
    return True


LAMBDA_FACTOR = Claim(
    "skipv1.lambda-factor",
    PAPER.name,
    place="appendix A.1, proof of the theorem: min |lambda_i|^2 taken out of the best approximation",
    statement="||Lambda M - R_a(Lambda M)||^2 >= min |lambda_i|^2 ||M - R_a(M)||^2.",
    assumes="none",
    verdict="verified",
    correction="True of any matrix Lambda with its least singular value for min |lambda_i|; here Lambda = lambda "
    "I and it is an equality.",
    proof=factor_bounds,
    uses=("skipv1.step-size",),
)
LAMBDA_FACTOR.check(
    "random diagonal and other matrices, d = 1..6, every rank",
    states="least",
    control="greatest",
    wrong="the greatest |lambda_i|",
    kind="float64",
)(factor_bounds)


@LAMBDA_FACTOR.check(
    "it is attained: Lambda = diag(1, 2), M = I, a = 1", states=1, control=2, wrong="the factor 2", kind="float64"
)
def factor_is_attained(factor: int) -> bool:
    """Lambda = diag(1, 2), M = I, a = 1: equality with the factor 1."""
    return _tail_norm(np.diag([1.0, 2.0]), 1) == factor * _tail_norm(np.eye(2), 1)


def tail_bound(kind: str, singular: Array) -> float:
    """What the display bounds ||M - R_a(M)||_F^2 by, from M's singular values beyond a.

    By Eckart-Young it is the sum of their squares.  The square of their sum has twice the products of any two of them
    beside: no product is negative, and all are zero only if at most one value is not.
    """
    return float((singular**2).sum() if kind == "sum of squares" else singular.sum() ** 2)


ECKART_YOUNG = Claim(
    "skipv1.eckart-young",
    PAPER.name,
    place="appendix A.1, proof of the theorem, the display after Eckart-Young",
    statement="||M - R_a(M)||_F^2 is at least the square of the sum of the singular values beyond a.",
    assumes="none",
    verdict="refuted",
    correction="It is the sum of their squares, which is never more than the square of their sum and equal to it "
    "only if at most one is not zero.  The bound that the proof then uses, sigma_d^2, is right.",
    proof=tail_bound,
)


@ECKART_YOUNG.check(
    "M = I, a = 0, d = 2: 2 against 4",
    states="sum of squares",
    control="square of sum",
    wrong="as printed",
    kind="exact",
)
def tail_of_identity(kind: str) -> bool:
    return tail_bound(kind, np.ones(2)) <= 2.0


@ECKART_YOUNG.check(
    "random matrices, d = 2..6, every rank",
    states="sum of squares",
    control="square of sum",
    wrong="as printed",
    kind="float64",
)
def tail_of_random(kind: str) -> bool:
    rng = np.random.default_rng(6)
    for d in range(2, 7):
        u, s, vt = np.linalg.svd(rng.standard_normal((d, d)))
        for a in range(d + 1):
            rest = float(np.linalg.norm((u * np.where(np.arange(d) < a, 0.0, s)) @ vt) ** 2)
            if rest < tail_bound(kind, s[a:]) * (1 - 100 * d * np.finfo(float).eps):
                return False
    return True


def weyl_holds(noise: str) -> bool:
    """d = n = 2: W = (0 0; 2 0), X = (0 1; 2 0), noise e_1 e_1^T, and random ones: |sigma_d(YX^T) - sigma_d(WS)|.

    Weyl: |sigma_d(M + N) - sigma_d(M)| <= ||N||_2, with M = W* X X^T and N = noise X^T, whose sum is Y X^T.
    """
    rng = np.random.default_rng(62)
    smallest = (np.array([[0.0, 0], [2, 0]]), np.array([[0.0, 1], [2, 0]]), np.array([[1.0, 0], [0, 0]]))
    return all(
        _weyl_bounds(w, x, e, x.T if noise == "transposed" else x)
        for w, x, e in [smallest, *(tuple(rng.standard_normal((3, 3, 3))) for _ in range(20))]
    )


def _weyl_bounds(w: Array, x: Array, noise: Array, factor: Array) -> bool:
    """|sigma_d(Y X^T) - sigma_d(W X X^T)| <= ||noise factor||_2."""
    least = [np.linalg.svd(m, compute_uv=False)[-1] for m in ((w @ x + noise) @ x.T, w @ x @ x.T)]
    return bool(abs(least[0] - least[1]) <= np.linalg.norm(noise @ factor, 2) + 100 * np.finfo(float).eps)


WEYL = Claim(
    "skipv1.weyl",
    PAPER.name,
    place="appendix A.1, proof of the theorem, Weyl's inequality",
    statement="|sigma_d(Y X^T) - sigma_d(W* X X^T)| <= ||epsilon X||_2.",
    assumes="none",
    verdict="corrected",
    correction="||epsilon X^T||_2.  epsilon and X are d x n, so epsilon X has a meaning at n = d only, and is "
    "then too small: W* = (0 0 ; 2 0), X = (0 1 ; 2 0), epsilon = e_1 e_1^T give 2 > 1.",
    proof=weyl_holds,
)
WEYL.check(
    "that example, and random 3 x 3 matrices",
    states="transposed",
    control="as it is",
    wrong="as printed",
    kind="float64",
)(weyl_holds)


@WEYL.check("the product conforms at n != d", states=True, control=False, wrong="as printed", kind="exact")
def weyl_needs_square(transposed: bool) -> bool:
    """noise times X, both d x n, has a meaning at n != d only with X transposed; then it bounds there too."""
    rng = np.random.default_rng(63)
    for d, n in ((1, 2), (2, 1), (3, 5)):
        noise, x = rng.standard_normal((2, d, n))
        factor = x.T if transposed else x
        if noise.shape[1] != factor.shape[0] or not _weyl_bounds(rng.standard_normal((d, d)), x, noise, factor):
            return False
    return True


def products_of_least(which: str) -> bool:
    """sigma_d(AB) >= sigma_d(A) sigma_d(B) for square matrices, and sigma_d(X X^T) = sigma_d(X)^2 for n >= d.

    `which` names the singular value of B in the bound.  For |A B v| >= sigma_d(A) |B v| >= sigma_d(A) sigma_d(B) |v|.
    """
    rng = np.random.default_rng(64)
    for d in range(1, 7):
        a, b = rng.standard_normal((2, d, d))
        x = rng.standard_normal((d, d + 2))
        s_a, s_b, s_ab, s_x, s_xx = (np.linalg.svd(m, compute_uv=False) for m in (a, b, a @ b, x, x @ x.T))
        slack = 100 * d * np.finfo(float).eps
        if s_ab[-1] < s_a[-1] * s_b[-1 if which == "least" else 0] - slack * s_a[0] * s_b[0]:
            return False
        if abs(s_xx[-1] - s_x[-1] ** 2) > slack * s_xx[0]:
            return False
    return True


SINGULAR_PRODUCTS = Claim(
    "skipv1.singular-products",
    PAPER.name,
    place="appendix A.1, proof of the theorem: sigma_d(AB) >= sigma_d(A) sigma_d(B), and its use",
    statement="sigma_d(W* X X^T) >= sigma_d(W*) sigma_d(X)^2.",
    assumes="square A and B",
    verdict="verified",
    correction="For n < d, X has no d-th singular value; with zero for it the bound is empty.",
    proof=products_of_least,
)
SINGULAR_PRODUCTS.check(
    "the product rule and sigma_d(X X^T) = sigma_d(X)^2, random matrices, d = 1..6",
    states="least",
    control="greatest",
    wrong="sigma_1(B) for sigma_d(B)",
    kind="float64",
)(products_of_least)


@SINGULAR_PRODUCTS.check(
    "both sides vanish for n < d; whole numbers, exact, d = 2", states=1, control=2, wrong="n = d", kind="exact"
)
def signal_vanishes(n: int) -> bool:
    """d = 2: W S is singular for whole-number W and X with n pairs, while noise X^T is not zero; exact."""
    rng = np.random.default_rng(69)
    for _ in range(5):
        w, x, noise = whole(rng, 2, 2) + 7 * np.eye(2, dtype=int), whole(rng, 2, n) + 5, whole(rng, 2, n) + 5
        if sympy.Matrix(w @ x @ x.T).det() != 0 or not (noise @ x.T).any():
            return False
    return True
