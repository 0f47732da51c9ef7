"""Claims on how hidden states grow with depth where every sublayer starts with a norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import KEPT, OF_VALUES
from theory.attnres import growth
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.attnres.growth import extremal, largest_average, largest_read, postnorm_range, typical_read
from theory.attnres.paper import PAPER
from theory.attnres.variants import attnres as attnres_plan
from theory.plans.accounting import depth_sources, two_phases
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.plan import lifetimes
from theory.plans.presets import llama

CLOSE = 1e-9
BLOCK, BLOCKS = "attnres-block:size=4", "attnres-block:blocks=2"
SIZES = replace(llama(d_model=4, n_heads=1, n_layers=2, d_ff=2, vocab=2, context=2), norm_eps=0.0)
WRITTEN = "whether a decoder computes its reads so or as they are written, which are equal"
UNJUDGED: Mapping[Callable[..., Any], str] = {
    **OF_VALUES,
    attnres_plan: "whether keys are normed changes no bound",
    depth_sources: "for how many sources a decoder has room, not what it reads",
    two_phases: WRITTEN,
    lifetimes: KEPT,
    Architecture.attending: "no copy stands in for heads here",
}

GROWTH = Claim(
    "attnres.growth",
    PAPER.name,
    place="summary: uniform accumulation makes hidden states grow without bound, as in PreNorm",
    statement="With norms before sublayers that bound every output and the embedding by C, PreNorm's last read after M "
    "sublayers is at most (M + 1) C, Full's C, that of Block with S sublayers a block min(S, M) C, and each is what "
    "some network reads, under depth attention in the limit of long queries; with eps > 0 only where it is the "
    "embedding's.  Uncorrelated outputs of one size make PreNorm's grow as sqrt(M + 1), and Full's at zero queries "
    "fall as 1 / sqrt(M + 1).",
    assumes="eps = 0; one softmax over depth with normed keys; no biases; at least two dimensions",
    verdict="corrected",
    correction="PreNorm can grow without bound, at most linearly, and need not: outputs can cancel, and at initial "
    "weights that are scaled by the depth it is of one size at every depth (attnres.initial-size).  Accumulation is "
    "not the cause by itself: with a norm after the sum it stays bounded, and a mean over depth grows as a logarithm.  "
    "A fixed number of blocks grows linearly, too.",
    proof=growth,
    unjudged={**UNJUDGED, Architecture.has_feed_forward: "depth rules read outputs whatever sublayers have made them"},
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
    "the same decoders, the embedding half as large and norms with this eps: no bound is exceeded, and none is "
    "attained but the embedding's",
    states=1e-3,
    control=0.0,
    wrong="bounds are attained whatever the eps",
)
def bounds_hold_with_eps(eps: float) -> bool:
    """By more than a ten-thousandth; at eps = 0 they are, to CLOSE."""
    from experiments.attnres.networks import growing, read_norms

    for name in LAWS:
        config = replace(SIZES, n_layers=4, norm_eps=eps)
        plan = resolve(name, config.shape)
        network = extremal(config, plan, 0.5, [1.0] * 8)
        shares = np.array(read_norms(growing(config, plan, network, query=1e4))) / network.reads
        if (shares > 1 + CLOSE).any() or not (shares[1:] < 1 - 1e-4).all():
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
    "a network with a norm after every sum, written out, of linear sublayers: every read of 64 has the largest length, "
    "or every one the least",
    states=postnorm_range,
    control=lambda gain: (0.0, float(np.linalg.norm(gain))),
    wrong="the length of the gains, and no least length",
)
def postnorm_attains(range_of: Callable[[Any], tuple[float, float]]) -> bool:
    """A decoder has no such norm.  Sublayer x -> 5 e u^T x - x, u along x and e an axis, turns every sum to e."""
    gain = np.array([0.5, -2.0, 1.0])
    for axis, expected in zip((np.argmin(abs(gain)), np.argmax(abs(gain))), range_of(gain), strict=True):
        x = np.array([0.3, -0.2, 0.9])
        for _ in range(64):
            x = x + (5 * np.outer(np.eye(3)[axis], x / np.linalg.norm(x)) - np.eye(3)) @ x
            x = gain * x / sqrt((x**2).mean())
            if abs(np.linalg.norm(x) - expected) > CLOSE:
                return False
    return True


def _of_averages(row: Any, layers: int) -> Any:
    """The largest last read of averages whose rows add up to `row`: an embedding of norm 3, outputs of norm 1."""
    return max(row * 5, 3 * row**layers + 2 * sum(row**n for n in range(1, layers + 1)))


@GROWTH.check(
    "decoders with DenseFormer's averages, rows that add up to 1/2, 1 and 2, of aligned outputs: their last reads",
    states=_of_averages,
    control=lambda row, layers: 3 + 2 * layers,
    wrong="linear, whatever the weights",
)
def averaging_decoders_attain(law: Callable[[float, int], float]) -> bool:
    """All weight on one result, the newest or layer 1's, of an embedding of norm 3 and outputs of norm 1."""
    import torch

    from experiments.attnres.networks import growing, read_norms

    for layers in (1, 2, 5):
        config = replace(SIZES, n_layers=layers)
        along = extremal(config, resolve("vanilla", config.shape), 3.0, [1.0] * 2 * layers)
        for row in (0.5, 1.0, 2.0):
            last = []
            for chosen in (range(1, layers + 1), [1] * layers):
                model = growing(config, resolve("denseformer", config.shape), along, query=0.0)
                with torch.no_grad():
                    for n, at in enumerate(chosen):
                        model.get_parameter(f"depth.weights.{n}").zero_()[at] = row
                last.append(read_norms(model)[-1])
            if not np.allclose([max(last), float(largest_average(row, layers, 2, 3, 1))], law(row, layers), rtol=CLOSE):
                return False
    return True


@GROWTH.check(
    "learned averages over depth of aligned outputs: geometric in the sum of a row, in Fractions",
    states=_of_averages,
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
