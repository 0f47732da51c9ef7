"""How near a few products L S N come to a constant matrix: the lemma behind the counter-examples around W0 != 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.rational_matrices import identity, whole_matrix
from experiments.toys.checks import EXACT_SLACK, ROUNDING
from theory.prompts.moments import Array
from theory.skipv1.paper import PAPER
from theory.toy import few_terms
from theory.toy.few_terms import quaternions, term_floor, terms_loss

FEW_PRODUCTS = Claim(
    "skipv1.few-products",
    PAPER.ours,
    place="theory.toy.few_terms, Lemma 1",
    statement="No sum of R products L S N is nearer to W0 than ||W0||^2 theta/(n + theta) in mean square, "
    "theta = (1 + 2/d) ||W0||^2 / (sum of its R largest squared singular values) - 1.",
    assumes="S a Wishart matrix of n N(0, I_d) vectors",
    verdict="verified",
    proof=few_terms,
)


@FEW_PRODUCTS.check(
    "exact losses of random products, and of the four quaternion units, which meet it, d = 1..4",
    states=lambda terms: terms,
    control=lambda terms: terms - 1,
    wrong="the floor of one product less",
    kind="exact",
)
def products_stay_above(floor_of: Callable[[int], int]) -> bool:
    """Exact: random products and the quaternions, d = 1..4; `floor_of(R)` products are what the floor allows for."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 4):
        target = whole_matrix(rng, d, d) if d < 4 else 3 * identity(d)
        squares = (np.linalg.svd(target.astype(float), compute_uv=False) ** 2).tolist() if d < 4 else [9] * d
        for left, right in _products(rng, d):
            for n in (1, 2, 7):
                least = scaled_loss(left, right, n, target).least
                floor = term_floor(squares, n, floor_of(len(left)))
                if least < floor - (ROUNDING * sum(squares) if d < 4 else 0) or (len(left) == 4 and least != floor):
                    return False
    return True


def _products(rng: np.random.Generator, d: int) -> Iterator[tuple[Array, Array]]:
    for terms in (1, 2, 3):
        yield whole_matrix(rng, terms, d, d), whole_matrix(rng, terms, d, d)
    if d == 4:
        family = quaternions(4).astype(object) * Fraction(1)
        yield family, np.swapaxes(family, 1, 2)


@dataclass(frozen=True)
class ScaledLoss:
    """The loss of products that are all multiplied by one number t: constant + linear t + square t^2."""

    constant: Any
    linear: Any
    square: Any

    def at(self, scale: Any) -> Any:
        return self.constant + self.linear * scale + self.square * scale**2

    @property
    def least(self) -> Any:
        return self.constant - self.linear**2 / (4 * self.square) if self.square else self.constant


def scaled_loss(left: Array, right: Array, n: int, target: Array) -> ScaledLoss:
    """Exact, for arrays of Fractions or whole numbers."""
    losses = [terms_loss(scale * left, right, n, target) for scale in (0, 1, 2)]
    zero, one, two = (loss if isinstance(loss, Fraction) else Fraction(int(loss)) for loss in losses)
    return ScaledLoss(constant=zero, linear=(4 * one - two - 3 * zero) / 2, square=(two - 2 * one + zero) / 2)


@FEW_PRODUCTS.check(
    "descent in four products at d = 4, n = 3 ends on it, and not below",
    states=4,
    control=3,
    wrong="the floor of three",
    kind="descent",
)
def descent_ends_on_floor(terms: int) -> bool:
    """Minimising over L_r and N_r at d = 4, n = 3: four products end on the floor of `terms`, and not below."""
    d, n = 4, 3
    floor = float(term_floor([1.0] * d, n, terms))
    return floor - ROUNDING * d <= products_minimum(4, d, n) <= floor * (1 + EXACT_SLACK)


@cache
def products_minimum(terms: int, d: int, n: int, starts: int = 4) -> float:
    """The lowest end of descents in so many products towards the identity, valued by `terms_loss`."""
    target, rng = np.eye(d), np.random.default_rng(1)

    def loss(flat: Array) -> tuple[float, Array]:
        left, right = flat.reshape(2, terms, d, d)
        return _loss_and_gradient(left, right, n)

    begins = (rng.standard_normal(2 * terms * d * d) / 2 for _ in range(starts))
    options = {"maxiter": 250, "maxcor": 20}
    flat = (minimize(loss, begin, jac=True, method="L-BFGS-B", options=options).x for begin in begins)
    ends = (end.reshape(2, terms, d, d) for end in flat)
    return min(float(terms_loss(left, right, n, target)) for left, right in ends)


def _loss_and_gradient(left: Array, right: Array, n: int) -> tuple[float, Array]:
    """Of `terms_loss` towards I: with rest M = sum L N - I and E S X S = n^2 X + n X^T + n tr(X) I."""
    rest = n * np.einsum("rij,rjk->ik", left, right) - np.eye(left.shape[-1])
    inner, outer = left.mT[:, None] @ left[None], right[:, None] @ right.mT[None]  # [r, s]: L_r^T L_s, N_r N_s^T
    traces = np.einsum("rsjj->rs", inner), np.einsum("rsjj->rs", outer)
    loss = (rest**2).sum() + n * ((inner * outer.mT).sum() + (traces[0] * traces[1]).sum())
    by_left = rest @ right.mT + np.einsum("sij,rsjk->rik", left, outer)
    by_left += np.einsum("rs,sij->rij", traces[1], left)
    by_right = left.mT @ rest + np.einsum("rsij,sik->rjk", inner, right)
    by_right += np.einsum("rs,sij->rij", traces[0], right)
    return float(loss), 2 * n * np.concatenate([by_left.ravel(), by_right.ravel()])
