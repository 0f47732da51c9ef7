"""Claims on how hidden states grow with depth where every sublayer starts with a norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import erf, exp, pi, sqrt
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUES
from theory.attnres import growth, initial
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.attnres.growth import extremal, largest_average, largest_read, postnorm_range, typical_read
from theory.attnres.initial import initial_reads
from theory.attnres.paper import PAPER
from theory.attnres.variants import attnres as attnres_plan
from theory.plans import mix
from theory.plans.accounting import depth_sources, two_phases
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.presets import llama

CLOSE = 1e-9
BLOCK, BLOCKS = "attnres-block:size=4", "attnres-block:blocks=2"
SIZES = replace(llama(d_model=4, n_heads=1, n_layers=2, d_ff=2, vocab=2, context=2), norm_eps=0.0)
UNJUDGED: Mapping[Callable[..., Any], str] = {
    **OF_VALUES,
    attnres_plan: "whether keys are normed changes no bound",
    depth_sources: "for how many sources a decoder has room, not what it reads",
    two_phases: "whether a decoder computes its reads so or as they are written, which are equal",
    Architecture.attending: "no copy stands in for heads here",
}

GROWTH = Claim(
    "attnres.growth",
    PAPER.name,
    place="summary: uniform accumulation makes hidden states grow without bound, as in PreNorm",
    statement="With norms before sublayers that bound every output and the embedding by C, PreNorm's last read after M "
    "sublayers is at most (M + 1) C, Full's C, that of Block with S sublayers a block min(S, M) C, and each is what "
    "some network reads, under depth attention in the limit of long queries.  Uncorrelated outputs of one size make "
    "PreNorm's grow as sqrt(M + 1), and Full's at zero queries fall as 1 / sqrt(M + 1).",
    assumes="eps = 0; one softmax over depth with normed keys; no biases; at least two dimensions",
    verdict="corrected",
    correction="PreNorm can grow without bound, at most linearly, and need not: outputs can cancel, and at initial "
    "weights that are scaled by the depth it is of one size at every depth (attnres.initial-size).  Accumulation is "
    "not the cause by itself: with a norm after the sum it stays bounded, and a mean over depth grows as a logarithm.  "
    "A fixed number of blocks grows linearly, too.",
    proof=growth,
    unjudged=UNJUDGED,
)
LAWS: dict[str, Callable[[int], float]] = {
    "vanilla": lambda m: m + 1,
    "attnres": lambda m: 1,
    BLOCK: lambda m: min(4, m),
    BLOCKS: lambda m: m / 2,
}


@GROWTH.check(
    "decoders whose every read is as large as the bounds allow, at 2, 4 and 8 sublayers",
    states=LAWS,
    control={**LAWS, "vanilla": lambda m: sqrt(m + 1)},
    wrong="PreNorm grows as the square root at most",
)
@GROWTH.check(
    "decoders whose every read is as large as the bounds allow, with two blocks",
    states=LAWS,
    control={**LAWS, BLOCKS: lambda m: 1},
    wrong="a fixed number of blocks is bounded whatever the depth",
)
def decoders_attain(laws: Mapping[str, Callable[[int], float]]) -> bool:
    from experiments.attnres.networks import growing, read_norms

    for name, law in laws.items():
        for layers in (1, 2, 4):
            config = replace(SIZES, n_layers=layers)
            plan = resolve(name, config.shape)
            network = extremal(config, plan, 1.0, [1.0] * 2 * layers)
            found = read_norms(growing(config, plan, network, query=1e4))
            if not np.allclose(found, network.reads, rtol=CLOSE, atol=0):
                return False
            if not np.allclose([found[-1], largest_read(plan.depth, 2 * layers, 1, 1)], law(2 * layers), rtol=CLOSE):
                return False
    return True


@GROWTH.check(
    "orthogonal outputs of one size, through decoders' depth rules, at zero queries",
    states={"vanilla": 0.5, "attnres": -0.5},
    control={"vanilla": 0.5, "attnres": 0.0},
    wrong="Full keeps the size of one output",
)
def orthogonal_outputs(exponents: Mapping[str, float]) -> bool:
    """Read l grows as (l + 1) to this power."""
    import torch

    from icl.models.decoder import Decoder

    config = replace(SIZES, d_model=9, positions="none", n_layers=4)
    for name, exponent in exponents.items():
        plan = resolve(name, config.shape)
        rule, outputs = Decoder(config, plan).double().depth, torch.eye(9, dtype=torch.float64)[:, None, None]
        state = rule.start(outputs[0])
        for i, row in enumerate(start_matrix(config, plan)):
            read = rule.read(i, state).detach().numpy()[0, 0, : i + 1]
            sizes = float(np.linalg.norm(read)), typical_read(plan.depth, i, 1.0, 1.0), (i + 1) ** exponent
            if not np.allclose(read, [float(a) for a in row], rtol=CLOSE) or not np.allclose(sizes, sizes[0]):
                return False
            state = rule.write(i, state, outputs[i + 1]) if i < 8 else state
    return True


@GROWTH.check(
    "an output against the embedding: the second read is nothing, so none is bounded from below",
    states=-1.0,
    control=1.0,
    wrong="along the embedding",
)
def outputs_cancel(sign: float) -> bool:
    import torch

    from experiments.attnres.networks import growing, read_norms

    config = replace(SIZES, n_layers=1, d_ff=0)
    plan = resolve("vanilla", config.shape)
    model = growing(config, plan, extremal(config, plan, 3.0, [3.0]), query=0.0)
    with torch.no_grad():
        model.get_parameter("layers.0.attention.output.weight").mul_(sign)
    found = read_norms(model)
    return abs(found[0] - 3) < CLOSE and found[1] < CLOSE


@GROWTH.check(
    "streams with a norm after the sum, written out, keep between two lengths, and attain both",
    states=postnorm_range,
    control=lambda gain: (0.0, float(np.linalg.norm(gain))),
    wrong="the length of the gains, and no least length",
)
def postnorm_is_bounded(range_of: Callable[[Any], tuple[float, float]]) -> bool:
    rng = np.random.default_rng(0)
    gain = np.array([0.5, -2.0, 1.0])
    low, high = range_of(gain)
    ends = sorted(float(np.linalg.norm(gain * sqrt(3) * axis)) for axis in np.eye(3))
    x, lengths = rng.standard_normal(3), []
    for _ in range(200):
        x = x + 5 * rng.standard_normal((3, 3)) @ x
        x = gain * x / sqrt((x**2).mean())
        lengths.append(float(np.linalg.norm(x)))
    return np.allclose((low, high), (ends[0], ends[-1])) and low <= min(lengths) and max(lengths) <= high


@GROWTH.check(
    "learned averages over depth of aligned outputs: geometric in the sum of a row, in Fractions",
    states=lambda row, layers: max(row * 5, 3 * row**layers + 2 * sum(row**n for n in range(1, layers + 1))),
    control=lambda row, layers: 3 + 2 * layers,
    wrong="linear, whatever the weights",
    kind="exact",
)
def averages_grow(law: Callable[[Fraction, int], Fraction]) -> bool:
    """All weight on one result, the newest or layer 1's; the mean over all results grows like a harmonic sum."""
    for row in (Fraction(1, 2), Fraction(1), Fraction(2)):
        for layers in (1, 2, 5):
            attained = []
            for chosen in (range(1, layers + 1), [1] * layers):
                weights = [[row * (i == at) for i in range(n + 1)] for n, at in enumerate(chosen, 1)]
                last = average_matrix(weights, 2)[-1]
                attained.append(3 * last[0] + sum(last[1:]))
            if not max(attained) == law(row, layers) == largest_average(row, layers, 2, 3, 1):
                return False
            mean = average_matrix([[Fraction(1, n + 1)] * (n + 1) for n in range(1, layers + 1)], 1)[-1]
            if sum(mean) != sum(Fraction(1, n) for n in range(1, layers + 2)):
                return False
    return True


INITIAL = Claim(
    "attnres.initial-size",
    PAPER.name,
    place="summary: uniform accumulation makes hidden states grow without bound, as in PreNorm; at initial weights",
    statement="On average over initial weights every read has a mean square in closed form.  With outputs scaled by "
    "1 / sqrt(2 L), as in GPT-2, PreNorm's last read is of one size at every number of layers L, and Full's falls as "
    "1 / (2 L + 1).",
    assumes="normal weights; eps = 0; a token that stands alone, else the mean square of attention is at most that; "
    "zero queries",
    verdict="corrected",
    correction="With scaled outputs nothing at the start grows with the number of layers; unscaled ones make the mean "
    "square grow linearly in it.",
    proof=initial,
    unjudged={**UNJUDGED, mix.v: "the values that heads are to read, in the plan and in the question alike"},
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
