"""The least singular value of a square normal matrix, where SkipV1Former's proof of Theorem 2 cites Edelman."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np

from experiments.ledger.claim import Claim
from theory.skipv1.paper import PAPER


def eigenvalue_density(value: float, d: int) -> float:
    """Density of the least eigenvalue of X X^T, X: d x d standard normal (Edelman 1988, with Tricomi's U).

    Source also of the limit law, P(sqrt(d) sigma_d >= t) -> exp(-t^2/2 - t).
    """
    from scipy.special import gammaln, hyperu

    log = np.log(d) - np.log(2 * np.pi) / 2 + gammaln((d + 1) / 2) - np.log(value) / 2 - value * d / 2
    return float(np.exp(log) * hyperu((d - 1) / 2, -0.5, value / 2))


def mean_over_least_singular(function: Callable[[float], float], d: int, start: float = 0.0) -> float:
    """E of function(sigma_d(X)) over sigma_d(X) >= start, n = d.

    P(sqrt(d) sigma_d >= t) is about exp(-t^2/2 - t): at the end of the range, t = 15 at least, nothing is left.
    """
    from scipy.integrate import quad

    end = (4 + 12 / d) / d**0.5 + 4
    value, _ = quad(lambda u: function(u) * 2 * u * eigenvalue_density(u * u, d), start, end, limit=200)
    return float(value)


def share_above_half(d: int) -> float:
    """P(sqrt(d) sigma_d(X) >= 1/2) at n = d."""
    return mean_over_least_singular(lambda _u: 1.0, d, start=0.5 / d**0.5)


EDELMAN = Claim(
    "skipv1.edelman",
    PAPER.name,
    place="appendix A.1, proof of the theorem: Edelman's theorem, and with high probability",
    statement="X ~ N(0, I_{d^2}) has sigma_d(X) = Theta(1/sqrt(d)) for large d, with high probability.",
    assumes="none",
    verdict="corrected",
    correction="X is d x n; the statement is about n = d.  There sqrt(d) sigma_d(X) has a limit law, P(sqrt(d) "
    "sigma_d >= t) -> exp(-t^2/2 - t): 0.535 for t = 1/2, so no fixed constant is below it with high probability, "
    "only with one as near 1 as the constant is small.  For n < d sigma_d is zero; for n >= 2d + 1 it is of order "
    "sqrt(n).  Nor does a bound that holds with high probability compare two expectations, which is what the next "
    "display does.",
    proof=eigenvalue_density,
)


@EDELMAN.check(
    "P(sqrt(d) sigma_d >= 1/2) at d = 1..50, from the exact density: above exp(-5/8), by less than 1/d",
    states=exp(-5 / 8),
    control=0.95,
    wrong="high probability",
    kind="exact",
)
def share_tends_to(limit: float) -> bool:
    """`share_above_half` lies above the limit, by less than 1/d, at d = 1 .. 50."""
    return all(0 < share_above_half(d) - limit < 1 / d for d in (1, 2, 5, 10, 20, 50))


@EDELMAN.check(
    "the same by simulation, d = 2 and 20",
    states=share_above_half,
    control=lambda d: 0.95,
    wrong="high probability",
    kind="sampled",
)
def simulated_share(share: Callable[[int], float]) -> bool:
    rng = np.random.default_rng(65)
    for d, samples in ((2, 20_000), (20, 4000)):
        least = np.linalg.svd(rng.standard_normal((samples, d, d)), compute_uv=False)[:, -1]
        measured = (least * d**0.5 >= 0.5).mean()
        if abs(measured - share(d)) > 5 * (share(d) * (1 - share(d)) / samples) ** 0.5:
            return False
    return True


@EDELMAN.check(
    "at n = 2d + 1 it is never so small, d = 20",
    states=(lambda d: 2 * d + 1, 1.0),
    control=(lambda d: d, 1.0),
    wrong="n = d",
    kind="float64",
)
def order_needs_square(version: tuple[Callable[[int], int], float]) -> bool:
    """At n(d) pairs, d = 20: the share of X with sqrt(d) sigma_d(X) >= 1/2 is what it says, within 5 standard errors.

    A share of 0 or 1 is to be met by every sample.
    """
    pairs, share = version
    d, samples = 20, 1000
    x = np.random.default_rng(66).standard_normal((samples, d, pairs(d)))
    gram = np.linalg.eigvalsh(x @ x.swapaxes(1, 2))[:, 0]
    return bool(abs((gram * d >= 0.25).mean() - share) <= 5 * (share * (1 - share) / samples) ** 0.5)
