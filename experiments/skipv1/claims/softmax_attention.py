"""What entries on softmax heads are held against: attention token by token, and regression on squeezed prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from theory.plans.heads import Heads
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
    """Of so many draws, with a control variate of known mean."""
    if control is not None:
        covariance = np.cov(values, control)
        values = values - covariance[0, 1] / covariance[1, 1] * (control - known)
    return Mean(float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5))


def attention(first: Array, raw: Array, query: Array, weights: Weights, heads: Heads) -> Array:
    """The last token's output: first and raw (N, T, d), what layer 1 has made of the tokens seen and the tokens
    themselves; query (N, a) -> (N, d)."""
    out = np.zeros((len(first), first.shape[-1]))
    for head, w, k in zip(heads, weights.w, weights.k, strict=True):
        logits = np.einsum("ntd,da,na->nt", first, k, query)
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        out += np.einsum("nt,ntd,ed->ne", scores, head.copied * first + head.raw * raw, w)
    return out


def losses(weights: Weights, heads: Heads, d: int, n: int, sigma: float, sign: int = 1) -> Mean:
    """The loss of softmax heads over `SAMPLES` contexts x and queries; sign turns A."""
    rng = np.random.default_rng([d, n, len(heads)])
    x, query = rng.standard_normal((SAMPLES, n, d)), rng.standard_normal((SAMPLES, d))
    turned = replace(weights, a=sign * weights.a)
    return _mean(_given_inputs(turned, heads, x, query, sigma, own_token=False), (query**2).sum(1), d)


def own_token_loss(weights: Weights, heads: Heads, d: int, n: int, sigma: float, own_token: bool) -> float:
    """The loss with or without the query's own token in the softmax, by Gauss-Hermite in all entries of x and query."""
    points, masses = np.polynomial.hermite_e.hermegauss(NODES)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[points] * (n + 1) * d)], axis=-1)
    mass = np.prod([axis.ravel() for axis in np.meshgrid(*[masses / masses.sum()] * (n + 1) * d)], axis=0)
    x, query = grid[:, d:].reshape(-1, n, d), grid[:, :d]
    return float(mass @ _given_inputs(weights, heads, x, query, sigma, own_token))


def _given_inputs(
    weights: Weights, heads: Heads, x: Array, query: Array, sigma: float, own_token: bool
) -> NDArray[np.float64]:
    """The loss given contexts x (N, n, d) and queries (N, d), W* and the noise integrated: (N,).

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
        return attention(first, raw, seen, weights, heads)

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
    residual  label less prediction: (N, d); features: of what is seen, and of raw labels too: (N, F) each
    """

    loss: Mean
    residual: Array
    squeezed: Array
    raw: Array

    def improved(self, raw: bool) -> float:
        """By how many standard errors beyond STANDARD_ERRORS a fit to the residual improves on held-out prompts."""
        features, half = self.raw if raw else self.squeezed, len(self.residual) // 2
        fit = np.linalg.lstsq(features[:half], self.residual[:half], rcond=None)[0]
        held_out = self.residual[half:]
        gain = _mean((held_out**2 - (held_out - features[half:] @ fit) ** 2).sum(1))
        return gain.value / gain.stderr - STANDARD_ERRORS


@cache
def squeezed_regression(d: int, n: int, sigma: float, rank: int) -> SqueezedRegression:
    """`SAMPLES` prompts with random A and B of this rank."""
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
