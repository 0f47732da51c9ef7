"""Claims on gradients by depth at random initial weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from experiments.attnres.claims.gradients import ANY_NETWORK, PLACE
from experiments.ledger.claim import Claim
from theory.attnres import start_gradients as theory
from theory.attnres.gradients import read_factor
from theory.attnres.initial import initial_outputs
from theory.attnres.paper import PAPER
from theory.attnres.start_gradients import slope, start_gradients
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
    statement="At initial weights of wide networks, PreNorm's gradient along the stream falls with depth as the stream "
    "grows, and what a sublayer sends back to its read as the square of the stream, for outputs of one size.  Full "
    "AttnRes at zero queries has the latter times the number of sources: even over depth where outputs are "
    "uncorrelated and large beside the embedding, and PreNorm's is not.",
    assumes="normal weights; one token alone; eps = 0; gradients that do not depend on the weights they pass through, "
    "as in the limit of wide networks",
    verdict="corrected",
    correction="More uniform is what reads get, and only where the stream grows faster than the fourth root of the "
    "depth; parameters get the same.",
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
    "exponents of reads' gradients over 400 sublayers whose outputs are of one size and large, in the limit",
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


def _reads(config: Architecture, name: str, std: float) -> Any:
    """Mean squares of reads' gradients, over decoders."""
    from experiments.attnres.networks import read_squares

    plan = resolve(name, config.shape)
    return np.mean([read_squares(config, plan, seed, std, scale_outputs=False) for seed in range(SEEDS)], axis=0)
