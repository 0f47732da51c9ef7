"""Claims on how large sublayers' outputs are with random weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.ledger.claim import Claim
from theory.attnres import typical
from theory.attnres.paper import PAPER
from theory.attnres.typical import attention_square, feed_forward_spread, feed_forward_square, inner_square

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

ERRORS = 5  # standard errors: wrongly rejected once in 2 million
DRAWS = 400_000

TYPICAL = Claim(
    "attnres.typical-output",
    PAPER.name,
    place="opening: hidden-state magnitudes grow with depth under PreNorm; how fast at the start, it does not say",
    statement="With independent normal weights of mean 0, the mean square of a sublayer's output is, at any width, "
    "d d_ff written^2 E z^2 for a feed-forward, z an inner number, and d w H (written std)^2 d share for attention, "
    "share = 1/t for even attention over t unrelated tokens; outputs are uncorrelated, so PreNorm's stream has the "
    "mean square of the embedding plus their sum.",
    assumes="normed inputs (RMSNorm, eps = 0, gain 1) that do not depend on the sublayer's own weights; no biases",
    verdict="verified",
    proof=typical,
)


def _near(samples: Array, mean: float) -> bool:
    """Within ERRORS standard errors, which are small beside the mean."""
    error = float(samples.std(ddof=1)) / math.sqrt(len(samples))
    return error < 0.1 * mean and abs(float(samples.mean()) - mean) <= ERRORS * error


def _inner(kind: str, a: Array, b: Array) -> Array:
    from scipy.special import expit, ndtr

    return a * ndtr(a) if kind == "gelu" else a * expit(a) * (b if kind == "swiglu" else 1)


@TYPICAL.check(
    "feed-forward of 400,000 draws at two shapes, three kinds, to five standard errors",
    states=inner_square,
    control=lambda q, kind: q / 4 * (q if kind == "swiglu" else 1),
    wrong="a/2 for the activation, true for small weights only",
    kind="sampled",
)
def feed_forwards_are_typical(square: Callable[..., float]) -> bool:
    """Mean squares, as d d_ff written^2 times `square`, and as theory has them."""
    import numpy as np

    rng = np.random.default_rng(0)
    for d, d_ff, std, written in ((2, 3, 0.9, 0.5), (3, 1, 0.5, 2.0)):
        u = rng.standard_normal(d)
        u *= math.sqrt(d) / float(np.linalg.norm(u))
        for kind in ("swiglu", "gelu", "silu"):
            gate, up = std * rng.standard_normal((2, DRAWS, d_ff, d)) @ u
            inner = _inner(kind, gate if kind == "swiglu" else up, up)
            down = written * rng.standard_normal((DRAWS, d, d_ff))
            found = ((down @ inner[:, :, None])[:, :, 0] ** 2).sum(1)
            mean = feed_forward_square(d, d_ff, std, written, kind)
            if not _near(found, mean) or not _near(found, d * d_ff * written**2 * square(d * std**2, kind)):
                return False
    return True


@TYPICAL.check(
    "attention of 400,000 draws: one token, four evenly, three unevenly, to five standard errors",
    states=2,
    control=1,
    wrong="weights in place of their squares: unrelated tokens do not cancel",
    kind="sampled",
)
def attention_is_typical(power: int) -> bool:
    """The share is the sum of weights to this power."""
    import numpy as np

    rng = np.random.default_rng(1)
    d, heads, width, std, written = 3, 2, 2, 0.7, 0.5
    for weights in ((1.0,), (0.25,) * 4, (0.6, 0.3, 0.1)):
        tokens = rng.standard_normal((DRAWS // 2, len(weights), d))
        tokens *= math.sqrt(d) / np.linalg.norm(tokens, axis=-1, keepdims=True)
        seen = np.einsum("t,ntd->nd", np.array(weights), tokens)
        value = std * rng.standard_normal((DRAWS // 2, heads * width, d))
        output = written * rng.standard_normal((DRAWS // 2, d, heads * width))
        found = ((output @ (value @ seen[:, :, None]))[:, :, 0] ** 2).sum(1)
        share = sum(w**power for w in weights)
        if not _near(found, attention_square(d, heads, width, std, written, share)):
            return False
    return True


@TYPICAL.check(
    "spread of the square and mean square of one inner number, by another quadrature, at nine sizes",
    states=(3.0, 1.0),
    control=(1.0, 1.0),
    wrong="the spread of z^2 alone, without that of what writes it",
)
def one_number_by_quadrature(moments: tuple[float, float]) -> bool:
    """At d = d_ff = 1 the output is k z with E k^4 = moments[0], E k^2 = moments[1] in units of `written`."""
    import numpy as np

    points, weights = np.polynomial.hermite_e.hermegauss(300)
    weights = weights / weights.sum()
    fourth, second = moments
    for q in (0.01, 1.0, 4.0):
        for kind in ("swiglu", "gelu", "silu"):
            a = math.sqrt(q) * points
            z = _inner("silu" if kind == "swiglu" else kind, a, a)
            square, tail = float(weights @ z**2), float(weights @ z**4)
            if kind == "swiglu":
                square, tail = square * q, tail * 3 * q**2
            spread = math.sqrt(fourth * tail / (second * square) ** 2 - 1)
            pairs = (
                (inner_square(q, kind), square),
                (feed_forward_square(1, 1, math.sqrt(q), 1.0, kind), second * square),
                (feed_forward_spread(1, 1, kind, std=math.sqrt(q)), spread),
            )
            if not all(math.isclose(x, y, rel_tol=1e-5) for x, y in pairs):
                return False
    return True


@TYPICAL.check(
    "PreNorm stacks of 2 and 6 sublayers at one token, 100,000 draws: their streams are sums of squares",
    states=2,
    control=1,
    wrong="the outputs' norms add, as if aligned",
    kind="sampled",
)
def streams_add_squares(power: int) -> bool:
    """The stream's norm to this power is the embedding's and the outputs' norms to this power, added up."""
    import numpy as np

    rng = np.random.default_rng(2)
    d, d_ff, std, written, draws = 3, 4, 0.7, 0.4, 100_000
    for layers in (1, 3):
        stream = rng.standard_normal((draws, d, 1))
        for _ in range(layers):
            for inner, gated in ((d, False), (d_ff, True)):
                u = math.sqrt(d) * stream / np.linalg.norm(stream, axis=1, keepdims=True)
                seen = std * rng.standard_normal((draws, inner, d)) @ u
                out = written * rng.standard_normal((draws, d, inner))
                stream = stream + out @ (_inner("gelu", seen, seen) if gated else seen)
        outputs = attention_square(d, 1, d, std, written, 1.0), feed_forward_square(d, d_ff, std, written, "gelu")
        squares = (d, *outputs * layers)
        added = sum(math.sqrt(square) ** power for square in squares) ** (2 / power)
        if not _near((stream**2).sum((1, 2)), added):
            return False
    return True
