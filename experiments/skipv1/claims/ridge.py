"""Ridge regression in SkipV1Former's proof (appendix A.1): Lemma 1's W_D, and the inequality behind lambda_i > 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from theory.prompts import regression
from theory.prompts.isserlis import gaussian_trace
from theory.skipv1.paper import PAPER

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
    kind="float64",
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
