"""Claims on how large reads are at initial weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import erf, exp, pi, sqrt

import numpy as np

from experiments.attnres.claims.growth import CLOSE, SIZES, UNJUDGED
from experiments.ledger.claim import Claim
from theory.attnres import initial
from theory.attnres.initial import initial_outputs, initial_reads
from theory.attnres.initial_tokens import inner_products, token_reads
from theory.attnres.paper import PAPER
from theory.attnres.typical import inner_square
from theory.plans import mix
from theory.plans.accounting import reads_together
from theory.plans.names import resolve
from theory.plans.presets import llama

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
    unjudged={
        **UNJUDGED,
        mix.v: "the values that heads are to read, in the plan and in the question alike",
        reads_together: "how many of its reads a decoder computes together",
    },
)


@INITIAL.check(
    "one layer by hand, its feed-forward by adaptive quadrature, at two deviations, gated and GELU",
    states=4.0,
    control=1.0,
    wrong="a normed vector has the length 1",
)
def one_layer_by_hand(square: float) -> bool:
    """square: of a normed vector's length, 4 numbers wide."""
    return all(_layer_by_hand(square, std, gated=gated) for std in (0.3, 0.6) for gated in (True, False))


def _layer_by_hand(square: float, std: float, *, gated: bool) -> bool:
    from scipy.integrate import quad

    inner = std**2 * square
    written = std**2 / 2  # what writes to the stream, scaled by the depth of 1

    def squared(z: float) -> float:
        return (z / (1 + exp(-z))) ** 2 if gated else (z * (1 + erf(z / sqrt(2))) / 2) ** 2

    gate = quad(lambda z: squared(z) * exp(-(z**2) / (2 * inner)) / sqrt(2 * pi * inner), -12, 12)[0]
    outputs = [4 * std**2, 4 * written * 4 * inner, 4 * written * SIZES.d_ff * gate * (inner if gated else 1)]
    config = replace(SIZES, n_layers=1, gated=gated)
    for name, counts in (("vanilla", (1, 1, 1)), ("attnres", (1, 2, 3))):
        expected = [sum(outputs[: i + 1]) / count**2 for i, count in enumerate(counts)]
        if not np.allclose(initial_reads(config, resolve(name, config.shape), std), expected, rtol=1e-7, atol=0):
            return False
    return True


@INITIAL.check(
    "decoders of 150 seeds, RMSNorm and gated, LayerNorm and GELU, to four standard errors",
    states=True,
    control=False,
    wrong="outputs are not scaled",
    kind="sampled",
)
def initial_decoders(scaled: bool) -> bool:
    from experiments.attnres.networks import read_norms
    from icl.models.decoder import Decoder

    llama_like = replace(SIZES, n_layers=1)
    gpt_like = replace(llama_like, gated=False, norm="layer", positions="learned")
    for name, config in (("vanilla", llama_like), ("attnres", gpt_like)):
        plan = resolve(name, config.shape)
        models = (Decoder(config, plan, seed=seed, std=0.6).double() for seed in range(150))
        squares = np.array([read_norms(model) for model in models]) ** 2
        errors = squares.std(0, ddof=1) / sqrt(len(squares))
        if (abs(squares.mean(0) - initial_reads(config, plan, 0.6, scale_outputs=scaled)) > 4 * errors).any():
            return False
    return True


@INITIAL.check(
    "the last read at 4 and 64 layers, by the closed form",
    states={"vanilla": 1.0, "attnres": (9 / 129) ** 2},
    control={"vanilla": 4.0, "attnres": (9 / 129) ** 2},
    wrong="PreNorm's grows as the square root of the depth",
)
@INITIAL.check(
    "the last read at 4 and 64 layers, by the closed form",
    states={"vanilla": 1.0, "attnres": (9 / 129) ** 2},
    control={"vanilla": 1.0, "attnres": 1.0},
    wrong="Full's keeps its size",
)
def deep_and_shallow(ratios: Mapping[str, float]) -> bool:
    """Mean squares of the last read, of 64 layers over that of 4."""

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
def two_tokens_by_hand(share: float) -> bool:
    config = replace(SIZES, n_layers=1, d_ff=0)
    for name, counts in (("vanilla", (1, 1)), ("attnres", (1, 2))):
        plan = resolve(name, config.shape)
        embedding, attention = initial_outputs(config, plan, 0.3)
        expected = [
            [embedding] * 2,
            [(embedding + attention) / counts[1] ** 2, (embedding + share * attention) / counts[1] ** 2],
        ]
        if not np.allclose(token_reads(config, plan, 2, 0.3), expected, rtol=CLOSE, atol=0):
            return False
    return True


@INITIAL.check(
    "products of two tokens' inner numbers, by a series and by quadrature in two dimensions",
    states=1,
    control=2,
    wrong="the square of their arguments' correlation",
)
def products_by_quadrature(power: int) -> bool:
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    masses = np.outer(weights, weights) / weights.sum() ** 2
    first, other = np.meshgrid(nodes, nodes, indexing="ij")
    for q in (0.05, 0.5):
        for correlation in (0.0, 0.4, -0.7, 1.0):
            pair = [sqrt(q) * x for x in (first, correlation * first + sqrt(1 - correlation**2) * other)]
            silu = float((masses * np.prod([a / (1 + np.exp(-a)) for a in pair], axis=0)).sum())
            series = float(np.polynomial.polynomial.polyval(correlation**power, inner_products(q, "swiglu")))
            if abs(series - q * correlation * silu) > 1e-7 * inner_square(q, "swiglu"):
                return False
    return True


@INITIAL.check(
    "decoders of width 128 on eight tokens, six seeds, std 0.03, RMSNorm and gated, LayerNorm and GELU: every place to "
    "four standard errors and what uneven attention adds",
    states=True,
    control=False,
    wrong="as large as tokens that stand alone",
    kind="sampled",
)
def decoders_by_place(seeing: bool) -> bool:
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
        if abs(expected[0] - lone) > CLOSE * lone or (abs(last.mean(0) - expected) > allowed).any():
            return False
    return True
