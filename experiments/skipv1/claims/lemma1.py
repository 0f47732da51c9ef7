"""Lemma 1, appendix A.1: the ridge minimiser and its constant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import RANK
from theory.plans.heads import MHA, SKIPV1
from theory.prompts import regression
from theory.prompts.isserlis import gaussian_trace
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1.paper import PAPER
from theory.toy.exact import prompt_map
from theory.toy.population import PopulationLoss, Weights
from theory.toy.tokens import draw_weights, whole

SIZES = ((1, 2, 1), (1, 3, 2), (2, 3, 4), (2, 4, 1))  # rank, d, n


def blocks(w: Weights, split: str) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield W_1, W_2, M_1, M_2 of each head, M = K A split by "rows", or by "columns" as the paper prints it."""
    for w_h, k in zip(w.w, w.k, strict=True):
        m = k @ w.a
        parts = (m[: w.rank], m[w.rank :]) if split == "rows" else (m[:, : w.rank], m[:, w.rank :])
        yield w_h[:, : w.rank], w_h[:, w.rank :], *parts


def mean_over_spectrum(function: Callable[[float], float], n: int) -> tuple[float, float]:
    """Return E function(S) at d = 1, S chi-squared with n degrees, and the quadrature's error."""
    from scipy.integrate import quad
    from scipy.stats import chi2

    value, error = quad(lambda s: float(chi2.pdf(s, n)) * function(s), 0, np.inf)
    return float(value), float(error)


LEMMA1_RIDGE = Claim(
    "skipv1.lemma1-ridge",
    PAPER.name,
    place="appendix A.1, Lemma 1, and the formula for W_D in the proof of Lemma 2",
    statement="The loss is a constant plus E ||P - W_D||^2, W_D being ridge regression with strength sigma^2.",
    assumes="W0 = 0",
    verdict="corrected",
    correction="True at W0 = 0 with strength sigma^2 (the posterior mean).  Lemma 2's proof writes sigma I for "
    "sigma^2 I, and at W0 != 0 the posterior mean is W0 + (S_yx - W0 S_xx)(S_xx + sigma^2 I)^-1.",
    proof=regression,
    uses=("skipv1.setting-noise", "skipv1.eqn7", "skipv1.lemma1-minimiser"),
)


@LEMMA1_RIDGE.check(
    "d = 1, any W0: the conditional mean of W* is W0 + (S_yx - W0 S_xx)/(S_xx + sigma^2)",
    states=lambda sigma: sigma**2,
    control=lambda sigma: sigma,
    wrong="strength sigma, as the proof of Lemma 2 prints",
    kind="exact",
)
def posterior_mean(strength: Callable[[Any], Any]) -> bool:
    """d = 1, W* ~ N(w0, 1): the mode, and so the mean, of the posterior is w0 + (S_yx - w0 S_xx)/(S_xx + strength)."""
    w, w0, s_xx, s_yx, s_yy, sigma = sympy.symbols("w w0 s_xx s_yx s_yy sigma", positive=True)
    log_density = -((w - w0) ** 2) / 2 - (s_yy - 2 * w * s_yx + w**2 * s_xx) / (2 * sigma**2)
    (mode,) = sympy.solve(sympy.diff(log_density, w), w)
    return bool(sympy.simplify(mode - w0 - (s_yx - w0 * s_xx) / (s_xx + strength(sigma))) == 0)


@LEMMA1_RIDGE.check(
    "E[W_D S_yx] = E[W* S_yx] (orthogonality), d = 1, by quadrature over S_xx",
    states=2,
    control=1,
    wrong="strength sigma",
)
def ridge_orthogonality(power: int) -> bool:
    """E[W_D S_yx] = E[(S^2 + sigma^2 S)/(S + sigma^power)] against E[W* S_yx] = n, S chi-squared with n degrees."""
    from scipy.integrate import quad
    from scipy.stats import chi2

    n, sigma = 5, 0.6
    value, error = quad(lambda s: chi2.pdf(s, n) * (s**2 + sigma**2 * s) / (s + sigma**power), 0, np.inf)
    return bool(abs(value - n) <= 10 * error)


RIDGE_INEQUALITY = Claim(
    "skipv1.ridge-inequality",
    PAPER.name,
    place="appendix A.1, proof of the theorem: the lower bound on lambda_i",
    statement="S (S + sigma^2)^-1 S >= S - sigma^2 I for S = X X^T, with mean (d - sigma^2) I.",
    assumes="none",
    verdict="corrected",
    correction="The inequality is right; the mean of its right side is (n - sigma^2) I, positive only for "
    "n > sigma^2.  That lambda_i > 0 needs none of it: see skipv1.step-size.",
    uses=("skipv1.step-size",),
)


@RIDGE_INEQUALITY.check(
    "eigenvalue by eigenvalue: s^2/(s + sigma^2) - s + sigma^2 = sigma^4/(s + sigma^2)",
    states=4,
    control=2,
    wrong="remainder sigma^2/(s + sigma^2)",
    kind="exact",
)
def ridge_remainder(power: int) -> bool:
    s, sigma = sympy.symbols("s sigma", positive=True)
    return bool(sympy.simplify(s**2 / (s + sigma**2) - s + sigma**2 - sigma**power / (s + sigma**2)) == 0)


@RIDGE_INEQUALITY.check(
    "by pairing: E tr X X^T = n d", states="n", control="d", wrong="E X X^T = d I, as printed", kind="exact"
)
def mean_of_s(symbol: str) -> bool:
    return bool(gaussian_trace("X X'") == sympy.Symbol("d") * sympy.Symbol(symbol))


def decomposition_holds(centre: int) -> bool:
    """E|y - P x|^2 = E|y - W_D x|^2 + |(W_D - P) x|^2, d = 2, over four labels y of mean (W_D + centre) x.

    Given D and x, y has mean W_D x for W_D = E[W* | D], so that E[2 (U x - y) x^T (V - W_D)^T | D, x] is
    2 (U - W_D) x x^T (V - W_D)^T: zero for every V at U = W_D, and not at U = V.  At U = W_D and V = P its trace is the
    cross term of y - P x = (y - W_D x) + (W_D - P) x.
    """
    rng = np.random.default_rng(40)
    for _ in range(5):
        best, p, x, first, second = whole(rng, 2, 2), whole(rng, 2, 2), whole(rng, 2, 1) + 9, *whole(rng, 2, 2, 1)
        labels = [best @ x + centre * x + s * first + t * second for s, t in product((1, -1), repeat=2)]
        left, right = (sum(((y - u @ x) ** 2).sum() for y in labels) for u in (p, best))
        if left != right + len(labels) * (((best - p) @ x) ** 2).sum():
            return False
    return True


EQN7 = Claim(
    "skipv1.eqn7",
    PAPER.name,
    place="appendix A.1, proof of Lemma 1: first-order condition, Eqn. (7) and the decomposition after it",
    statement="E[2 (U x - y) x^T (U - W_D)^T | D, x] = 0 for every U, which makes the cross term vanish.",
    assumes="x = x_{n+1}, y = y_{n+1}",
    verdict="corrected",
    correction="The condition holds at U = W_D, not at every U: (7) must read E[2 (W_D x - y) x^T (U - W_D)^T] = "
    "0. As printed its left side is 2 (U - W_D) x x^T (U - W_D)^T: 2 at d = 1, x = 1, U = W_D + 1.  With W_D "
    "there the decomposition holds.  Its cross term is printed as a d x d matrix among numbers; its trace is "
    "meant.  That a minimiser exists follows from g being quadratic, not from convexity.",
    proof=decomposition_holds,
)


@EQN7.check(
    "d = 1: which first factor makes the mean zero for every U",
    states="W_D",
    control="U",
    wrong="as printed",
    kind="exact",
)
def eqn7_vanishes(first: str) -> bool:
    """d = 1: E[2 (V x - y) x (U - W_D)] over y of mean W_D x, with V = W_D or, as printed, V = U, for any U."""
    u, w, x = sympy.symbols("u w x")
    v = w if first == "W_D" else u
    return bool(sympy.expand(2 * (v * x - w * x) * x * (u - w)) == 0)


EQN7.check(
    "d = 2: the decomposition over four equally likely labels, whole numbers, exact",
    states=0,
    control=1,
    wrong="around a matrix that is no minimiser",
    kind="exact",
)(decomposition_holds)


def last_step_holds(minimiser: str) -> bool:
    """E|(W_D - P) x|^2 = E||U - P||^2 with a minimiser U of g, d = 2, over the four x = (+-1, +-1), of mean x x^T = I.

    U is W_D, or the minimiser of least norm, W_D x x^T / |x|^2.  As U x = W_D x, the left side is
    E tr (U - P) x x^T (U - P)^T, which is E||U - P||^2 if U does not depend on x.  At P = 0 the minimiser of least norm
    has E||U||^2 = E|W_D x|^2 / |x|^2 = ||W_D||^2 / d, for any law of x that no rotation changes.
    """
    rng = np.random.default_rng(42)
    for _ in range(5):
        best, p = whole(rng, 2, 2), whole(rng, 2, 2)
        left = right = Fraction(0)
        for signs in product((1, -1), repeat=2):
            x = np.array(signs, dtype=object)[:, None]
            u = best if minimiser == "W_D" else best @ x @ x.T * Fraction(1, 2)
            left += (((best - p) @ x) ** 2).sum()
            right += ((u - p) ** 2).sum()
        if left != right:
            return False
    return True


LEMMA1_MINIMISER = Claim(
    "skipv1.lemma1-minimiser",
    PAPER.name,
    place="appendix A.1, proof of Lemma 1: W_D is any minimiser of g; and the last display, with x_{n+1} gone",
    statement="Any minimiser W_D of g(U) = E[|U x_{n+1} - y_{n+1}|^2 | D, x_{n+1}] makes the loss C + E||W_D - P||^2.",
    assumes="none",
    verdict="corrected",
    correction="g sees U x_{n+1} only, so its minimisers fill d (d - 1) dimensions and may depend on x_{n+1}; the "
    "last step, E|(W_D - P) x|^2 = E||W_D - P||^2, needs one that does not: the posterior mean E[W* | D], which "
    "at W0 = 0 is the lemma's ridge regression.  The minimiser of least norm, W_D x x^T/|x|^2, would make "
    "E||W_D||^2/d of E||W_D||^2 at P = 0: half at d = 2.",
    proof=last_step_holds,
    uses=("skipv1.eqn7",),
)


@LEMMA1_MINIMISER.check(
    "the minimisers of g fill d (d - 1) dimensions; exact, d = 1..3",
    states=lambda d: d * (d - 1),
    control=lambda d: 0,
    wrong="one minimiser",
    kind="exact",
)
def minimisers_left(number: Callable[[int], int]) -> bool:
    """The dimension of {U : U x = W_D x} for one query x != 0, exact."""
    rng = np.random.default_rng(41)
    for d in (1, 2, 3):
        x = whole(rng, d, 1) + 5
        conditions = sympy.Matrix(np.kron(np.eye(d, dtype=object), x.T))  # on U's rows, one after the other
        if len(conditions.nullspace()) != number(d):
            return False
    return True


LEMMA1_MINIMISER.check(
    "the last step, d = 2, over four queries of mean x x^T = I; exact",
    states="W_D",
    control="least norm",
    wrong="the minimiser of least norm",
    kind="exact",
)(last_step_holds)


LEMMA1_CONSTANT = Claim(
    "skipv1.lemma1-constant",
    PAPER.name,
    place="appendix A.1, Lemma 1: C > 0, the exemplars, G_{i,D}",
    statement="There is C > 0, independent of A, B, W and M, with L_k = C + E||sum_h W^h G_{i,D} M^h - W_D||^2.",
    assumes="W0 = 0",
    verdict="corrected",
    correction="C is the loss of ridge regression, d sigma^2 + d E tr sigma^2/(S + sigma^2), and depends on the "
    "task alone.  It is zero at sigma = 0 and n >= d, so C >= 0.  G_{i,D} is G_{k,D}^h: for SkipV1Former the "
    "heads' G differ.  The exemplars are the n pairs; x_{n+1} has no label and no part in W_D.",
    proof=regression,
    uses=("skipv1.lemma1-ridge", "skipv1.eqns-5-6"),
    unjudged={prompt_map: RANK},
)


@LEMMA1_CONSTANT.check(
    "d = 1: C and the distance to W_D add up to the exact loss at three weights, by quadrature over S",
    states=1,
    control=0,
    wrong="C without the label's own noise",
    kind="exact",
)
def constant_adds_up(label_noise: int) -> bool:
    """d = 1: C = E sigma^2/(S + sigma^2) + label_noise sigma^2 and the distance to W_D make the exact loss."""
    n, sigma = 5, 0.6
    c, error = mean_over_spectrum(lambda s: sigma**2 / (s + sigma**2), n)
    for mu in (0.0, 0.1, 0.3):
        off, more = _distance_to_ridge(mu, n, sigma)
        exact = _loss_of_step(mu, n, sigma)
        if abs(c + label_noise * sigma**2 + off - exact) > 10 * (error + more) + 100 * np.finfo(float).eps * exact:
            return False
    return True


def _distance_to_ridge(mu: float, n: int, sigma: float) -> tuple[float, float]:
    """Return E (W_D - mu S_yx)^2 at d = 1, and its error."""
    return mean_over_spectrum(lambda s: (s**2 + sigma**2 * s) * (1 / (s + sigma**2) - mu) ** 2, n)


def _loss_of_step(mu: float, n: int, sigma: float) -> float:
    """Return the exact loss of P = mu S_yx at d = 1: a skip head, whose S_xx the ordinary head cancels."""
    one = np.ones((1, 1))
    weights = Weights(one, one[1:], np.array([[[-mu / 2]], [[mu]]]), np.ones((2, 1, 1)))
    return PopulationLoss(PromptMoments(1, n, sigma), SKIPV1).value(weights)


@LEMMA1_CONSTANT.check(
    "sigma = 0: C vanishes from n = d on, where whole-number prompts determine W*; exact rank",
    states=lambda d: d,
    control=lambda d: float("inf"),
    wrong="C > 0 at every n",
    kind="exact",
)
def constant_vanishes_from(shortest: Callable[[int], float]) -> bool:
    """sigma = 0: C = d (d - n)_+, zero if and only if n whole-number x's determine W*: if X has rank d."""
    rng = np.random.default_rng(43)
    for d in (1, 2, 3):
        for n in range(1, d + 3):
            determined = sympy.Matrix(whole(rng, d, n) + 9 * np.eye(d, n, dtype=int)).rank() == d
            if not determined == (n >= shortest(d)) == (regression.minimum_norm(d, n, 0) == 0):
                return False
            if regression.minimum_norm(d, n, 0) != d * max(d - n, 0):
                return False
    return True


@LEMMA1_CONSTANT.check(
    "one G serves both heads: of MHA; by the map from S to P, exact",
    states="MHA",
    control="SkipV1Former",
    wrong="for SkipV1Former, as G_{i,D} says",
    kind="exact",
)
def one_gram_serves(model: str) -> bool:
    """Lemma 1's G_{i,D}, the same for both heads: true of MHA, and not of SkipV1Former.  By the map S -> P, exact."""
    rng = np.random.default_rng(44)
    w = draw_weights(rng, 1, 2)
    heads = MHA if model == "MHA" else SKIPV1
    together = prompt_map(w, heads[:1]) + prompt_map(Weights(w.a, w.b, w.w[1:], w.k[1:]), heads[:1])
    return bool((prompt_map(w, heads) == together).all())
