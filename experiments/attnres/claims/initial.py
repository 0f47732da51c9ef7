"""Claims on the sizes of sublayers' outputs and reads at random weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import erf, exp, pi, sqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

from experiments.attnres.claims.decoders import CLOSE, SIZES, UNJUDGED
from experiments.ledger.claim import Claim, Conditions, at
from theory.attnres import initial, typical
from theory.attnres.initial import initial_outputs, initial_reads
from theory.attnres.initial_tokens import inner_products, token_reads
from theory.attnres.paper import PAPER
from theory.attnres.typical import attention_square, feed_forward_spread, feed_forward_square, inner_square
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.presets import llama

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

INITIAL = Claim(
    "attnres.initial-size",
    PAPER.name,
    place="summary: uniform accumulation makes hidden states grow without bound, as in PreNorm; at initial weights",
    statement="On average over initial weights every read has a mean square in closed form.  With outputs scaled by "
    "1 / sqrt(2 L), as in GPT-2, PreNorm's last read is of one size at every number of layers L, and Full's falls as "
    "1 / (2 L + 1).  A token that sees others reads less, by a recursion over its place.",
    assumes="normal weights; eps = 0; zero queries; a token that stands alone.  Of others: wide networks that attend "
    "evenly, d std^2 being small, and tokens that are all different; in any case the mean square is at most a lone "
    "token's",
    verdict="corrected",
    correction="With scaled outputs nothing at the start grows with the number of layers; unscaled ones make the mean "
    "square grow linearly in it.",
    proof=initial,
    unjudged=UNJUDGED,
)


@INITIAL.check(
    "all reads by hand, feed-forwards by quadrature: 1 layer of width 4 at two deviations, gated and GELU; 2 layers of "
    "width 128, 4 and 64 of width 64",
    states=1.0,
    control=0.5,
    wrong="a normed vector's square is half its width",
)
def reads_by_hand(square: float) -> Conditions:
    """Compute reads by hand; square: the mean square of a normed vector's numbers."""
    for std in (0.3, 0.6):
        for gated in (True, False):
            yield _by_hand(replace(SIZES, n_layers=1, gated=gated), square, std)
    yield _by_hand(llama(d_model=128, n_heads=4, n_layers=2, d_ff=256, vocab=32, context=8), square, 0.03)
    for layers in (4, 64):
        yield _by_hand(llama(d_model=64, n_heads=4, n_layers=layers, d_ff=128, vocab=8, context=2), square, 0.02)


def _by_hand(config: Architecture, square: float, std: float) -> bool:
    from scipy.integrate import quad

    d, layers, gated = config.d_model, config.n_layers, config.gated
    inner = std**2 * d * square
    written = std**2 / (2 * layers)  # what writes to the stream, scaled by the depth
    root = sqrt(inner)

    def squared(z: float) -> float:
        return (z / (1 + exp(-z))) ** 2 if gated else (z * (1 + erf(z / sqrt(2))) / 2) ** 2

    gate = quad(lambda z: squared(root * z) * exp(-(z**2) / 2) / sqrt(2 * pi), -12, 12)[0]
    sublayers = [d * written * d * inner, d * written * config.d_ff * gate * (inner if gated else 1)]
    sums = np.cumsum([d * std**2, *sublayers * layers])
    for name, counts in (("vanilla", 1), ("attnres", np.arange(1, 2 * layers + 2))):
        found = initial_reads(config, resolve(name, config.shape), std)
        if not np.allclose(found, sums / counts**2, rtol=1e-7, atol=0):
            return False
    return True


@INITIAL.check(
    "the embedding's mean square by hand: a token's d numbers, and a place's as many where places are learned",
    states={"rope": 1, "none": 1, "learned": 2},
    control={"rope": 1, "none": 1, "learned": 1},
    wrong="learned positions add nothing",
)
def embeddings_by_hand(parts: Mapping[Literal["rope", "none", "learned"], int]) -> Conditions:
    for positions, count in parts.items():
        config = replace(SIZES, positions=positions)
        found = initial_outputs(config, resolve("vanilla", config.shape), 0.3)[0]
        yield math.isclose(found, count * config.d_model * 0.3**2, rel_tol=CLOSE)


@INITIAL.check(
    "decoders of 150 seeds, RMSNorm and gated, LayerNorm and GELU, to four standard errors",
    states=True,
    control=False,
    wrong="outputs are not scaled",
    kind="sampled",
)
def initial_decoders(scaled: bool) -> Conditions:
    from experiments.attnres.networks import read_norms
    from icl.models.decoder import Decoder

    llama_like = replace(SIZES, n_layers=1)
    gpt_like = replace(llama_like, gated=False, norm="layer", positions="learned")
    for name, config in (("vanilla", llama_like), ("attnres", gpt_like)):
        plan = resolve(name, config.shape)
        models = (Decoder(config, plan, seed=seed, std=0.6).double() for seed in range(150))
        squares = np.array([read_norms(model) for model in models]) ** 2
        errors = squares.std(0, ddof=1) / sqrt(len(squares))
        yield not (abs(squares.mean(0) - initial_reads(config, plan, 0.6, scale_outputs=scaled)) > 4 * errors).any()


@INITIAL.check(
    "the last read at 4 and 64 layers, by the closed form",
    states={"vanilla": 1.0, "attnres": (9 / 129) ** 2},
    control={"vanilla": 1.0, "attnres": 1.0},
    wrong="Full's keeps its size",
    others={"PreNorm's grows as the square root of the depth": {"vanilla": 4.0, "attnres": (9 / 129) ** 2}},
)
def deep_and_shallow(ratios: Mapping[str, float]) -> bool:
    """Compare mean squares of the last read at 64 layers with those at 4, as ratios."""

    def last(name: str, layers: int) -> float:
        config = llama(d_model=64, n_heads=4, n_layers=layers, d_ff=128, vocab=8, context=2)
        return initial_reads(config, resolve(name, config.shape))[-1]

    return all(abs(last(name, 64) / last(name, 4) / ratio - 1) < CLOSE for name, ratio in ratios.items())


@INITIAL.check(
    "two tokens through one attention sublayer by hand: the second sees two halves, unrelated",
    states=0.5,
    control=1.0,
    wrong="as if it saw one token",
)
def two_tokens_by_hand(share: float) -> Conditions:
    config = replace(SIZES, n_layers=1, d_ff=0)
    for name, counts in (("vanilla", (1, 1)), ("attnres", (1, 2))):
        plan = resolve(name, config.shape)
        embedding, attention = initial_outputs(config, plan, 0.3)
        expected = [
            [embedding] * 2,
            [(embedding + attention) / counts[1] ** 2, (embedding + share * attention) / counts[1] ** 2],
        ]
        yield np.allclose(token_reads(config, plan, 2, 0.3), expected, rtol=CLOSE, atol=0)


@INITIAL.check(
    "products of two tokens' inner numbers, by a series and by quadrature in two dimensions",
    states=1,
    control=2,
    wrong="the square of their arguments' correlation",
)
def products_by_quadrature(power: int) -> Conditions:
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    masses = np.outer(weights, weights) / weights.sum() ** 2
    first, other = np.meshgrid(nodes, nodes, indexing="ij")
    for q in (0.05, 0.5):
        for correlation in (0.0, 0.4, -0.7, 1.0):
            pair = [sqrt(q) * x for x in (first, correlation * first + sqrt(1 - correlation**2) * other)]
            silu = float((masses * np.prod([a / (1 + np.exp(-a)) for a in pair], axis=0)).sum())
            series = float(np.polynomial.polynomial.polyval(correlation**power, inner_products(q, "swiglu")))
            yield abs(series - q * correlation * silu) <= 1e-7 * inner_square(q, "swiglu")


@INITIAL.check(
    "decoders of width 128 on eight tokens, six seeds, std 0.03, RMSNorm and gated, LayerNorm and GELU: every place to "
    "four standard errors and what uneven attention adds",
    states=True,
    control=False,
    wrong="as large as tokens that stand alone",
    kind="sampled",
)
def decoders_by_place(seeing: bool) -> Conditions:
    import torch

    from experiments.attnres.networks import reads
    from icl.models.decoder import Decoder

    std = 0.03
    gated = replace(llama(d_model=128, n_heads=4, n_layers=2, d_ff=256, vocab=32, context=8), norm_eps=0.0)
    for name, config in (("vanilla", gated), ("attnres", replace(gated, gated=False, norm="layer"))):
        plan, tokens = resolve(name, config.shape), torch.arange(32).view(4, 8)
        models = (Decoder(config, plan, seed=seed, std=std).double() for seed in range(6))
        last = np.array([reads(model, tokens)[-1].square().sum(-1).mean(0).numpy() for model in models])
        lone = initial_reads(config, plan, std)[-1]
        expected = token_reads(config, plan, 8, std)[-1] if seeing else np.full(8, lone)
        allowed = 4 * last.std(0, ddof=1) / sqrt(len(last)) + (128 * std**2) ** 2 * expected
        yield abs(expected[0] - lone) <= CLOSE * lone
        yield not (abs(last.mean(0) - expected) > allowed).any()


ERRORS = 5  # standard errors: wrongly rejected once in 2 million
DRAWS = 400_000

ENDS = "((-40, -1), (-1, 0), (0, 1), (1, 40))"
BEYOND = "beyond 40 standard deviations the density is below 1e-347: an integral to 41 is the same"
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
    unjudged={
        at(typical.normal_mean, f"{ENDS} -> {ENDS.replace('-40', '-41')}"): BEYOND,
        at(typical.normal_mean, f"{ENDS} -> {ENDS.replace(' 40', ' 41')}"): BEYOND,
    },
)


def _near(samples: Array, mean: float) -> bool:
    """Return whether samples' mean is within ERRORS standard errors, which are small beside it."""
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
def feed_forwards_are_typical(square: Callable[..., float]) -> Conditions:
    """Compare mean squares with d d_ff written^2 times `square`, and with theory's."""
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
            mean = feed_forward_square(d, d_ff, std, written=written, kind=kind)
            yield _near(found, mean)
            yield _near(found, d * d_ff * written**2 * square(d * std**2, kind))


@TYPICAL.check(
    "attention of 400,000 draws: one token, four evenly, three unevenly, to five standard errors",
    states=2,
    control=1,
    wrong="weights in place of their squares: unrelated tokens do not cancel",
    kind="sampled",
)
def attention_is_typical(power: int) -> Conditions:
    """Check that the share is the sum of weights to this power."""
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
        yield _near(found, attention_square(d, heads, width, std=std, written=written, share=share))


@TYPICAL.check(
    "spread of the square and mean square of one inner number, by another quadrature, at nine sizes",
    states=(3.0, 1.0),
    control=(1.0, 1.0),
    wrong="the spread of z^2 alone, without that of what writes it",
)
def one_number_by_quadrature(moments: tuple[float, float]) -> Conditions:
    """Compare at d = d_ff = 1, where the output is k z: E k^4, E k^2 = moments, in units of `written`."""
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
                (feed_forward_square(1, 1, math.sqrt(q), written=1.0, kind=kind), second * square),
                (feed_forward_spread(1, 1, kind, std=math.sqrt(q)), spread),
            )
            yield all(math.isclose(x, y, rel_tol=1e-5) for x, y in pairs)


@TYPICAL.check(
    "PreNorm stacks of 2 and 6 sublayers at one token, 100,000 draws: their streams are sums of squares",
    states=2,
    control=1,
    wrong="the outputs' norms add, as if aligned",
    kind="sampled",
)
def streams_add_squares(power: int) -> Conditions:
    """Check that norms add up to this power: the stream's from the embedding's and the outputs'."""
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
        outputs = (
            attention_square(d, 1, d, std=std, written=written, share=1.0),
            feed_forward_square(d, d_ff, std, written=written, kind="gelu"),
        )
        squares = (d, *outputs * layers)
        added = sum(math.sqrt(square) ** power for square in squares) ** (2 / power)
        yield _near((stream**2).sum((1, 2)), added)
