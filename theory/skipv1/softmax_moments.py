"""The signal that softmax skip heads explain at finite logits, by quadrature over few pairs and sampling over many.

Notation and reduction of `theory.skipv1.softmax`: given the query, |Pi q| = s with s^2 ~ chi^2_a, and g_t ~ N(0, 1) are
the components of the x_t along it.  Everything is a mean over s and g_1, ..., g_n: d and sigma enter as factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.errors import BadInput, InvalidSize, at_least, check_sizes
from theory.plans.heads import SKIP, Heads
from theory.prompts.moments import Array
from theory.prompts.setting import Estimate, Number

LARGEST_GRID = 2**23
FEWEST_SAMPLES = 8
CHUNK = 2**18  # of numbers at a time


@dataclass(frozen=True)
class Moments:
    """The moments X, Y and Q of `theory.skipv1.softmax`, for an output entry with step 1.

    `signal` is the mean of its product with the label, `square` its mean square, and `even` the mean square of what is
    even in the query, which two skip heads do without.
    """

    signal: float
    square: float
    even: float

    def power(self, heads: Heads) -> float:
        return self.square + (self.even if heads.count(SKIP) == 1 else 0)

    def step(self, heads: Heads) -> float:
        """Return the best step c."""
        return self.signal / self.power(heads)

    def explained(self, d: int, heads: Heads) -> float:
        """Return how much the best step beats predicting zero, in squared units of y summed over its d entries."""
        return d * self.signal**2 / self.power(heads)


def quadrature(d: int, n: int, sigma: Number, rank: int, logit_scale: float, nodes: int = 40) -> Moments:
    """Return the moments by Gauss-Hermite in the g_t and Gauss-Laguerre in s^2, for few pairs.

    Raises InvalidSize for impossible sizes, rank 0, or a grid of more than LARGEST_GRID points.
    """
    from scipy.special import roots_genlaguerre

    _check(d, n, sigma, rank=rank, logit_scale=logit_scale)
    if nodes ** (n + 1) > LARGEST_GRID:
        raise InvalidSize(f"a grid of {nodes}^{n + 1} points is beyond {LARGEST_GRID}: sample instead")
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    halves, masses = roots_genlaguerre(nodes, rank / 2 - 1)
    g = np.stack([axis.ravel() for axis in np.meshgrid(*[points] * n, indexing="ij")], axis=-1)
    mass = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * n, indexing="ij")), axis=0).ravel()
    means = [mass @ _integrands(d, sigma, rank, eps=logit_scale, g=g, s=float(s)) for s in np.sqrt(2 * halves)]
    return Moments(*(masses / masses.sum() @ np.array(means)).tolist())


def sampled(
    d: int, n: int, sigma: Number, rank: int, logit_scale: float, samples: int = 20_000, seed: int = 0
) -> Moments:
    """Return the moments by sampling s and g, with the known moments of linear heads as control variates.

    Raises InvalidSize for impossible sizes, rank 0, or fewer than eight samples.
    """
    softmax, linear = _samples(d, n, sigma, rank=rank, logit_scale=logit_scale, samples=samples, seed=seed)
    known = rank * n * np.array([1.0, n + d + 1 + float(sigma) ** 2])
    controls = linear[:, :2] - known
    slopes = np.linalg.lstsq(controls - controls.mean(0), softmax - softmax.mean(0), rcond=None)[0]
    return Moments(*(softmax - controls @ slopes).mean(0).tolist())


def sampled_loss(
    d: int,
    n: int,
    sigma: Number,
    rank: int,
    heads: Heads,
    logit_scale: float,
    step: float,
    samples: int = 20_000,
    seed: int = 0,
) -> Estimate:
    """Return the loss at this step, sampled as in `sampled`, with its standard error."""
    softmax, linear = _samples(d, n, sigma, rank=rank, logit_scale=logit_scale, samples=samples, seed=seed)
    noise = float(sigma) ** 2
    power = softmax[:, 1] + softmax[:, 2] * (heads.count(SKIP) == 1)
    gain = d * (2 * step * softmax[:, 0] - step**2 * power)
    control = d * (2 * step * linear[:, 0] - step**2 * linear[:, 1])
    known = d * rank * n * (2 * step - step**2 * (n + d + 1 + noise))
    covariance = np.cov(gain, control)
    rest = gain - covariance[0, 1] / covariance[1, 1] * (control - known)
    return Estimate(
        value=d * d + d * noise - float(rest.mean()),
        stderr=float(rest.std(ddof=2) / samples**0.5),
        method=f"Monte Carlo over {samples} queries and contexts with linear heads as control variate",
    )


def _samples(
    d: int, n: int, sigma: Number, rank: int, logit_scale: float, samples: int, seed: int
) -> tuple[Array, Array]:
    """Return `_integrands` of softmax and of linear heads, draw by draw: (samples, 3) each."""
    _check(d, n, sigma, rank=rank, logit_scale=logit_scale)
    at_least("samples", samples, FEWEST_SAMPLES)
    rng = np.random.default_rng([seed, d, n, rank])
    found = []
    for start in range(0, samples, max(1, CHUNK // n)):
        count = min(max(1, CHUNK // n), samples - start)
        s, g = np.sqrt(rng.chisquare(rank, count)), rng.standard_normal((count, n))
        found.append([_integrands(d, sigma, rank, eps=scale, g=g, s=s) for scale in (logit_scale, 0.0)])
    softmax, linear = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return softmax, linear


def _integrands(d: int, sigma: Number, rank: int, eps: float, g: Array, s: Array | float) -> Array:
    """Return the quantities whose means are X, Y and Q: g (..., n), s (...) -> (..., 3)."""
    length = np.asarray(s)[..., None]
    noise, z = float(sigma) ** 2, eps * length * g
    if eps:
        top = np.abs(z).max(axis=-1, keepdims=True)  # taken out of numerator and denominator
        up, down = np.exp(z - top), np.exp(-z - top)
        scale = 1 / (eps * (up + down).mean(axis=-1, keepdims=True))
        h, k = (up - down) * scale, (up + down) * scale
    else:
        h, k = length * g, np.zeros_like(g)
    along, even = (h * g).sum(-1), (k * g).sum(-1) ** 2
    square = along**2 + (d - 1 + noise) * (h * h).sum(-1)
    even = (1 + 1 / d) * even + (d - 1 + (rank - 1) / d + noise) * (k * k).sum(-1)
    return np.stack([length[..., 0] * along, square, even], axis=-1)


def _check(d: int, n: int, sigma: Number, rank: int, logit_scale: float) -> None:
    check_sizes(d, n, sigma, rank)
    at_least("rank", rank, 1)
    if not 0 < logit_scale < float("inf"):
        raise BadInput(f"the logits' scale must be positive, got {logit_scale}")
