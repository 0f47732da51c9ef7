"""Claims on depth attention without norms before sublayers, in decoders and in the linear-attention toy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import gamma, sqrt
from typing import Any

import numpy as np

from experiments.attnres.claims.growth import CLOSE, SIZES, UNJUDGED
from experiments.ledger.claim import Claim
from theory.attnres import toy, unnormed
from theory.attnres.bounds import read_bounds
from theory.attnres.coefficients import start_matrix
from theory.attnres.growth import extremal
from theory.attnres.paper import PAPER
from theory.attnres.toy import descent_reads, mean_squares, random_reads
from theory.attnres.unnormed import start_growth, unnormed_law, unnormed_outputs
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.presets import toy as toy_sizes
from theory.plans.setting import Setting

PLACE = "summary: output magnitudes remain bounded across depth"
SOFTMAX_ALONE = "bounded: a softmax is a convex combination"
BLOCK = "attnres-block:size=2"

NORMS = Claim(
    "attnres.norms",
    PAPER.name,
    place=PLACE,
    statement="Without norms before sublayers, and with linear sublayers of norm a, the largest last read after M of "
    "them is (1 + a)^M of the embedding for a residual stream, max(1, a)^M under Full, a geometric sequence under "
    "Block too, which grows for S a > 1, and some network comes as near to it as one likes.  Outputs that are all "
    "aligned grow under Full as a power of M, about M^(a - 1), whatever the queries.",
    assumes="one softmax over depth with normed keys, eps = 0; the limit of long queries where outputs turn",
    verdict="corrected",
    correction="A softmax over depth bounds reads by outputs.  Without norms before the sublayers these are bounded, "
    "at every depth, if and only if the sublayers are small: for a <= 1 under Full, S a <= 1 with blocks of S "
    "sublayers, a = 0 in a residual stream (outputs of at most a times their input).  A norm after the sum, PostNorm, "
    "bounds what is read as well (attnres.growth).  Under linear attention, whose output is cubic in what is read, "
    "growth can be doubly exponential.",
    proof=unnormed,
    unjudged=UNJUDGED,
)


@NORMS.check(
    "decoders without norms that attain every bound, at a of 0.4, 1 and 1.7",
    states={"vanilla": lambda a, m: (1 + a) ** m, "attnres": lambda a, m: max(1.0, a) ** m},
    control={"attnres": lambda a, m: 1.0},
    wrong=SOFTMAX_ALONE,
)
@NORMS.check(
    "decoders without norms that attain every bound, at a of 0.4, 1 and 1.7, blocks of two",
    states={BLOCK: lambda a, m: max(1, 2 * a, a * (1 + a)) ** (m // 2) * (max(1, a) if m % 2 else 1)},
    control={BLOCK: lambda a, m: max(1, a) ** m},
    wrong="Block grows as Full does",
)
def decoders_grow(laws: Mapping[str, Callable[[float, int], float]]) -> bool:
    from experiments.attnres.networks import growing, read_norms

    for name, law in laws.items():
        for factor in (0.4, 1.0, 1.7):
            for layers in (1, 4, 5):
                config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
                plan, factors = resolve(name, config.shape), [factor] * layers
                network = extremal(config, plan, 1.0, unnormed_outputs(config, plan, 1.0, factors))
                found = read_norms(growing(config, plan, network, 1e4, factors))
                last = found[-1], unnormed_law(plan.depth, layers, factor), law(factor, layers)
                if not np.allclose(found, network.reads, rtol=CLOSE) or not np.allclose(last, last[0], rtol=CLOSE):
                    return False
    return True


@NORMS.check(
    "linear attention: a decoder whose newest output is the cube of what was read",
    states=3,
    control=1,
    wrong="an output that is linear in what is read",
)
def linear_attention_cubes(power: int) -> bool:
    import torch

    from experiments.attnres.networks import growing, read_norms

    config = replace(SIZES, n_layers=3, d_ff=0, norm="none", score="linear", positions="none")
    plan = resolve("attnres", config.shape)
    outputs = unnormed_outputs(config, plan, 2.0, [1.0] * 3, power=power)
    network = extremal(config, plan, 2.0, outputs)
    model = growing(config, plan, network, 1e4, [1.0] * 3)
    with torch.no_grad():
        for layer in model.layers:
            for kind in ("query", "key"):
                layer.get_parameter(f"attention.projections.{kind}.weight").copy_(torch.eye(4))
    return np.allclose(read_norms(model), [2.0, 2.0**3, 2.0**9, 2.0**27], rtol=CLOSE) and np.allclose(
        read_bounds(config, plan, 2.0, outputs), read_norms(model), rtol=CLOSE
    )


@NORMS.check(
    "decoders whose outputs are all aligned, with queries, and the Gamma function",
    states=lambda a, m: gamma(m + 1 + a) / gamma(1 + a) / gamma(m + 2),
    control=lambda a, m: max(1, a) ** m,
    wrong="geometric growth without outputs that turn",
)
def aligned_decoders(law: Callable[[float, int], float]) -> bool:
    from experiments.attnres.networks import growing, read_norms

    for layers, factor in ((1, Fraction(1, 2)), (4, Fraction(2)), (6, Fraction(1))):
        config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
        plan, factors = resolve("attnres", config.shape), [float(factor)] * layers
        along = extremal(config, resolve("vanilla", config.shape), 1.0, [1.0] * layers)
        last = read_norms(growing(config, plan, along, 7.0, factors))[-1]
        predicted = law(float(factor), layers), float(start_growth(config, plan, factor))
        if not np.allclose(predicted, last, rtol=CLOSE):
            return False
    return True


TOY = Claim(
    "attnres.toy-magnitude",
    PAPER.name,
    place=f"{PLACE}; in the linear-attention toy, which has no norms",
    statement="On in-context regression the mean square of every read is known exactly for gradient steps and for "
    "random weights, under a residual stream, averages over depth, and Full and Block at zero queries.  With steps of "
    "one size it grows faster than every geometric sequence in a residual stream and falls as 1 / l^2 under Full.",
    assumes="depth rules that do not look at contents, so zero queries; heads that read x by queries and keys and y by "
    "values, and write y",
    verdict="corrected",
    correction="At zero queries Full is bounded without norms because its outputs are divided by the cube of the "
    "number of sources, and hardly moves; a fixed number of blocks does grow.  Queries that have moved can make it "
    "grow (attnres.norms).",
    proof=toy,
    unjudged=UNJUDGED,
)
RULES = {"vanilla": lambda i: 1.0, "attnres": lambda i: 1 / (i + 1), BLOCK: lambda i: 1 / (1 + (i + 1) // 2)}
Scales = Mapping[str, Callable[[int], float]]


def _matrix(name: str, layers: int) -> Any:
    return start_matrix(toy_sizes(2, 1, heads=1, layers=layers), resolve(name, Shape(layers, 1)))


@TOY.check(
    "one dimension: quadrature over the only eigenvalue, a product of factors for each read",
    states=RULES,
    control={**RULES, "attnres": lambda i: 1.0},
    wrong="Full's steps are as long as a residual stream's",
)
@TOY.check(
    "one dimension: quadrature over the only eigenvalue, a product of factors for each read",
    states=RULES,
    control={**RULES, BLOCK: lambda i: 1 / (i + 1)},
    wrong="Block's reads are divided as Full's",
)
def by_quadrature(scales: Scales) -> bool:
    """d = 1, n = 3: S_xx is chi-square with three degrees of freedom; weights are gradient steps, and random."""
    from scipy.special import roots_genlaguerre

    n, noise, few, many = 3, 0.25, [Fraction(1, 9), Fraction(1, 5), Fraction(1, 7)], [Fraction(1, 6)] * 10
    nodes, masses = roots_genlaguerre(20, n / 2 - 1)
    s, masses = 2 * nodes, masses / masses.sum()
    for steps, (name, scale) in product((few, many), scales.items()):
        matrix = _matrix(name, len(steps))
        walked, spread, answered = np.ones_like(s), np.ones_like(s), np.zeros_like(s)
        both = zip(descent_reads(matrix, steps), random_reads(matrix, steps), strict=True)
        for i, (descent, random) in enumerate(both):
            a = scale(i)
            for read, context, answer in (
                (descent, (a * walked) ** 2, (a * (1 - walked) / s) ** 2),
                (random, a**2 * spread, a**2 * answered),
            ):
                y = masses @ (s * context + noise * context) + noise * (n - 1) * a**2
                expected = a**2 + y / n, a**2 + masses @ (s**2 * answer + noise * s * answer)
                found = mean_squares(Setting(1, n, Fraction(1, 2)), read)
                if not np.allclose([float(found.context), float(found.query)], expected, rtol=CLOSE):
                    return False
            if i < len(steps):
                step = float(steps[i])
                answered = answered + step**2 * a**6 * spread
                spread = spread * (1 + step**2 * a**6 * s**2)
                walked = walked * (1 - step * a**3 * s)
    return True


@TOY.check(
    "decoders of two dimensions on 6,000 prompts, to four standard errors",
    states=0,
    control=1,
    wrong="under the next depth rule",
    kind="sampled",
)
def on_prompts(shift: int) -> bool:
    import torch

    from experiments.attnres.networks import descending, reads
    from theory.toy.stack import prompt, side_by_side

    setting, steps, rng = Setting(2, 3, Fraction(1, 2)), [Fraction(1, 12), Fraction(1, 9)], np.random.default_rng(0)
    tokens = torch.from_numpy(np.stack([side_by_side(*prompt(rng, *setting.floats)) for _ in range(6000)]))
    names = list(RULES)
    for name, other in zip(names, [*names[shift:], *names[:shift]], strict=True):
        weights = torch.stack([float(step) * torch.eye(2, dtype=torch.float64) for step in steps])
        found = reads(descending(resolve(name, Shape(2, 1)), 3, weights), tokens)
        for h, read in zip(found, descent_reads(_matrix(other, 2), steps), strict=True):
            squares, expected = h.square().sum(-1), mean_squares(setting, read)
            for sample, exact in ((squares[:, :-1].mean(1), expected.context), (squares[:, -1], expected.query)):
                if abs(float(sample.mean()) - float(exact)) > 4 * float(sample.std()) / sqrt(len(sample)):
                    return False
    return True


@TOY.check(
    "ratios of neighbouring reads' mean squares over ten layers",
    states={"vanilla": True, "attnres": False},
    control={"vanilla": True, "attnres": True},
    wrong="Full grows as a residual stream does",
    kind="exact",
)
@TOY.check(
    "ratios of neighbouring reads' mean squares over ten layers",
    states={"vanilla": True, "attnres": False},
    control={"vanilla": False, "attnres": False},
    wrong="a residual stream is bounded for short steps",
    kind="exact",
)
def explodes(growth: Mapping[str, bool]) -> bool:
    """Ratios that grow from below 1 to above it, or stay below it."""
    for name, grows in growth.items():
        reads = descent_reads(_matrix(name, 10), [Fraction(1, 6)] * 10)
        sizes = [mean_squares(Setting(1, 2, Fraction(0)), read).context for read in reads]
        ratios = [after / before for before, after in pairwise(sizes)]
        accelerates = ratios == sorted(ratios) and ratios[0] < 1 < ratios[-1]
        if accelerates != grows or (max(ratios) < 1) == grows:
            return False
    return True
