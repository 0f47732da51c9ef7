"""Claims on gradients by depth at the start: with queries over depth of zero, and at random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log, pi, sqrt
from statistics import pstdev
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.attnres.claims.decoders import ANY_NETWORK, CLOSE, CONFIG, measured
from experiments.ledger.claim import Claim, Conditions, at
from theory.attnres import gradients as by_depth
from theory.attnres import start_gradients as at_random
from theory.attnres.coefficients import start_matrix
from theory.attnres.gradients import output_gradients, query_gradient, read_exponents, read_factor
from theory.attnres.initial import initial_outputs
from theory.attnres.paper import PAPER
from theory.attnres.start_gradients import even_beyond, sent_back, slope, start_gradients
from theory.attnres.typical import feed_forward_square
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.plan import Plan
from theory.plans.presets import llama

if TYPE_CHECKING:
    from icl.probes.gradients import Gradients

RULES = ("attnres", "attnres-block:size=2", "attnres-block:blocks=2")
PLACE = "summary: gradient norms distribute more uniformly across layers"


def _same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return bool(np.linalg.norm(one - other) <= CLOSE * np.linalg.norm(other))


GRADIENTS = Claim(
    "attnres.gradients",
    PAPER.name,
    place=PLACE,
    statement="At zero queries and eps = 0, under Full and Block, the gradient of every parameter outside the depth "
    "rule and that of every output through all that reads it are PreNorm's, and the gradient at a read, through the "
    "sublayer alone that reads it, is PreNorm's times the number of sources.",
    assumes="norms before all sublayers and before the head, eps = 0, no read is zero, zero queries",
    verdict="corrected",
    correction="At the start no gradient of a parameter or an output is more uniform, nor differs at all.  What reads "
    "get is more uniform in wide decoders, whose outputs are large beside the embedding, and less so in narrow ones "
    "(attnres.start-gradients).  With eps > 0 the network is "
    "PreNorm's with eps times the squared number of sources.  Of trained networks nothing is said here.",
    proof=by_depth,
    unjudged=ANY_NETWORK,
)


@GRADIENTS.check(
    "autograd on decoders: all parameters and outputs", states=0.0, control=0.3, wrong="with other queries"
)
def as_prenorm(query: float) -> Conditions:
    prenorm = measured("vanilla")
    for name in RULES:
        found = measured(name, query=query)
        yield all(_same(found.of_parameters[p], g) for p, g in prenorm.of_parameters.items())
        yield all(map(_same, found.of_outputs, prenorm.of_outputs))


@GRADIENTS.check(
    "autograd on decoders: what every sublayer sends back to its read",
    states=1,
    control=-1,
    wrong="reads get PreNorm's gradients divided by the number of sources",
    others={"reads get PreNorm's gradients": 0},
)
def reads_get_more(power: int) -> Conditions:
    """Compare with PreNorm's gradients times the number of sources to this power, orthogonal to what is read."""
    prenorm = measured("vanilla")
    for name in RULES:
        found, factors = measured(name), read_factor(CONFIG, resolve(name, CONFIG.shape))
        for factor, h, one, other in zip(factors, found.reads, found.of_reads, prenorm.of_reads, strict=True):
            yield _same(one, factor**power * other)
            yield float((h * one).sum(-1).abs().max()) <= CLOSE


@GRADIENTS.check(
    "autograd on decoders with eps = 0.01: PreNorm with other eps",
    states=2.0,
    control=1.0,
    wrong="eps times the number of sources",
    others={"the same eps": 0.0},
)
def eps_counts(power: float) -> bool:
    """Compare read l + 1 of Full with PreNorm's where eps is (l + 1)^power times as large."""
    config = replace(CONFIG, norm_eps=0.01)
    found, prenorm = measured("attnres", config), measured("vanilla", config, powers=power)
    return all(_same(found.of_parameters[p], g) for p, g in prenorm.of_parameters.items())


@GRADIENTS.check(
    "autograd on decoders: outputs get what all later reads get, times their coefficients",
    states=start_matrix,
    control=lambda config, plan: [[1.0] * len(row) for row in start_matrix(config, plan)],
    wrong="the sum of what later reads get, as in PreNorm",
)
def outputs_get(matrix_of: Callable[..., Any]) -> Conditions:
    for name in ("vanilla", *RULES):
        found, plan = measured(name), resolve(name, CONFIG.shape)
        expected = output_gradients(matrix_of(CONFIG, plan), [g.numpy() for g in found.of_reads])
        yield all(map(_same, expected, found.of_outputs))


@GRADIENTS.check(
    "spread of the logarithm of reads' gradients over the depth of decoders with d std = 0.32 and 16",
    states={0.02: True, 1.0: False},
    control={0.02: True, 1.0: True},
    wrong="Full is less even at both",
    others={"Full is more even at both": {0.02: False, 1.0: False}},
)
def less_even(by_std: dict[float, bool]) -> bool:
    config = replace(CONFIG, d_model=16, n_heads=2, n_layers=12, d_ff=32)

    def spread(name: str, std: float) -> float:
        reads = measured(name, config, std=std).of_reads[:-1]
        return float(np.std([np.log(float(g.norm())) for g in reads]))

    return all((spread("attnres", std) > spread("vanilla", std)) == less for std, less in by_std.items())


@GRADIENTS.check(
    "a read's gradient of one relative size, for streams that grow as a power of the depth",
    states=0.5,
    control=0.0,
    wrong="Full is more even however streams grow",
)
def more_even_beyond(least: float) -> Conditions:
    """Check the gradient of u . x / ||x|| at streams and at means, as a power of the read's number."""
    numbers, (along, u) = np.arange(1, 9), np.eye(2)

    def gradient(x: Any) -> float:
        return float(np.linalg.norm(u / np.linalg.norm(x) - (u @ x) * x / np.linalg.norm(x) ** 3))

    for stream in (0.1, 0.4, 0.6, 0.9, 1.0):
        reads = [[k ** (stream - mean) * along for k in numbers] for mean in (0, 1)]
        exponents = [np.polyfit(np.log(numbers), [np.log(gradient(x)) for x in of], 1)[0] for of in reads]
        yield np.allclose(exponents, read_exponents(stream), rtol=CLOSE, atol=CLOSE)
        yield (abs(exponents[1]) < abs(exponents[0])) == (stream > least)


QUERIES = Claim(
    "attnres.query-gradient",
    PAPER.name,
    place="summary: a single learned pseudo-query a layer",
    statement="The gradient of a query over depth is the covariance over sources of the keys and of the sources' "
    "products with the read's gradient, summed over tokens.  At zero queries and eps = 0 it is the sum over sources of "
    "PreNorm's products with the keys, without a mean to be taken off or a count to divide by.",
    assumes="one softmax over depth with normed keys; for the second part norms before sublayers",
    verdict="verified",
    proof=query_gradient,
    uses=("attnres.gradients",),
    unjudged=ANY_NETWORK,
)


def _of_queries(found: Gradients) -> list[Any]:
    return list(found.of_parameters["depth.query"].numpy())


@QUERIES.check(
    "autograd on decoders, at zero queries and at others, with eps",
    states=query_gradient,
    control=lambda query, gain, sources, of_read, eps: query_gradient(
        0 * query, gain, sources, of_read=of_read, eps=eps
    ),
    wrong="equal weights at any query",
)
def covariance(gradient: Callable[..., Any]) -> Conditions:
    config = replace(CONFIG, norm_eps=0.01)
    for query in (0.0, 0.4):
        found = measured("attnres", config, query)
        for i, (of_read, there) in enumerate(zip(found.of_reads, _of_queries(found), strict=True)):
            sources = np.stack([v.flatten(0, 1).numpy() for v in found.outputs[: i + 1]])
            own = gradient(np.full(6, query), np.ones(6), sources, of_read.flatten(0, 1).numpy(), 0.01)
            yield np.linalg.norm(own - there) <= CLOSE * (CLOSE + np.linalg.norm(there))


@QUERIES.check(
    "autograd on decoders at zero queries and eps = 0, from PreNorm's gradients alone",
    states=0,
    control=1,
    wrong="divided by the number of sources",
)
def without_a_count(power: int) -> Conditions:
    prenorm = measured("vanilla")
    for i, (b, there) in enumerate(zip(prenorm.of_reads, _of_queries(measured("attnres")), strict=True)):
        v = np.stack([x.numpy() for x in prenorm.outputs[: i + 1]])
        keys = v / np.sqrt((v**2).mean(-1, keepdims=True))
        wish = ((v * b.numpy()).sum(-1, keepdims=True) * keys).sum((0, 1, 2)) / (i + 1) ** power
        if i:
            yield _same(wish, there)
        if not i:
            yield not there.any()


ERRORS, DRAWS = 5, 20_000
SEEDS = 10
LIMIT = 0.15  # of a root mean square, at width 96: the limit of wide networks is one
WIDE = replace(llama(d_model=96, n_heads=4, n_layers=6, d_ff=128, vocab=32, context=2), norm_eps=0.0)

START = Claim(
    "attnres.start-gradients",
    PAPER.name,
    place=PLACE,
    statement="At initial weights of wide networks whose sublayers are as linear maps (chi = 1), PreNorm's gradient "
    "along the stream falls with depth as the stream grows, and what a sublayer sends back to its read as the square "
    "of the stream, for outputs of one size.  Full AttnRes at zero queries has the latter times the number of sources: "
    "even over depth where outputs are uncorrelated, of one size and large beside the embedding, and PreNorm's is not.",
    assumes="normal weights; one token alone; eps = 0; gradients that do not depend on the weights they pass through, "
    "as in the limit of wide networks",
    verdict="corrected",
    correction="More uniform is what reads get, and only where streams grow enough.  In streams that grow as any power "
    "gamma > 0 of the depth PreNorm's goes as the power -1/2 - gamma and Full's as 1/2 - gamma: outputs of one size "
    "are gamma = 1/2.  Of these Full is more even where they are together beyond 3.6 times the embedding's square at "
    "24 sublayers, 6.5 times at very many.  Feed-forwards have chi > 1, SwiGLU's about 2: then Full's falls with "
    "depth, too, as the power (chi - 1) / 2 of it for the mean chi.  Parameters get the same.",
    proof=at_random,
    uses=("attnres.gradients", "attnres.initial-size"),
    unjudged={
        **ANY_NETWORK,
        initial_outputs: "of outputs only their ratios count; their sizes are attnres.initial-size's",
        **{
            at(even_beyond, change): "an interval around the only zero, in which it is looked for"
            for change in ("1.0 -> 1.2", "left(most) < 0 -> left(most) < 1", "2 -> 3")
        },
        at(even_beyond, "brentq(left, 1e-09, most) -> brentq(left, 1.2e-09, most)"): "the interval's lower end",
    },
)


@START.check(
    "one feed-forward of 20,000 draws sends back what its slope says, three kinds, to five standard errors",
    states=slope,
    control=lambda q, kind: 1.0,
    wrong="as much as a linear map of that size",
    kind="sampled",
)
def sends_back(chi: Callable[..., float]) -> Conditions:
    from scipy.special import expit, ndtr

    rng = np.random.default_rng(0)
    d, d_ff, written = 3, 2, 0.7
    x, g = 2.0 * rng.standard_normal(d), rng.standard_normal(d)
    u = sqrt(d) * x / np.linalg.norm(x)
    for std in (0.4, 1.2):
        for kind in ("swiglu", "gelu", "silu"):
            gate, up = std * rng.standard_normal((2, DRAWS, d_ff, d))
            down = written * rng.standard_normal((DRAWS, d, d_ff))
            a, c = gate @ u, up @ u
            if kind == "gelu":
                slopes = (ndtr(a) + a * np.exp(-(a**2) / 2) / sqrt(2 * np.pi))[..., None] * gate
            else:
                bend = expit(a) * (1 + a * expit(-a))
                slopes = bend[..., None] * gate
                if kind == "swiglu":
                    slopes = slopes * c[..., None] + (a * expit(a))[..., None] * up
            back = np.einsum("nif,nfj,i->nj", down, slopes, g) * sqrt(d) / np.linalg.norm(x)
            back -= (back @ u)[:, None] * u / d
            found = (back**2).sum(1)
            square = feed_forward_square(d, d_ff, std, written=written, kind=kind)
            expected = chi(d * std**2, kind) * (1 - 1 / d) * square * (g @ g) / (x @ x)
            yield abs(found.mean() - expected) <= ERRORS * found.std(ddof=1) / sqrt(DRAWS)


@START.check(
    "slopes by differences of the activations and quadrature at three sizes, three kinds",
    states=1.0,
    control=1.1,
    wrong="a tenth more",
)
def slopes_by_differences(factor: float) -> Conditions:
    """Compare with q E phi'(a)^2 / E phi(a)^2, or the same of silu(a) c by a and c; phi' by central differences."""
    from scipy.special import erfc, expit

    points, masses = np.polynomial.hermite_e.hermegauss(200)
    masses, step = masses / masses.sum(), 1e-5
    for q in (0.05, 1.0, 6.0):
        a = sqrt(q) * points
        for kind in ("swiglu", "gelu", "silu"):
            ends = (a + step, a, a - step)
            after, at_a, before = (x * erfc(-x / sqrt(2)) / 2 if kind == "gelu" else x * expit(x) for x in ends)
            bend, square = masses @ ((after - before) / (2 * step)) ** 2, masses @ at_a**2
            expected = factor * (q * bend / square + (kind == "swiglu"))
            yield abs(slope(q, kind) / expected - 1) < 1e-6


def _even_product(config: Architecture, plan: Plan, std: float, *, scale_outputs: bool) -> list[float]:
    """Return squared gradients by read as if ||h_l|| ||b_l|| were the same at all reads."""
    streams = np.cumsum(initial_outputs(config, plan, std, scale_outputs=scale_outputs))
    return [float(k**2 * streams[-1] / s) for k, s in zip(read_factor(config, plan), streams, strict=True)]


@START.check(
    "root mean squares over 10 decoders of width 96, by read, to 15 per cent",
    states=start_gradients,
    control=_even_product,
    wrong="what no rescaling changes, a read's norm times its gradient's, is the same at all reads",
    kind="sampled",
)
def wide_decoders(squares_of: Callable[..., Any]) -> Conditions:
    for std, gated in ((0.02, True), (0.1, False)):
        config = replace(WIDE, gated=gated)
        prenorm = _reads(config, "vanilla", std)
        for name in ("vanilla", "attnres", "attnres-block:size=4"):
            found = prenorm if name == "vanilla" else _reads(config, name, std)
            expected = squares_of(config, resolve(name, config.shape), std, scale_outputs=False)
            ratios = np.sqrt(found / prenorm[-1] / np.array(expected))
            yield abs(ratios - 1).max() <= LIMIT


@START.check(
    "two attentions of width 4 by hand, outputs as large as the embedding and a quarter of it",
    states=0.75,
    control=1.0,
    wrong="the norm takes nothing away",
)
def by_hand(left: float) -> Conditions:
    """Compute gradients by hand; left: of a gradient, by the projection behind a norm."""
    config = replace(WIDE, d_model=4, n_heads=2, n_layers=2, d_ff=0)
    for size, std in ((1.0, 0.25), (0.25, 0.125)):
        second = left * size / (1 + size)
        prenorm = [left * size * (1 + second), second, 1.0]
        for name, counts in (("vanilla", (1, 1, 1)), ("attnres", (1, 4, 9))):
            found = start_gradients(config, resolve(name, config.shape), std, scale_outputs=False)
            yield np.allclose(found, [b * k for b, k in zip(prenorm, counts, strict=True)], rtol=1e-12, atol=0)


@START.check(
    "by the recursion of one sublayer after the other: 400 attentions of width 4096; 6 layers of width 96 and 128 "
    "with feed-forwards",
    states=lambda d: 1 - 1 / d,
    control=lambda d: 1.0,
    wrong="the norm takes nothing away",
)
def by_recursion(left: Callable[[int], float]) -> Conditions:
    """Compare with a recursion: a sublayer's read gets left chi times output over stream of the later gradient."""
    many = replace(WIDE, d_model=4096, n_layers=400, d_ff=0)
    for config, std in ((many, 1 / 64), (WIDE, 0.1), (replace(WIDE, d_model=128, d_ff=256), 0.1)):
        d = config.d_model
        chi = [1.0, slope(d * std**2, "swiglu")][: 2 if config.d_ff else 1] * config.n_layers
        embedding, *outputs = initial_outputs(config, resolve("vanilla", config.shape), std, scale_outputs=False)
        stream, after, back = embedding + sum(outputs), 1.0, [1.0]
        for output, factor in zip(reversed(outputs), reversed(chi), strict=True):
            stream -= output
            back.append(left(d) * factor * output / stream * after)
            after += back[-1]
        for name, powers in (("vanilla", 0), ("attnres", 2)):
            found = start_gradients(config, resolve(name, config.shape), std, scale_outputs=False)
            counts = np.arange(1.0, len(back) + 1) ** powers
            yield np.allclose(found, np.array(back[::-1]) * counts, rtol=1e-9, atol=0)


@START.check(
    "exponents of reads' gradients over 400 attentions whose outputs are of one size and large, in the limit",
    states=(-1.0, 0.0),
    control=(-0.5, 0.5),
    wrong="PreNorm falls as its stream grows",
)
def exponents(expected: tuple[float, float]) -> bool:
    """Check attention alone, so that chi is 1, over reads 5 to 400, where the embedding no longer matters."""
    config = replace(WIDE, d_model=4096, n_layers=400, d_ff=0)
    numbers = np.log(np.arange(5, 401))
    for name, exponent in zip(("vanilla", "attnres"), expected, strict=True):
        squares = start_gradients(config, resolve(name, config.shape), 1 / 64, scale_outputs=False)[4:400]
        if abs(np.polyfit(numbers, np.log(squares) / 2, 1)[0] - exponent) > 0.01:
            return False
    return True


@START.check(
    "exponents of the gradients at reads of attention in 400 layers with feed-forwards, by their mean slope, in the "
    "limit",
    states=lambda chi: (-(1 + chi) / 2, (1 - chi) / 2),
    control=lambda chi: (-1.0, 0.0),
    wrong="those of attention alone",
)
def exponents_with_feed_forwards(law: Callable[[float], tuple[float, float]]) -> Conditions:
    """Compare in the limit by sums of Gauss and Hermite.

    Gates are N(0, 1) here, d std^2 = 1, and what writes makes d of an attention's square, d_ff E silu^2 of a
    feed-forward's.
    """
    d, numbers = 4096, np.log(np.arange(5, 401))
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    gate = 1 / (1 + np.exp(-points))
    square = weights @ (points * gate) ** 2 / sqrt(2 * pi)
    chi = 1 + weights @ (gate * (1 + points * (1 - gate))) ** 2 / sqrt(2 * pi) / square
    for d_ff in (8192, 32_768):
        mean = (d + chi * d_ff * square) / (d + d_ff * square)
        config = replace(WIDE, d_model=d, n_layers=400, d_ff=d_ff)
        for name, exponent in zip(("vanilla", "attnres"), law(float(mean)), strict=True):
            squares = start_gradients(config, resolve(name, config.shape), 1 / 64, scale_outputs=False)[8:800:2]
            yield abs(np.polyfit(numbers, np.log(squares) / 2, 1)[0] - exponent) <= 0.02


@START.check(
    "streams that grow as the power 0.15, 0.3 and 0.5 of the depth: exponents of reads' gradients, of 20 networks of "
    "200 linear maps, 64 wide, and in the limit",
    states=lambda gamma: (-0.5 - gamma, 0.5 - gamma),
    control=lambda gamma: (-2 * gamma, 1 - 2 * gamma),
    wrong="those of a relative size that falls as the stream grows: Full is more even beyond the fourth root alone",
    kind="sampled",
)
def exponents_of_powers(law: Callable[[float], tuple[float, float]]) -> Conditions:
    d, counts = 64, np.arange(1, 202)
    for gamma in (0.15, 0.3, 0.5):
        outputs = np.diff(counts ** (2 * gamma), prepend=0.0)
        limit = np.array(sent_back(list(outputs), [1 - 1 / d] * 200))
        networks = np.mean([_through_linear_maps(outputs, d, seed) for seed in range(20)], axis=0)
        yield abs(np.sqrt(networks / networks[-1] / limit) - 1).max() <= 0.3
        for squares in (limit, networks):
            for power, exponent in zip((0, 2), law(gamma), strict=True):
                of_reads = np.log(squares * counts**power)[9:200] / 2
                yield abs(np.polyfit(np.log(counts[9:200]), of_reads, 1)[0] - exponent) <= 0.06


def _through_linear_maps(outputs: Any, d: int, seed: int) -> Any:
    """Return squares of reads' gradients in a PreNorm network of random linear maps with these mean squared outputs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(d)
    streams, maps = [x * sqrt(outputs[0]) / np.linalg.norm(x)], []
    for output in outputs[1:]:
        maps.append(sqrt(output) / d * rng.standard_normal((d, d)))
        streams.append(streams[-1] + sqrt(d) * maps[-1] @ streams[-1] / np.linalg.norm(streams[-1]))

    def through_norm(x: Any, g: Any) -> Any:
        return sqrt(d) / np.linalg.norm(x) * (g - x * (x @ g) / (x @ x))

    g = through_norm(streams[-1], rng.standard_normal(d))
    squares = [g @ g]
    for w, x in zip(reversed(maps), reversed(streams[:-1]), strict=True):
        of_read = through_norm(x, w.T @ g)
        squares.append(of_read @ of_read)
        g = g + of_read
    return np.array(squares[::-1])


@START.check(
    "outputs of one size over 24 sublayers: from which total over the embedding's square on Full's reads are more even",
    states=3.6,
    control=1.0,
    wrong="where outputs are together as large as the embedding",
)
def more_even_from(total: float) -> bool:
    """Compare standard deviations of log gradients on both sides of `total`.

    Attention alone puts out (d std)^2 times the embedding's square.
    """
    config = replace(WIDE, d_model=4096, n_layers=24, d_ff=0)

    def spread(name: str, all_outputs: float) -> float:
        std = sqrt(all_outputs / 24) / 4096
        squares = start_gradients(config, resolve(name, config.shape), std, scale_outputs=False)
        return pstdev([log(square) for square in squares[:-1]])

    return all((spread("attnres", total * f) < spread("vanilla", total * f)) == (f > 1) for f in (0.98, 1.02))


@START.check(
    "the same over 20,000 sublayers of slope 1 and of slope 2, in the limit",
    states=even_beyond,
    control=lambda chi: 3.6,
    wrong="as at 24 sublayers",
    others={"whatever the slope": lambda chi: even_beyond(1.0)},
)
def more_even_in_many(total_for: Callable[[float], float]) -> Conditions:
    count = 20_000
    numbers = np.log(np.arange(1, count + 1))
    for chi in (1.0, 2.0):
        for factor in (0.97, 1.02):
            total = factor * total_for(chi)
            prenorm = np.log(sent_back([1.0, *[total / count] * count], [chi] * count)[:-1]) / 2
            yield ((prenorm + numbers).std() < prenorm.std()) == (factor > 1)


def _reads(config: Architecture, name: str, std: float) -> Any:
    """Return mean squares of reads' gradients, over decoders."""
    from experiments.attnres.networks import read_squares

    plan = resolve(name, config.shape)
    return np.mean([read_squares(config, plan, seed, std, scale_outputs=False) for seed in range(SEEDS)], axis=0)
