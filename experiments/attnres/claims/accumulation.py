"""Claims on the growth of hidden states with depth where sublayers start with a norm, and on an output's share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.attnres.claims.decoders import ANY_NETWORK, CLOSE, CONFIG, SIZES, UNJUDGED, measured
from experiments.ledger.claim import Claim, Conditions
from theory.attnres import dilution, growth
from theory.attnres.bounds import weight_floor
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.attnres.dilution import norm_shares, postnorm_share, projection_shares, query_for_weight, share_range
from theory.attnres.growth import extremal, in_a_plane, largest_average, largest_read, postnorm_range, typical_read
from theory.attnres.paper import PAPER
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture
from theory.plans.names import resolve

if TYPE_CHECKING:
    from icl.probes.gradients import Gradients
    from theory.attnres.dilution import Array

BLOCK, BLOCKS = "attnres-block:size=4", "attnres-block:blocks=2"
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
def decoders_attain(laws: Mapping[str, Callable[[int], float]]) -> Conditions:
    from experiments.attnres.networks import growing, read_norms

    for name, law in laws.items():
        for layers in (1, 2, 4):
            config = replace(SIZES, n_layers=layers)
            plan = resolve(name, config.shape)
            network = extremal(config, plan, 1.0, [1.0] * 2 * layers)
            found = read_norms(growing(config, plan, network, query=1e4))
            yield np.allclose(found, network.reads, rtol=CLOSE, atol=0)
            yield np.allclose([found[-1], largest_read(plan.depth, 2 * layers, 1, 1)], law(2 * layers), rtol=CLOSE)


@GROWTH.check(
    "unit vectors for 1 to 5 sources, even round a circle: their products, the square by hand",
    states=2.0,
    control=1.0,
    wrong="round half a circle",
)
def directions_in_a_plane(halves: float) -> Conditions:
    """Compare products of vectors with cosines; halves: of a circle, round which they are even."""
    for count in range(1, 6):
        for d in (2, 3):
            found = in_a_plane(count, d)
            turns = np.subtract.outer(np.arange(count), np.arange(count)) / count
            yield found.shape == (count, d)
            yield np.allclose(found @ found.T, np.cos(np.pi * halves * turns), rtol=0, atol=1e-12)
    yield np.allclose(in_a_plane(4, 2), [[1, 0], [0, 1], [-1, 0], [0, -1]], rtol=0, atol=1e-12)
    yield np.array_equal(in_a_plane(2, 1).round(12), [[1], [-1]])


@GROWTH.check(
    "the same decoders, the embedding half as large and norms with this eps: no bound is exceeded, and none is "
    "attained but the embedding's",
    states=1e-3,
    control=0.0,
    wrong="bounds are attained whatever the eps",
)
def bounds_hold_with_eps(eps: float) -> Conditions:
    """Check that no bound is exceeded, and that all but the embedding's are missed by more than a ten-thousandth.

    At eps = 0 they are attained, to CLOSE.
    """
    from experiments.attnres.networks import growing, read_norms

    for name in LAWS:
        config = replace(SIZES, n_layers=4, norm_eps=eps)
        plan = resolve(name, config.shape)
        network = extremal(config, plan, 0.5, [1.0] * 8)
        shares = np.array(read_norms(growing(config, plan, network, query=1e4))) / network.reads
        yield not (shares > 1 + CLOSE).any()
        yield (shares[1:] < 1 - 1e-4).all()


@GROWTH.check(
    "orthogonal outputs of one size, through decoders' depth rules, at zero queries",
    states={"vanilla": 0.5, "attnres": -0.5},
    control={"vanilla": 0.5, "attnres": 0.0},
    wrong="Full keeps the size of one output",
)
def orthogonal_outputs(exponents: Mapping[str, float]) -> Conditions:
    """Check that read l grows as (l + 1) to this power."""
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
            yield np.allclose(read, [float(a) for a in row], rtol=CLOSE)
            yield np.allclose(sizes, sizes[0])
            state = rule.write(i, state, outputs[i + 1]) if i < 8 else state


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
def postnorm_attains(range_of: Callable[[Any], tuple[float, float]]) -> Conditions:
    """Check x -> 5 e u^T x - x, u along x and e an axis, which turns all sums to e; no decoder has such a norm."""
    gain = np.array([0.5, -2.0, 1.0])
    for axis, expected in zip((np.argmin(abs(gain)), np.argmax(abs(gain))), range_of(gain), strict=True):
        x = np.array([0.3, -0.2, 0.9])
        for _ in range(64):
            x = x + (5 * np.outer(np.eye(3)[axis], x / np.linalg.norm(x)) - np.eye(3)) @ x
            x = gain * x / sqrt((x**2).mean())
            yield abs(np.linalg.norm(x) - expected) <= CLOSE


def _of_averages(row: Any, layers: int) -> Any:
    """Return the largest last read of averages whose rows sum to `row`: an embedding of norm 3, outputs of norm 1."""
    return max(row * 5, 3 * row**layers + 2 * sum(row**n for n in range(1, layers + 1)))


@GROWTH.check(
    "decoders with DenseFormer's averages, rows that add up to 1/2, 1 and 2, of aligned outputs: their last reads",
    states=_of_averages,
    control=lambda row, layers: 3 + 2 * layers,
    wrong="linear, whatever the weights",
)
def averaging_decoders_attain(law: Callable[[float, int], float]) -> Conditions:
    """Check decoders with all weight on the newest result or layer 1's: an embedding of norm 3, outputs of norm 1."""
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
            yield np.allclose(
                [max(last), float(largest_average(row, layers, 2, embedding=3, output=1))], law(row, layers), rtol=CLOSE
            )


@GROWTH.check(
    "learned averages over depth of aligned outputs: geometric in the sum of a row, in Fractions",
    states=_of_averages,
    control=lambda row, layers: 3 + 2 * layers,
    wrong="linear, whatever the weights",
    kind="exact",
)
def averages_grow(law: Callable[[Fraction, int], Fraction]) -> Conditions:
    """Check all weight on one result, the newest or layer 1's; the mean over all results grows like a harmonic sum."""
    for row in (Fraction(1, 2), Fraction(1), Fraction(2)):
        for layers in (1, 2, 5):
            attained = []
            for chosen in (range(1, layers + 1), [1] * layers):
                weights = [[row * (i == at) for i in range(n + 1)] for n, at in enumerate(chosen, 1)]
                last = average_matrix(weights, 2)[-1]
                attained.append(3 * last[0] + sum(last[1:]))
            yield max(attained) == law(row, layers) == largest_average(row, layers, 2, embedding=3, output=1)
            mean = average_matrix([[Fraction(1, n + 1)] * (n + 1) for n in range(1, layers + 1)], 1)[-1]
            yield sum(mean) == sum(Fraction(1, n) for n in range(1, layers + 2))


DILUTION = Claim(
    "attnres.dilution",
    PAPER.name,
    place="summary: uniform aggregation dilutes each layer's contribution",
    statement="In PreNorm's stream of l + 1 equal outputs, orthogonal or aligned, the projection of each on it is "
    "1 / (l + 1) of it.  Under depth attention the coefficient share of an output lies between 1 / (m_b + (m - m_b) "
    "exp(2 z)) and 1 / (m_b + (m - m_b) exp(-2 z)), m_b of m outputs being in its source and z = ||query * gain|| "
    "sqrt d; both are attained.",
    assumes="one softmax over depth with normed keys, eps = 0",
    verdict="corrected",
    correction="As norms, orthogonal outputs have 1 / sqrt(l + 1), and of outputs that cancel no share is bounded.  At "
    "zero queries every share is PreNorm's, and queries of bounded length dilute like 1 / l too; a weight that stays "
    "takes a length that grows as log l.  In Block no query gives an output of a finished block more than 1 / m_b, "
    "the embedding apart, so with a fixed number of blocks these dilute as 1 / l; the embedding, and the first output "
    "of a block until there is a second one, can have nearly all.  A norm after the sum dilutes geometrically.",
    proof=dilution,
    unjudged=ANY_NETWORK,
)
SOURCES = ([1, 1], [1, 1, 1, 1], [1, 3, 3, 2], [1, 3, 3, 1], [5])


@DILUTION.check(
    "orthogonal and aligned outputs of one norm: projections and norms",
    states=(1.0, 0.5),
    control=(0.5, 0.5),
    wrong="projections have 1 / sqrt(l + 1), too",
    others={"orthogonal outputs' norms have 1 / (l + 1), too": (1.0, 1.0)},
)
def equal_outputs(exponents: tuple[float, float]) -> Conditions:
    """Check shares as powers of 1 / (l + 1): of projections in both cases, of norms where outputs are orthogonal."""
    for k in (2, 5, 9):
        orthogonal, aligned, ones = 3 * np.eye(k), np.tile(np.eye(k)[0], (k, 1)), [1.0] * k
        projections = [*projection_shares(ones, orthogonal), *projection_shares(ones, aligned)]
        norms = norm_shares(ones, orthogonal)
        yield np.allclose(projections, k ** -exponents[0])
        yield np.allclose(norms, k ** -exponents[1])
        yield np.allclose(norm_shares(ones, aligned), 1 / k)


def _of_floors(counts: list[int], source: int, query: float, d: int) -> tuple[float, float]:
    floor = weight_floor(len(counts), query, d)
    return floor / counts[source], (1 - (len(counts) - 1) * floor) / counts[source]


def _of_weights(counts: list[int], source: int, query: float, d: int) -> tuple[float, float]:
    """Return the smallest and largest joint weight of one block's outputs under a query of this length."""
    others, z = sum(counts) - counts[source], query * sqrt(d)
    return 1 / (1 + others * exp(2 * z)), 1 / (1 + others * exp(-2 * z))


@DILUTION.check(
    "softmaxes over normed sources, at random and with all keys along the query or against it",
    states=share_range,
    control=_of_weights,
    wrong="members of a block do not share its weight",
    others={"what is left when all other weights are at their floors": _of_floors},
)
def shares_range(range_of: Callable[[list[int], int, float, int], tuple[float, float]]) -> Conditions:
    """Check that no share leaves the range, and that both ends are attained."""
    from scipy.special import softmax

    rng, d = np.random.default_rng(0), 3
    for counts in SOURCES:
        for source in range(len(counts)):
            for length in (0.0, 0.2, 1.0):
                query = rng.standard_normal(d)
                query *= length / np.linalg.norm(query)
                own = np.arange(len(counts))[:, None] == source
                ends = [np.where(own, sign * query, -sign * query) + (length == 0) for sign in (-1, 1)]
                shares = []
                for v in (*ends, *rng.standard_normal((20, len(counts), d))):
                    weights = softmax(sqrt(d) * v @ query / np.linalg.norm(v, axis=1))
                    shares.append(weights[source] / (weights @ counts))
                found = range_of(counts, source, length, d)
                yield np.allclose(found, shares[:2], rtol=CLOSE)
                yield (np.allclose((min(shares), max(shares)), found, rtol=CLOSE))


@DILUTION.check(
    "long queries, over the sources of every read of four blocks at 8 to 64 sublayers: the largest share of an output",
    states=lambda length, place: 1 / min(place, length),
    control=lambda length, place: 1.0,
    wrong="nearly all, as in Full",
    others={"as in a finished block, in one just begun as well": lambda length, place: 1 / length},
)
def blocks_dilute(law: Callable[[int, int], float]) -> Conditions:
    """Check an output's share under blocks; law: takes the block length and the outputs there; the embedding's is 1."""
    for layers in (4, 8, 32):
        config, length = replace(CONFIG, n_layers=layers), layers // 2
        for after, sources in enumerate(depth_reads(config, resolve("attnres-block:blocks=4", config.shape))):
            counts = [len(source) for source in sources]
            laws = [1.0, *(law(length, after - length * block) for block in range(len(sources) - 1))]
            for source, largest in enumerate(laws):
                along = np.where(np.arange(len(sources)) == source, 1.0, -1.0)
                weights = np.exp(sqrt(16) * 10 * (along - 1))
                found = weights[source] / (weights @ counts), share_range(counts, source, 10.0, 16)[1]
                yield np.allclose(found, largest, rtol=CLOSE)


@DILUTION.check(
    "decoders at zero queries: every output's projection on every read, and PreNorm's",
    states=0.0,
    control=0.3,
    wrong="with other queries",
)
def decoders_start_diluted(query: float) -> Conditions:
    prenorm = _shares("vanilla", measured("vanilla"))
    for name in ("attnres", "attnres-block:size=2"):
        shares = _shares(name, measured(name, query=query))
        yield all(np.allclose(a, b, rtol=1e-6, atol=CLOSE) for a, b in zip(shares, prenorm, strict=True))


def _shares(name: str, found: Gradients) -> list[Array]:
    """Return each read's shares for the newest token; NaN where the start's coefficients do not make what is read."""
    outputs, reads = ([x[-1, -1].numpy() for x in part] for part in (found.outputs, found.reads))
    rows = start_matrix(CONFIG, resolve(name, CONFIG.shape))
    shares = []
    for row, h in zip(rows, reads, strict=True):
        coefficients, read = [float(a) for a in row], np.stack(outputs[: len(row)])
        made = np.allclose(coefficients @ read, h, rtol=1e-6, atol=CLOSE)
        shares.append(projection_shares(coefficients, read) if made else np.full(len(row), np.nan))
    return shares


@DILUTION.check(
    "the length of a query that can leave a source half of the weight: attained, and logarithmic",
    states=lambda k: log(k - 1) / 2,
    control=lambda k: 0.0,
    wrong="any length",
)
def lengths_needed(law: Callable[[int], float]) -> Conditions:
    """Check the lengths in units of 1 / sqrt d.

    There, one source along the query and the others against it have equal sums of weights.
    """
    for k in (3, 10, 1000):
        length = query_for_weight(k, 0.5, 16)
        z = length * sqrt(16)
        yield abs(length - law(k) / sqrt(16)) <= CLOSE
        yield abs(exp(z) - (k - 1) * exp(-z)) <= CLOSE * k
    yield query_for_weight(3, 0.1, 16) == 0


@DILUTION.check(
    "streams with a norm after the sum, written out: the embedding's share of the square",
    states=lambda ratio, m: 1 / (1 + ratio**2) ** m,
    control=lambda ratio, m: 1 / (1 + m * ratio**2),
    wrong="as in a residual stream",
)
def postnorm_dilutes(law: Callable[[Fraction, int], Fraction]) -> Conditions:
    for ratio in (Fraction(1), Fraction(1, 2)):
        x = np.eye(5)[0]
        for i in range(1, 5):
            x = x + float(ratio) * np.eye(5)[i]
            x = x / np.linalg.norm(x)
            yield postnorm_share(ratio, i) == law(ratio, i)
            yield abs(x[0] ** 2 - float(law(ratio, i))) <= CLOSE
