"""Losses of estimators on the in-context regression task: zero, one gradient step, several, least squares, Bayes.

Setting.  k context pairs with y = W* x + noise, x ~ N(0, I_d), W* ~ N(0, I_{d^2}), noise ~ N(0, sigma^2 I_d), and a
fresh query.  Every loss is E ||y - W x||^2 of the query and its label, summed over the d outputs, so the label's own
noise, d sigma^2, is in it.  With X: d x k the context, G = X X^T and N the noise, S_yx = W* G + N X^T.

Lemma.  For W = S_yx f(G) with f any function of the spectrum lambda_1, ..., lambda_d of G,
    loss = d E sum_i [(1 - lambda_i f(lambda_i))^2 + sigma^2 lambda_i f(lambda_i)^2] + d sigma^2.
Proof.  W - W* = -W* (I - G f) + N X^T f; the two terms are uncorrelated given X, the rows of W* and N are isotropic, so
E ||W - W*||^2 = d E ||I - G f||^2 + d sigma^2 E ||X^T f||^2, and the query is N(0, I).

zero            f = 0.
one_step        The gradient of 1/2 sum ||y - W x||^2 at W = 0 is -S_yx, so f = eta.  With T_j = E tr G^j, T_1 = k d and
                T_2 = k d (k + d + 1), the sum is d [1 - 2 eta k + eta^2 k (k + d + 1 + sigma^2)], least at
                eta = 1 / (k + d + 1 + sigma^2), where it is d (1 - rho_k), rho_k = k / (k + d + 1 + sigma^2).
                This is SkipV1Former's optimum (`theory.skipv1.gap` at full rank).
steps           W <- W + eta (S_yx - W G), t times from 0, makes 1 - lambda f = r = (1 - eta lambda)^t, and the second
                term sigma^2 (1 - r)^2 / lambda: both polynomials, so that the sum is, exactly,
                    sum_{j=0}^{2t} (-eta)^j [C(2t, j) T_j + sigma^2 (C(2t, j) - 2 C(t, j)) T_{j-1}],
                whose second term vanishes for j <= 1.
minimum_norm    f = 1 / lambda where lambda > 0: the sum is (d - k)_+ + sigma^2 E tr G^+.  The mean inverse of a Wishart
                matrix of size m with M degrees of freedom has trace m / (M - m - 1) for M > m + 1, and is infinite for
                M <= m + 1, where the density of its least eigenvalue is at 0 no smaller than a constant.  Here m and M
                are the smaller and the larger of d and k (G and X^T X have the same positive spectrum); m = 0 gives 0.
ridge           Given X, the rows of W* are a posteriori N(row of S_yx (G + sigma^2)^-1, sigma^2 (G + sigma^2)^-1).  The
                mean minimises the expected square, over all estimators; the covariance's trace is what is left:
                the sum is E sum_i sigma^2 / (lambda_i + sigma^2), as f = 1 / (lambda + sigma^2) in the lemma says too.
                As sigma -> 0 it tends to (d - k)_+, the minimum-norm solution's.

Moments.  T_j follows from integration by parts over X: for any product P of traces p_m = tr G^m, with p_0 = d,
    E[p_j P] = (k + j - 1) E[p_{j-1} P] + sum_{i=1}^{j-1} E[p_i p_{j-1-i} P] + sum_{p_m in P} 2 m E[p_{j-1+m} P / p_m].
For p_j = sum_ab X_ab (X^T G^{j-1})_ba, so E[p_j P] = E sum_ab d/dX_ab [(X^T G^{j-1})_ba P].  The derivative of X^T
gives k p_{j-1}; that of the i-th factor G = X X^T gives p_{j-1} by its X and p_i p_{j-1-i} by its X^T; that of p_m,
2 m (G^{m-1} X)_ab, gives 2 m p_{j-1+m}.  All are whole numbers, and the total degree falls by 1.

Many steps.  One step size for all prompts has to suit rare ones.  The largest eigenvalue's density falls like
exp(-lambda / 2) times a power, so with eta = c / t, at lambda = x t, E (1 - eta lambda)^(2t) holds a term of about
exp(t [2 ln|c x - 1| - x / 2]), which explodes for large t once c > min over y > 2 of y / (4 ln(y - 1)) = 0.898.  So
t eta stays below about 0.9, r tends to exp(-c lambda), and no number of steps reaches ridge: at d = k = 1 and
sigma = 0 the loss tends to (1 + 4 c)^(-1/2) = 0.467, not to 0.

Sampling the spectrum would not do for `steps`: those rare eigenvalues are in no sample, and a step size fitted to one
diverges on them.  Ridge averages numbers from 0 to 1, and is sampled.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache
from math import comb, inf
from typing import TYPE_CHECKING, Any

from theory.errors import InvalidSize, at_least, check_sizes
from theory.prompts.setting import Estimate, Number, signal_share, zero_loss

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

LARGEST_COUNT = 32  # of gradient steps: the moments up to 2 t pass through a number of partitions that soon explodes
LARGEST_SAMPLED = 10**6  # of d k
FEWEST_SAMPLES = 64


def zero(d: int, sigma: Number) -> Any:
    """Return d^2 + d sigma^2, the loss of predicting zero; exact if sigma is a Fraction.

    Raises InvalidSize.
    """
    return zero_loss(d, 1, sigma)


def one_step(d: int, k: int, sigma: Number) -> Any:
    """Return the loss of the best single gradient step from zero; exact if sigma is a Fraction.

    It is `zero` - rho_k d^2, rho_k = k / (k + d + 1 + sigma^2).  Raises InvalidSize.
    """
    _check(d, k, sigma)
    return zero(d, sigma) - (d**2 * signal_share(d, k, sigma) if k else 0)


def minimum_norm(d: int, k: int, sigma: Number) -> Any:
    """Return the loss of the least-squares solution of least norm: double descent, with its peak at k = d.

    Infinite for |k - d| <= 1 if sigma > 0 and k > 0; exact if sigma is a Fraction.  Raises InvalidSize.
    """
    _check(d, k, sigma)
    noise = sigma**2 * _inverse_trace(d, k) if sigma else 0
    return d * (max(d - k, 0) + noise) + d * sigma**2


def ridge(d: int, k: int, sigma: float, *, samples: int | None = None) -> Estimate:
    """Return the loss of the Bayes posterior mean, ridge regression with penalty sigma^2; no estimator has a lower one.

    Exact for k = 0 or sigma = 0, else a mean over the spectra of `samples` Gaussian matrices from a fixed generator
    (default: at most a few seconds' worth), regressed on the traces of G, G^2 and, where its fourth moment is finite,
    G^+, whose means are known.  Raises InvalidSize for d k above LARGEST_SAMPLED or fewer than FEWEST_SAMPLES samples.
    """
    _check(d, k, sigma)
    if not k or not sigma:
        return Estimate(float(minimum_norm(d, k, sigma)), 0.0, "exact: nothing to shrink")
    if d * k > LARGEST_SAMPLED:
        raise InvalidSize(f"the ridge loss is estimated for d k up to {LARGEST_SAMPLED}, got {d * k}")
    small, large = min(d, k), max(d, k)
    samples = max(FEWEST_SAMPLES, min(50_000, int(3e8 / ((small + 8) * small * large)))) if samples is None else samples
    at_least("samples", samples, FEWEST_SAMPLES)
    import numpy as np

    spectra, noise = _spectra(small, large, samples), float(sigma) ** 2
    losses = d * (d - small + (noise / (spectra + noise)).sum(axis=1)) + d * noise
    controls = [spectra.sum(axis=1) - k * d, (spectra**2).sum(axis=1) - k * d * (k + d + 1)]
    if large - small > 7:  # the fourth moment too is finite, else the standard error means little
        controls.append((1 / spectra).sum(axis=1) - float(_inverse_trace(d, k)))
    design = np.column_stack([np.ones(samples), *(c / c.std() for c in controls)])
    slopes = np.linalg.lstsq(design, losses, rcond=None)[0]
    rest = losses - design @ slopes
    stderr = np.sqrt(np.linalg.inv(design.T @ design)[0, 0] * (rest @ rest) / (samples - design.shape[1]))
    rounding = 8 * np.finfo(float).eps * small * abs(slopes).sum()
    return Estimate(
        value=float(slopes[0]),
        stderr=float(np.hypot(stderr, rounding)),
        method=f"Monte Carlo over {samples} spectra with known traces as control variates",
    )


def steps(d: int, k: int, sigma: float, count: int) -> Estimate:
    """Return the loss of `count` gradient steps from zero, all with the step size that is best for these arguments.

    Exact to rounding (stderr 0).  Raises InvalidSize, for a count above LARGEST_COUNT too.
    """
    _check(d, k, sigma, count)
    return Estimate(_best(d, k, sigma, count)[1], 0.0, "exact moments of the spectrum, minimised over the step size")


def best_step(d: int, k: int, sigma: float, count: int) -> float:
    """Return the step size eta behind `steps`, for the gradient of 1/2 sum ||y - W x||^2, not divided by k.

    0 where nothing moves (k = 0 or count = 0).  Raises InvalidSize.
    """
    _check(d, k, sigma, count)
    return _best(d, k, sigma, count)[0]


def after_steps(d: int, k: int, sigma: Number, count: int, eta: Number) -> Fraction:
    """Return the exact loss of `count` gradient steps of size eta from zero.  Raises InvalidSize."""
    _check(d, k, sigma, count)
    noise, move, share = Fraction(sigma) ** 2, -Fraction(eta), Fraction(0)
    moments = trace_moments(d, k, 2 * count)
    for j in range(2 * count, -1, -1):
        even = comb(2 * count, j)
        share = share * move + even * moments[j]
        if j > 1:
            share += noise * (even - 2 * comb(count, j)) * moments[j - 1]
    return d * share + d * noise


@lru_cache(maxsize=256)
def trace_moments(d: int, k: int, top: int) -> tuple[int, ...]:
    """Return E tr G^j for j = 0 .. top, exactly; G = X X^T with X: d x k standard normal."""

    @cache
    def mean(parts: tuple[int, ...]) -> int:
        """Return E of the product of tr G^m over the parts m, in ascending order."""
        if not parts:
            return 1
        j, *rest = parts
        if j == 0:
            return d * mean(tuple(rest))
        value = (k + j - 1) * mean(tuple(sorted([j - 1, *rest])))
        value += sum(mean(tuple(sorted([i, j - 1 - i, *rest]))) for i in range(1, j))
        for place, m in enumerate(rest):
            value += 2 * m * mean(tuple(sorted([j - 1 + m, *rest[:place], *rest[place + 1 :]])))
        return value

    return tuple(mean((j,)) for j in range(top + 1))


@lru_cache(maxsize=256)
def _best(d: int, k: int, sigma: float, count: int) -> tuple[float, float]:
    """Return the best step size and its loss.

    The search runs from a small part of the best single step over the number of steps, since t small steps move as far
    as one, to four times the best single step without noise, where eigenvalues of mean size already diverge.
    """
    import numpy as np
    from scipy.optimize import minimize_scalar

    if not (count and k):
        return 0.0, float(zero(d, sigma))

    def loss(log_eta: float) -> float:
        return float(after_steps(d, k, sigma, count=count, eta=float(np.exp(log_eta))))

    low, high = np.log(0.05 / count / (k + d + 1 + float(sigma) ** 2)), np.log(4 / (k + d + 1))
    grid = np.linspace(low, high, 48)
    place = min(range(1, len(grid) - 1), key=lambda i: loss(float(grid[i])))
    minimum = minimize_scalar(
        loss, bounds=(grid[place - 1], grid[place + 1]), method="bounded", options={"xatol": 1e-10}
    )
    return float(np.exp(minimum.x)), float(minimum.fun)


def _check(d: int, k: int, sigma: Number, count: int = 0) -> None:
    """Raise as `check_sizes`, with k = 0 allowed, and for a count that is too large."""
    at_least("k", k, 0)
    check_sizes(d, max(k, 1), sigma)
    at_least("count", count, 0)
    if count > LARGEST_COUNT:
        raise InvalidSize(f"count must be at most {LARGEST_COUNT}, got {count}")


def _inverse_trace(d: int, k: int) -> Any:
    """Return E tr G^+."""
    small, large = min(d, k), max(d, k)
    if not small:
        return 0
    return Fraction(small, large - small - 1) if large > small + 1 else inf


def _spectra(small: int, large: int, samples: int) -> NDArray[float64]:
    """Return the squared singular values of `samples` standard normal matrices: (samples, small)."""
    import numpy as np

    rng = np.random.default_rng(0)
    batch = max(1, 2**21 // (small * large))
    sizes = [min(batch, samples - start) for start in range(0, samples, batch)]
    return np.concatenate(
        [np.linalg.svd(rng.standard_normal((size, small, large)), compute_uv=False) ** 2 for size in sizes]
    )
