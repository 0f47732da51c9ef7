"""Claims on softmax in the toy: attention over squeezed tokens, and a bound for any architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.ledger.claim import Claim
from theory.plans.heads import Heads
from theory.skipv1 import softmax as any_architecture
from theory.skipv1.compressed import any_model_floor, best_model_loss
from theory.skipv1.paper import PAPER
from theory.skipv1.softmax import FOUR, THREE, TWO
from theory.skipv1.softmax_bound import certified
from theory.skipv1.softmax_moments import Moments, quadrature
from theory.toy.exact import loss_at_entries
from theory.toy.population import Weights

Array = NDArray[np.float64]

SAMPLES = 20_000
STANDARD_ERRORS = 5
ROUNDING = 1e-9
NODES = 8  # exact for polynomials of degree 15 in each entry


@dataclass(frozen=True)
class Mean:
    value: float
    stderr: float

    def agrees(self, expected: float) -> bool:
        return abs(self.value - expected) <= STANDARD_ERRORS * self.stderr + ROUNDING * abs(expected)


def _mean(values: Array, control: Array | None = None, known: float = 0.0) -> Mean:
    """Return the mean of so many draws, with a control variate of known mean."""
    if control is not None:
        covariance = np.cov(values, control)
        values = values - covariance[0, 1] / covariance[1, 1] * (control - known)
    return Mean(float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5))


def attention(first: Array, raw: Array, query: Array, weights: Weights, heads: Heads) -> Array:
    """Return the last token's output, (N, d).

    Args:
        first: What layer 1 has made of the tokens seen, (N, T, d).
        raw: These tokens themselves, (N, T, d).
        query: (N, a).
        weights: Of the heads.
        heads: Ordinary and skip heads.
    """
    out = np.zeros((len(first), first.shape[-1]))
    for head, w, k in zip(heads, weights.w, weights.k, strict=True):
        logits = np.einsum("ntd,da,na->nt", first, k, query)
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        out += np.einsum("nt,ntd,ed->ne", scores, head.copied * first + head.raw * raw, w)
    return out


def losses(weights: Weights, heads: Heads, d: int, n: int, sigma: float, sign: int = 1) -> Mean:
    """Return the loss of softmax heads over `SAMPLES` contexts x and queries; sign turns A."""
    rng = np.random.default_rng([d, n, len(heads)])
    x, query = rng.standard_normal((SAMPLES, n, d)), rng.standard_normal((SAMPLES, d))
    turned = replace(weights, a=sign * weights.a)
    return _mean(_given_inputs(turned, heads, x, query=query, sigma=sigma, own_token=False), (query**2).sum(1), d)


def own_token_loss(weights: Weights, heads: Heads, d: int, n: int, sigma: float, own_token: bool) -> float:
    """Return the loss with or without the query's own token in the softmax, by Gauss-Hermite in all of x and query."""
    points, masses = np.polynomial.hermite_e.hermegauss(NODES)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[points] * (n + 1) * d)], axis=-1)
    mass = np.prod([axis.ravel() for axis in np.meshgrid(*[masses / masses.sum()] * (n + 1) * d)], axis=0)
    x, query = grid[:, d:].reshape(-1, n, d), grid[:, :d]
    return float(mass @ _given_inputs(weights, heads, x, query=query, sigma=sigma, own_token=own_token))


def _given_inputs(
    weights: Weights, heads: Heads, x: Array, query: Array, sigma: float, own_token: bool
) -> NDArray[np.float64]:
    """Return the loss given contexts x (N, n, d) and queries (N, d), W* and the noise integrated: (N,).

    For heads that take y_t's first entry to the prediction's first entry alone, and all entries alike: the output is
    linear in the y_t, so its values at y = 0 and at y_t = e_1 for one t tell all.
    """
    n, d = x.shape[1:]
    seen = query @ weights.a.T

    def output(y: Array) -> Array:
        first = np.concatenate([x, np.concatenate([x @ weights.a.T, y @ weights.b.T], axis=-1)], axis=1)
        raw = np.concatenate([x, y], axis=1)
        if own_token:
            padded = np.concatenate([seen, 0 * query[:, : len(weights.b)]], axis=1)
            first, raw = (np.concatenate(pair, axis=1) for pair in ((first, padded[:, None]), (raw, query[:, None])))
        return attention(first, raw, seen, weights=weights, heads=heads)

    at_zero = output(0 * x)
    units = np.eye(n)[:, :, None] * np.eye(d)[0]
    h = np.stack([(output(np.broadcast_to(unit, x.shape)) - at_zero)[:, 0] for unit in units], axis=1)
    miss = np.einsum("nt,ntd->nd", h, x) - query
    loss: Array = d * ((miss**2).sum(1) + sigma**2 * (h**2).sum(1)) + (at_zero**2).sum(1) + d * sigma**2
    return loss


@dataclass(frozen=True, eq=False)
class SqueezedRegression:
    """Prompts of which A q and the B y_t are seen, and what the posterior mean leaves of the labels.

    loss      of the posterior mean
    residual  label minus prediction: (N, d); features: of what is seen, and of raw labels too: (N, F) each
    """

    loss: Mean
    residual: Array
    squeezed: Array
    raw: Array

    def improved(self, raw: bool) -> float:
        """Return how far beyond STANDARD_ERRORS standard errors a fit to the residual improves on held-out prompts."""
        features, half = self.raw if raw else self.squeezed, len(self.residual) // 2
        fit = np.linalg.lstsq(features[:half], self.residual[:half], rcond=None)[0]
        held_out = self.residual[half:]
        gain = _mean((held_out**2 - (held_out - features[half:] @ fit) ** 2).sum(1))
        return gain.value / gain.stderr - STANDARD_ERRORS


@cache
def squeezed_regression(d: int, n: int, sigma: float, rank: int) -> SqueezedRegression:
    """Sample `SAMPLES` prompts with random A and B of this rank."""
    rng = np.random.default_rng([d, n, rank])
    a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
    w, x, query = (rng.standard_normal((SAMPLES, d, size)) for size in (d, n, 1))
    y = w @ x + sigma * rng.standard_normal(x.shape)
    label = (w @ query + sigma * rng.standard_normal(query.shape))[..., 0]
    gram = x @ x.mT
    inverse = np.linalg.inv(gram + sigma**2 * np.eye(d))
    along_a = np.linalg.pinv(a) @ a @ query  # all that A q tells of q
    from_b = np.linalg.pinv(b)
    residual = label - (from_b @ (b @ y) @ x.mT @ inverse @ along_a)[..., 0]

    def features(labels: Array) -> Array:
        moment = labels @ x.mT
        reads = np.concatenate([moment, moment @ gram / n**2, moment @ inverse * n], axis=1)
        size = np.sqrt((gram**2).sum((1, 2), keepdims=True))
        return np.concatenate([(m @ along_a)[..., 0] for m in (reads, reads / size)], axis=1)

    return SqueezedRegression(
        _mean((residual**2).sum(1), (label**2).sum(1), d * d + d * sigma**2), residual, features(b @ y), features(y)
    )


ANY = Claim(
    "skipv1.any-architecture",
    PAPER.ours,
    place="theory.skipv1.softmax: appendix A.1, Theorem 2, with softmax heads and against models of any kind",
    statement="Any function of the tokens (A x_t ; B y_t), of the x_t and of the query's A x explains at most "
    "r a (d - a) of W*, r <= n/max(d, n + sigma^2), and the posterior mean just that.  Two skip heads with softmax "
    "attention over the 2n context tokens, and one ordinary one (two where a < d), explain more than rho a d at finite "
    "weights.  So SkipV1Former's best is below every such model's by more than rho d^2 - r floor(d^2/4), which is "
    "positive for all d, n and sigma.  One skip and one ordinary softmax head explain a d in the limit of long "
    "prompts.",
    assumes="W* ~ N(0, I), x ~ N(0, I), Gaussian noise; Assumption 1; the query hidden from itself by P; of the heads "
    "it is said that such weights exist, not that training finds them",
    verdict="verified",
    proof=any_architecture,
    uses=("skipv1.a2-deeper", "skipv1.skipv1-minimum"),
)
TASKS = ((1, 1, 0.5), (2, 3, 0.5), (3, 2, 1.0), (3, 6, 0.3))
NOISE = (Fraction(0), Fraction(1, 2), Fraction(4))
EXACT_TASKS = [(d, n, sigma) for d in range(1, 8) for n in (1, 2, 3, 5, 8, 40) for sigma in NOISE]


@ANY.check(
    "the posterior mean of squeezed prompts, random A and B: its loss over 20,000 prompts, every rank",
    states=lambda d, a: a * (d - a),
    control=lambda d, a: a * d,
    wrong="as if raw labels were seen",
    kind="sampled",
)
def posterior_mean_loses(entries: Callable[[int, int], int]) -> bool:
    for d, n, sigma in TASKS:
        zero = d * d + d * sigma**2
        for rank in range(d + 1):
            said = best_model_loss(d, n, sigma, rank).value
            if seen := rank * (d - rank):
                said = zero - (zero - said) * entries(d, rank) / seen
            elif entries(d, rank):
                said = zero - best_share(d, n, sigma) * entries(d, rank)
            if not squeezed_regression(d, n, sigma, rank).loss.agrees(said):
                return False
    return True


def best_share(d: int, n: int, sigma: float) -> float:
    """Return r, over 2,000 Gaussian matrices."""
    x = np.random.default_rng(d).standard_normal((2_000, d, n))
    spectra = np.linalg.eigvalsh(x @ x.mT)
    return float((spectra / (spectra + sigma**2)).mean())


@ANY.check(
    "nothing improves on it: features of squeezed prompts, fitted to what it leaves, explain none of it",
    states=False,
    control=True,
    wrong="features of raw labels, which do",
)
def nothing_is_left(raw: bool) -> bool:
    """Fit cubic and spectral features by least squares on one half of the prompts, and judge on the other."""
    for d, n, sigma, rank in ((2, 3, 0.5, 1), (3, 6, 0.3, 2)):
        if squeezed_regression(d, n, sigma, rank).improved(raw) > 0:
            return False
    return True


@ANY.check(
    "the floor is what the rank of the context allows without noise, exactly, and below the posterior mean with it",
    states=any_model_floor,
    control=lambda d, n, sigma, rank: d * d + d * sigma**2 - rank * (d - rank),
    wrong="as if prompts were endless",
    kind="exact",
)
def floor_holds(floor: Callable[[int, int, Any, int], Any]) -> bool:
    rng = np.random.default_rng(31)
    for d, n in ((1, 1), (2, 1), (3, 2), (3, 7), (4, 3)):
        rows = np.linalg.matrix_rank(rng.standard_normal((d, n)))
        for rank in range(d + 1):
            if floor(d, n, Fraction(0), rank) != d * d - Fraction(rank * (d - rank) * int(rows), d):
                return False
            if floor(d, n, 0.5, rank) > d * d + d / 4 - best_share(d, n, 0.5) * rank * (d - rank) * 0.97:
                return False
    # and with noise it is sharp for long prompts
    long = (3 * 3 + 12 - floor(3, 4000, 2.0, 1)) / 2
    return abs(1 - long - 0.001 * (1 - long / 4000)) < 1e-5


@ANY.check(
    "softmax over tokens, with the explicit weights, is the sum of sinh, and of cosh where one skip head is alone",
    states=1,
    control=-1,
    wrong="A with its sign turned",
)
def heads_are_sums(sign: int) -> bool:
    """Compare prompt by prompt, to rounding."""
    rng, step = np.random.default_rng(32), 0.7
    for d, n, rank, heads in ((1, 1, 1, TWO), (2, 3, 2, THREE), (3, 2, 1, FOUR), (3, 4, 2, TWO), (2, 5, 2, FOUR)):
        weights = any_architecture.softmax_weights(d, n, rank, heads=heads, logit_scale=0.6, step=step)
        a, b, keep = sign * weights.a, weights.b, np.arange(d) < rank
        x, y, query = (rng.standard_normal((1, size, d)) for size in (n, n, 1))
        first = np.concatenate([x, np.concatenate([x @ a.T, y @ b.T], axis=-1)], axis=1)
        found = attention(first, np.concatenate([x, y], axis=1), query[:, 0] @ a.T, weights=weights, heads=heads)[0]
        logits = 0.6 * x[0] @ (keep * query[0, 0])
        expected = np.sinh(logits) @ y[0]
        if heads == TWO:
            expected = expected + np.cosh(logits) @ (y[0] + keep * x[0])
        if not np.allclose(found, step / 0.6 * expected / np.cosh(logits).mean(), rtol=0, atol=1e-10):
            return False
    return True


@ANY.check(
    "softmax over tokens, with the explicit weights: the loss that quadrature gives, one to three pairs, every rank",
    states=1,
    control=-1,
    wrong="A with its sign turned",
)
def weights_lose(sign: int) -> bool:
    cases = ((1, 1, 0.5, 1, TWO), (2, 2, 0.3, 2, THREE), (2, 3, 1.0, 2, TWO), (3, 2, 0.5, 1, FOUR), (3, 1, 0.5, 2, TWO))
    for d, n, sigma, rank, heads in cases:
        moments = quadrature(d, n, sigma, rank=rank, logit_scale=0.6, nodes=24)
        step, explained = moments.step(heads), moments.explained(d, heads)
        weights = any_architecture.softmax_weights(d, n, rank, heads=heads, logit_scale=0.6, step=step)
        said = d * d + d * sigma**2 - explained
        if abs(d * step * (2 * moments.signal - step * moments.power(heads)) - explained) > 1e-12 * explained:
            return False
        if not losses(weights, heads, d, n=n, sigma=sigma, sign=sign).agrees(said):
            return False
    return True


@ANY.check(
    "the proved moments lie on the safe side of quadrature's, and near it for small logits, two and three pairs",
    states=certified,
    control=lambda d, n, sigma, rank, eps: Moments(rank * n, rank * n * (n + d + 1 + sigma**2), n / eps**2),
    wrong="the linear heads' moments",
)
def bounds_hold(bound: Callable[[int, int, float, int, float], Moments]) -> bool:
    for d, n, sigma, rank in ((1, 2, 0.0, 1), (2, 2, 0.3, 2), (3, 3, 0.5, 2)):
        for eps in (0.03, 0.1, 0.2):
            exact, proved = quadrature(d, n, sigma, rank=rank, logit_scale=eps, nodes=20), bound(d, n, sigma, rank, eps)
            distances = (
                1 - proved.signal / exact.signal,
                proved.square / exact.square - 1,
                proved.even / exact.even - 1,
            )
            if min(distances) < -1e-9 or (eps < 0.05 and max(distances) > 5e-5):
                return False
    return True


@ANY.check(
    "small logits explain more than none, as much as said: second differences of quadrature; and proved at eps = 0.04",
    states=Fraction(1),
    control=Fraction(1, 2),
    wrong="half as much",
)
def small_logits_gain(factor: Fraction) -> bool:
    for d, n, sigma, rank in ((1, 1, Fraction(0), 1), (2, 2, Fraction(1, 2), 1), (3, 2, Fraction(1), 3)):
        linear = n * rank * d / (n + d + 1 + sigma**2)
        said = float(factor * any_architecture.small_logits_gain(d, n, sigma, rank))
        near, far = (
            (quadrature(d, n, float(sigma), rank=rank, logit_scale=eps, nodes=20).explained(d, THREE) - linear) / eps**2
            for eps in (0.01, 0.02)
        )
        if abs((4 * near - far) / 3 / said - 1) > 1e-4:
            return False
        if certified(d, n, float(sigma), rank=rank, logit_scale=0.04).explained(d, THREE) <= linear:
            return False
    return certified(2, 8, 0.3, rank=2, logit_scale=0.04).explained(2, THREE) > 8 * 4 / (8 + 3 + 0.09)


@ANY.check(
    "the gaps are the floor less the least loss of SkipV1Former's linear heads, positive between the optima; rational",
    states=Fraction(1, 4),
    control=Fraction(1, 2),
    wrong="as if half of W* could be seen",
    kind="exact",
)
def gaps_are_positive(seen: Fraction) -> bool:
    """Check exactly, for every size of EXACT_TASKS."""
    for d, n, sigma in EXACT_TASKS:
        zero, share = d * d + d * sigma**2, n / max(Fraction(d), n + sigma**2)
        minima = [loss_at_entries(d, n, sigma, rank * d) for rank in range(d + 1)]
        between = zero - share * int(seen * d * d) - minima[d]
        if between <= 0 or between != any_architecture.gap_of_optima(d, n, sigma):
            return False
        for rank, minimum in enumerate(minima):
            if zero - share * rank * (d - rank) - minimum != any_architecture.gap_at_rank(d, n, sigma, rank):
                return False
    return True


@ANY.check(
    "one skip and one ordinary head, proved: more than a (d - a) from some hundred pairs on, and a d in the limit",
    states=lambda d, a: a * d,
    control=lambda d, a: a * (d - a) + 1,
    wrong="one entry of W* more than any compressed model",
)
def two_heads_tend(limit: Callable[[int, int], int]) -> bool:
    for d, rank in ((2, 2), (4, 4), (4, 3)):
        explained = [
            certified(d, n, 0.3, rank=rank, logit_scale=min(0.2, n**-0.25)).explained(d, TWO)
            for n in (10**3, 10**6, 10**9)
        ]
        left = limit(d, rank) - np.array(explained)
        if explained[0] <= (d * d) // 4 or not 0 < left[2] < 1e-3 * rank * d or not left[0] > left[1] > left[2]:
            return False
    return True


@ANY.check(
    "with the query's own token in the softmax four heads with small logits explain the share said",
    states=True,
    control=False,
    wrong="without that token, where it is rho",
)
def own_token_costs(own: bool) -> bool:
    for d, n, sigma in ((1, 1, 0.5), (1, 2, 0.0), (2, 1, 0.5)):
        share = any_architecture.own_token_share(d, n, sigma)
        weights = any_architecture.softmax_weights(
            d, n, d, heads=FOUR, logit_scale=0.003, step=share / n * (1 + own / (2 * n))
        )
        explained = d * d + d * sigma**2 - own_token_loss(weights, FOUR, d, n=n, sigma=sigma, own_token=own)
        if abs(explained / (d * d * share) - 1) > 1e-3:
            return False
    return True
