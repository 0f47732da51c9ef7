"""Claims on gradients by depth at random initial weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log, pi, sqrt
from statistics import pstdev
from typing import Any

import numpy as np

from experiments.attnres.claims.gradients import ANY_NETWORK, PLACE
from experiments.ledger.claim import Claim
from theory.attnres import start_gradients as theory
from theory.attnres.gradients import read_factor
from theory.attnres.initial import initial_outputs
from theory.attnres.paper import PAPER
from theory.attnres.start_gradients import even_beyond, sent_back, slope, start_gradients
from theory.attnres.typical import feed_forward_square
from theory.plans.architecture import Architecture
from theory.plans.names import resolve
from theory.plans.plan import Plan
from theory.plans.presets import llama

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
    proof=theory,
    uses=("attnres.gradients", "attnres.initial-size"),
    unjudged=ANY_NETWORK,
)


@START.check(
    "one feed-forward of 20,000 draws sends back what its slope says, three kinds, to five standard errors",
    states=slope,
    control=lambda q, kind: 1.0,
    wrong="as much as a linear map of that size",
    kind="sampled",
)
def sends_back(chi: Callable[..., float]) -> bool:
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
            square = feed_forward_square(d, d_ff, std, written, kind)
            expected = chi(d * std**2, kind) * (1 - 1 / d) * square * (g @ g) / (x @ x)
            if abs(found.mean() - expected) > ERRORS * found.std(ddof=1) / sqrt(DRAWS):
                return False
    return True


def _even_product(config: Architecture, plan: Plan, std: float, *, scale_outputs: bool) -> list[float]:
    """As if ||h_l|| ||b_l|| were the same at all reads."""
    streams = np.cumsum(initial_outputs(config, plan, std, scale_outputs=scale_outputs))
    return [float(k**2 * streams[-1] / s) for k, s in zip(read_factor(config, plan), streams, strict=True)]


@START.check(
    "root mean squares over 10 decoders of width 96, by read, to 15 per cent",
    states=start_gradients,
    control=_even_product,
    wrong="what no rescaling changes, a read's norm times its gradient's, is the same at all reads",
    kind="sampled",
)
def wide_decoders(squares_of: Callable[..., Any]) -> bool:
    for std, gated in ((0.02, True), (0.1, False)):
        config = replace(WIDE, gated=gated)
        prenorm = _reads(config, "vanilla", std)
        for name in ("vanilla", "attnres", "attnres-block:size=4"):
            found = prenorm if name == "vanilla" else _reads(config, name, std)
            expected = squares_of(config, resolve(name, config.shape), std, scale_outputs=False)
            ratios = np.sqrt(found / prenorm[-1] / np.array(expected))
            if abs(ratios - 1).max() > LIMIT:
                return False
    return True


@START.check(
    "two attentions of width 4 by hand, outputs as large as the embedding and a quarter of it",
    states=0.75,
    control=1.0,
    wrong="the norm takes nothing away",
)
def by_hand(left: float) -> bool:
    """left: of a gradient, by the projection behind a norm."""
    config = replace(WIDE, d_model=4, n_heads=2, n_layers=2, d_ff=0)
    for size, std in ((1.0, 0.25), (0.25, 0.125)):
        second = left * size / (1 + size)
        prenorm = [left * size * (1 + second), second, 1.0]
        for name, counts in (("vanilla", (1, 1, 1)), ("attnres", (1, 4, 9))):
            found = start_gradients(config, resolve(name, config.shape), std, scale_outputs=False)
            if not np.allclose(found, [b * k for b, k in zip(prenorm, counts, strict=True)], rtol=1e-12, atol=0):
                return False
    return True


@START.check(
    "exponents of reads' gradients over 400 attentions whose outputs are of one size and large, in the limit",
    states=(-1.0, 0.0),
    control=(-0.5, 0.5),
    wrong="PreNorm falls as its stream grows",
)
def exponents(expected: tuple[float, float]) -> bool:
    """Attention alone, so that chi is 1; over the reads from the fifth of 400 on, where the embedding is forgotten."""
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
def exponents_with_feed_forwards(law: Callable[[float], tuple[float, float]]) -> bool:
    """Gates are N(0, 1) here, d std^2 = 1, and what writes makes d of an attention's square, d_ff E silu^2 of a
    feed-forward's; by sums of Gauss and Hermite."""
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
            if abs(np.polyfit(numbers, np.log(squares) / 2, 1)[0] - exponent) > 0.02:
                return False
    return True


@START.check(
    "streams that grow as the power 0.15, 0.3 and 0.5 of the depth: exponents of reads' gradients, of 20 networks of "
    "200 linear maps, 64 wide, and in the limit",
    states=lambda gamma: (-0.5 - gamma, 0.5 - gamma),
    control=lambda gamma: (-2 * gamma, 1 - 2 * gamma),
    wrong="those of a relative size that falls as the stream grows: Full is more even beyond the fourth root alone",
    kind="sampled",
)
def exponents_of_powers(law: Callable[[float], tuple[float, float]]) -> bool:
    d, counts = 64, np.arange(1, 202)
    for gamma in (0.15, 0.3, 0.5):
        outputs = np.diff(counts ** (2 * gamma), prepend=0.0)
        limit = np.array(sent_back(list(outputs), [1 - 1 / d] * 200))
        networks = np.mean([_through_linear_maps(outputs, d, seed) for seed in range(20)], axis=0)
        if abs(np.sqrt(networks / networks[-1] / limit) - 1).max() > 0.3:
            return False
        for squares in (limit, networks):
            for power, exponent in zip((0, 2), law(gamma), strict=True):
                of_reads = np.log(squares * counts**power)[9:200] / 2
                if abs(np.polyfit(np.log(counts[9:200]), of_reads, 1)[0] - exponent) > 0.06:
                    return False
    return True


def _through_linear_maps(outputs: Any, d: int, seed: int) -> Any:
    """Squares of reads' gradients in a PreNorm network of random linear maps whose outputs have these mean squares."""
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
    """Of deviations of the logarithm; attention alone puts out (d std)^2 times the embedding's square."""
    config = replace(WIDE, d_model=4096, n_layers=24, d_ff=0)

    def spread(name: str, all_outputs: float) -> float:
        std = sqrt(all_outputs / 24) / 4096
        squares = start_gradients(config, resolve(name, config.shape), std, scale_outputs=False)
        return pstdev([log(square) for square in squares[:-1]])

    return all((spread("attnres", total * f) < spread("vanilla", total * f)) == (f > 1) for f in (0.98, 1.02))


@START.check(
    "the same over 20,000 sublayers of slope 1 and of slope 2, in the limit",
    states=even_beyond,
    control=lambda chi: even_beyond(1.0),
    wrong="whatever the slope",
)
@START.check(
    "the same over 20,000 sublayers of slope 1 and of slope 2, in the limit",
    states=even_beyond,
    control=lambda chi: 3.6,
    wrong="as at 24 sublayers",
)
def more_even_in_many(total_for: Callable[[float], float]) -> bool:
    count = 20_000
    numbers = np.log(np.arange(1, count + 1))
    for chi in (1.0, 2.0):
        for factor in (0.97, 1.02):
            total = factor * total_for(chi)
            prenorm = np.log(sent_back([1.0, *[total / count] * count], [chi] * count)[:-1]) / 2
            if ((prenorm + numbers).std() < prenorm.std()) != (factor > 1):
                return False
    return True


def _reads(config: Architecture, name: str, std: float) -> Any:
    """Mean squares of reads' gradients, over decoders."""
    from experiments.attnres.networks import read_squares

    plan = resolve(name, config.shape)
    return np.mean([read_squares(config, plan, seed, std, scale_outputs=False) for seed in range(SEEDS)], axis=0)
