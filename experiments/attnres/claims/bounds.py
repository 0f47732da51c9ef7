"""Claims on what bounds reads, with norms and without, in decoders and in the linear-attention toy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import gamma, sqrt
from typing import Any

import numpy as np

from experiments.attnres.claims.decoders import CLOSE, SIZES, UNJUDGED
from experiments.ledger.claim import Claim, Conditions, at
from theory.attnres import bounds as bounds_theory
from theory.attnres import deep, toy, unnormed
from theory.attnres.bounds import read_bounds
from theory.attnres.coefficients import start_matrix
from theory.attnres.growth import extremal
from theory.attnres.paper import PAPER
from theory.attnres.toy import descent_reads, mean_squares, random_reads
from theory.attnres.unnormed import start_growth, unnormed_law, unnormed_outputs
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.presets import llama
from theory.plans.presets import toy as toy_sizes
from theory.plans.setting import Setting
from theory.prompts import regression, spectral
from theory.toy import stack
from theory.toy.deep import residual_polynomial as of_residual_stream

TWO_BLOCKS = "attnres-block:blocks=2"

BOUNDED = Claim(
    "attnres.bounded",
    PAPER.name,
    place="summary: output magnitudes remain bounded across depth",
    statement="With a norm before every sublayer, what Full AttnRes reads is never larger than the largest bound "
    "C_i that a sublayer's weights put on its output, or the embedding, whatever the depth; what Block reads, than "
    "S times that for blocks of S sublayers; PreNorm's stream can be as large as the sum of all.",
    assumes="one-headed softmax over depth; softmax attention over a layer's own values; no biases",
    verdict="corrected",
    correction="It depends on what bounds it, and when: a fixed number of blocks is bounded by L/N max C_i, which "
    "grows with depth like PreNorm; without a norm before or after the sublayers there is a bound for small sublayers "
    "alone (attnres.norms); with several heads over depth the largest source is no bound; and there is no lower bound, "
    "as sources can cancel.  Of trained networks it says little, as weights grow: in one run on text that is not kept, "
    "3 to 24 layers, Full's largest read grew as the depth to the power 0.95, within its bounds; others are listed in "
    "attnres-bounds.",
    proof=bounds_theory,
    uses=("attnres.attention-output", "attnres.feed-forward-output"),
    unjudged=UNJUDGED,
)


@BOUNDED.check(
    "decoders whose outputs are aligned within a block and whose queries are long attain every bound, 2 to 16 layers",
    states={"attnres": lambda n: 1, TWO_BLOCKS: lambda n: n / 2, "vanilla": lambda n: n + 1},
    control={"attnres": lambda n: 1, TWO_BLOCKS: lambda n: 1, "vanilla": lambda n: n + 1},
    wrong="Block is bounded by the largest output, as Full is",
)
def decoders_attain(largest: Mapping[str, Callable[[int], float]]) -> Conditions:
    """Compare largest bounds by depth rule and number of sublayers, with outputs of length 1."""
    from experiments.attnres.networks import growing, read_norms

    for name, bound_at in largest.items():
        for layers in (2, 4, 8, 16):
            config = replace(SIZES, n_layers=layers, context=layers)
            plan, outputs = resolve(name, config.shape), [1.0] * (2 * layers)
            network = extremal(config, plan, 1.0, outputs)
            found, bounds = read_norms(growing(config, plan, network, query=1e4)), read_bounds(config, plan, 1, outputs)
            yield np.allclose(found, bounds, rtol=CLOSE, atol=0)
            yield abs(max(found) - bound_at(2 * layers)) <= CLOSE


@BOUNDED.check(
    "two and four heads over depth, each at a source of its own, through a decoder's depth rule: the read over its "
    "largest source",
    states=0.5,
    control=0.0,
    wrong="the largest source bounds it, as with one head",
)
def heads_read_more_than_a_source(power: float) -> Conditions:
    """Compare the read with the number of heads to this power."""
    import torch

    from icl.models.decoder import Decoder

    for heads in (2, 4):
        config = replace(SIZES, d_model=2 * heads, n_heads=heads, n_layers=heads, d_ff=0)
        plan = resolve(f"attnres-heads:heads={heads}", config.shape)
        model = Decoder(config, plan).double()
        sources = torch.eye(2 * heads, dtype=torch.float64)[::2, None, None]  # of norm 1, each in a part of its own
        with torch.no_grad():
            model.get_parameter("depth.query").fill_(1e3)
        rule = model.depth
        state = rule.start(sources[0])
        for i, source in enumerate(sources[1:]):
            state = rule.write(i, state, source)
        found = float(rule.read(heads - 1, state).detach().norm())
        allowed = read_bounds(config, plan, 1.0, [1.0] * heads)[heads - 1]
        yield abs(found - heads**power) <= CLOSE
        yield abs(found - allowed) <= CLOSE


@BOUNDED.check(
    "two heads over depth: of the two bounds the smaller one, for unequal sources and for more sources than heads",
    states=min,
    control=max,
    wrong="the larger one",
)
def two_bounds_of_two_heads(smaller: Callable[..., float]) -> Conditions:
    """Compare with sqrt 2 times the largest of the embedding and the outputs, and the root of the sum of squares."""
    config = replace(SIZES, n_heads=2, n_layers=3, d_ff=0)
    plan = resolve("attnres-heads:heads=2", config.shape)
    for sizes in ((3.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0), (0.5, 2.0, 0.0, 4.0)):
        for read, bound in enumerate(read_bounds(config, plan, sizes[0], sizes[1:])[1:], 2):
            seen = sizes[:read]
            yield abs(bound - smaller(sqrt(2) * max(seen), sqrt(sum(size**2 for size in seen)))) <= CLOSE


@BOUNDED.check(
    "random decoders with weights of every size keep below the bounds at every read, float64",
    states=1.0,
    control=0.25,
    wrong="a bound that takes the length of a normed vector, sqrt(16), for 1",
)
def decoders_stay_below(factor: float) -> Conditions:
    """Check norms at every read but the first, the embedding, over `factor` times their bounds."""
    import torch

    from experiments.training.magnitude_probe import bounds
    from icl.models.decoder import Decoder
    from icl.probes.magnitude import magnitudes

    config = llama(d_model=16, n_heads=2, n_layers=4, d_ff=32, vocab=64, context=8)
    tokens = torch.arange(64).view(8, 8)
    for name in ("vanilla", "attnres", TWO_BLOCKS):
        for std in (0.02, 0.3, 3.0):
            model = Decoder(config, resolve(name, config.shape), std=std).double()
            measured = magnitudes(model, tokens, lambda answer: answer.square().mean())
            allowed = bounds(model, measured.output_max[0])
            pairs = zip(measured.read_max[1:], allowed[1:], strict=True)
            yield all(norm <= factor * bound * (1 + 1e-12) for norm, bound in pairs)


PLACE = "summary: output magnitudes remain bounded across depth"
SOFTMAX_ALONE = "bounded: a softmax is a convex combination"
BLOCK_OF_TWO = "attnres-block:size=2"

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
    states={BLOCK_OF_TWO: lambda a, m: max(1, 2 * a, a * (1 + a)) ** (m // 2) * (max(1, a) if m % 2 else 1)},
    control={BLOCK_OF_TWO: lambda a, m: max(1, a) ** m},
    wrong="Block grows as Full does",
)
def decoders_grow(laws: Mapping[str, Callable[[float, int], float]]) -> Conditions:
    from experiments.attnres.networks import growing, read_norms

    for name, law in laws.items():
        for factor in (0.4, 1.0, 1.7):
            for layers in (1, 4, 5):
                config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
                plan, factors = resolve(name, config.shape), [factor] * layers
                network = extremal(config, plan, 1.0, unnormed_outputs(config, plan, 1.0, factors))
                found = read_norms(growing(config, plan, network, query=1e4, factors=factors))
                last = found[-1], unnormed_law(plan.depth, layers, factor), law(factor, layers)
                yield np.allclose(found, network.reads, rtol=CLOSE)
                yield np.allclose(last, last[0], rtol=CLOSE)


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
    model = growing(config, plan, network, query=1e4, factors=[1.0] * 3)
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
def aligned_decoders(law: Callable[[float, int], float]) -> Conditions:
    from experiments.attnres.networks import growing, read_norms

    for layers, factor in ((1, Fraction(1, 2)), (4, Fraction(2)), (6, Fraction(1))):
        config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
        plan, factors = resolve("attnres", config.shape), [float(factor)] * layers
        along = extremal(config, resolve("vanilla", config.shape), 1.0, [1.0] * layers)
        last = read_norms(growing(config, plan, along, query=7.0, factors=factors))[-1]
        predicted = law(float(factor), layers), float(start_growth(config, plan, factor))
        yield np.allclose(predicted, last, rtol=CLOSE)


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
    unjudged={
        **UNJUDGED,
        **{
            at(toy._squared, change): "more zeros beyond the highest power: the same polynomial"
            for change in ("2 * len(p) - 1 -> 2 * len(p) + 1", "2 * len(p) -> 3 * len(p)")
        },
    },
)
RULES = {"vanilla": lambda i: 1.0, "attnres": lambda i: 1 / (i + 1), BLOCK_OF_TWO: lambda i: 1 / (1 + (i + 1) // 2)}
Scales = Mapping[str, Callable[[int], float]]


def _matrix(name: str, layers: int) -> Any:
    return start_matrix(toy_sizes(2, 1, heads=1, layers=layers), resolve(name, Shape(layers, 1)))


@TOY.check(
    "one dimension: quadrature over the only eigenvalue, a product of factors for each read",
    states=RULES,
    control={**RULES, BLOCK_OF_TWO: lambda i: 1 / (i + 1)},
    wrong="Block's reads are divided as Full's",
    others={"Full's steps are as long as a residual stream's": {**RULES, "attnres": lambda i: 1.0}},
)
def by_quadrature(scales: Scales) -> Conditions:
    """Integrate at d = 1, n = 3, S_xx being chi-square of three degrees of freedom; gradient steps and random ones."""
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
                yield np.allclose([float(found.context), float(found.query)], expected, rtol=CLOSE)
            if i < len(steps):
                step = float(steps[i])
                answered = answered + step**2 * a**6 * spread
                spread = spread * (1 + step**2 * a**6 * s**2)
                walked = walked * (1 - step * a**3 * s)


@TOY.check(
    "decoders of two dimensions on 6,000 prompts, to four standard errors",
    states=0,
    control=1,
    wrong="under the next depth rule",
    kind="sampled",
)
def on_prompts(shift: int) -> Conditions:
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
                yield abs(float(sample.mean()) - float(exact)) <= 4 * float(sample.std()) / sqrt(len(sample))


@TOY.check(
    "ratios of neighbouring reads' mean squares over ten layers",
    states={"vanilla": True, "attnres": False},
    control={"vanilla": False, "attnres": False},
    wrong="a residual stream is bounded for short steps",
    kind="exact",
    others={"Full grows as a residual stream does": {"vanilla": True, "attnres": True}},
)
def explodes(growth: Mapping[str, bool]) -> Conditions:
    """Check whether ratios grow from below 1 to above it, or stay below it."""
    for name, grows in growth.items():
        reads = descent_reads(_matrix(name, 10), [Fraction(1, 6)] * 10)
        sizes = [mean_squares(Setting(1, 2, Fraction(0)), read).context for read in reads]
        ratios = [after / before for before, after in pairwise(sizes)]
        accelerates = ratios == sorted(ratios) and ratios[0] < 1 < ratios[-1]
        yield accelerates == grows
        yield (max(ratios) < 1) != grows


POLYNOMIALS: tuple[tuple[int | Fraction, ...], ...] = (
    (1, -3, Fraction(5, 2)),  # complex roots
    (1, 0, 1),  # above 1 everywhere
    (1, 1, 1),  # 1 at the first point that is tried
    (1, 2, 3, 3),  # whose first point leaves nothing at first order
    (1, 2, -1, 3),
    (1, 0, 0, 0, -2),
    (1, -1),
    (1, 1, 0, 4, 5, 1),
)

DEEP = Claim(
    "attnres.deep-toy",
    PAPER.name,
    place="the depth weights of the summary's formula, fixed, in the deep toy (no statement of the paper)",
    statement="Depth weights that are a softmax reach more than a residual stream does; that they are positive with a "
    "sum of one costs nothing.",
    assumes="W0 = 0; linear attention, scalar weights, heads that write the y slot; static logits; any readout factor",
    verdict="verified",
    correction="k layers reach every polynomial of degree k, by one ratio a read, so with blocks of any size; a "
    "residual stream, those with real roots.  At d = 5, n = 8, sigma = 2 four layers lose 31.35 for 31.69, 2.9 % of "
    "what the residual stream loses above the noise, which is 20; two layers gain 0.2 % of it.  At sigma = 0 it is "
    "worth nothing.  With zero logits the stack is a residual one with layer l's step over l^3.",
    proof=deep,
    unjudged={
        stack.x_slot: "projections of a stack that is compared with itself and with a polynomial",
        stack.y_slot: "the same",
        **dict.fromkeys(
            (at(deep._point, place) for place in ("-1 if lowest > 0 else 1", "Fraction(1, 2 ** power)", "2 ** power")),
            "which point is taken, of those that do",
        ),
        at(deep.of_polynomial, "Fraction(1)"): "the ratio at reads of idle layers, which weigh nothing",
    },
)


@DEEP.check(
    "weights with one positive ratio a read make polynomials with complex roots, and those above 1 everywhere",
    states=2,
    control=1,
    wrong="the factor of the x slot on queries or keys alone",
    kind="exact",
)
def one_ratio_makes_any(power: int) -> Conditions:
    """Compare polynomials where queries and keys shrink per step by this power of the embedding's weight."""
    for residual in POLYNOMIALS:
        layers = len(residual)  # one more than needed
        toy = deep.of_polynomial(residual, layers)
        yield all(min(row) > 0 and sum(row) == 1 and len({*row[1:]}) <= 1 for row in toy.weights)
        steps = [step * row[0] ** (2 - power) for step, row in zip(toy.steps, toy.weights, strict=False)]
        yield deep.residual_polynomial(toy.weights, steps, toy.readout) == (*map(Fraction, residual), 0)


@DEEP.check(
    "weights of the embedding and the newest output alone, by Horner's scheme",
    states=1,
    control=-1,
    wrong="with the layers' steps in the order of the powers",
    kind="exact",
)
def newest_alone_makes(order: int) -> bool:
    residual = (1, 2, -1, 3)
    toy = deep.by_horner(residual, 3)
    betas = [step * row[0] ** 3 for step, row in zip(toy.steps, toy.weights, strict=False)][::order]
    steps = [beta / row[0] ** 3 for beta, row in zip(betas, toy.weights, strict=False)]
    made = deep.residual_polynomial(toy.weights, steps, toy.readout)
    softmax = all(sum(row) == 1 and min(row) >= 0 and not any(row[1:-1]) for row in toy.weights)
    return softmax and made == tuple(map(Fraction, residual))


@DEEP.check(
    "stacks of three and four layers, written out token by token, predict what their polynomial does",
    states=True,
    control=False,
    wrong="a readout by the stack's last weight on the embedding, forgotten",
)
def stacks_predict(scaled: bool) -> Conditions:
    rng = np.random.default_rng(0)
    x, y, query = stack.prompt(rng, 3, 5, 0.5)
    x = x / np.sqrt(5)
    for layers in (3, 4):
        rows = rng.uniform(0.1, 1, (layers + 1, layers + 1))
        weights = [[Fraction(w) for w in row[: r + 1] / row[: r + 1].sum()] for r, row in enumerate(rows)]
        steps = rng.standard_normal(layers)
        readout = 1 / float(weights[-1][0]) if scaled else 1.0
        read = deep.last_read(stack.side_by_side(x, y, query), weights, list(steps))
        residual = deep.residual_polynomial(weights, [Fraction(b) for b in steps], 1 / weights[-1][0])
        expected = stack.polynomial_prediction([float(c) for c in residual], x, y, query)
        yield np.linalg.norm(-readout * read[-1, 3:] - expected) <= 1e-10 * np.linalg.norm(expected)


@DEEP.check(
    "zero logits: the residual stream's polynomial for steps over this power of the layer's number",
    states=3,
    control=0,
    wrong="the same network, as with norms",
    kind="exact",
)
def zero_logits_are_smaller_steps(power: int) -> bool:
    steps = [Fraction(2), Fraction(-1, 3), Fraction(5, 2)]
    uniform = [[Fraction(1, read + 1)] * (read + 1) for read in range(4)]
    smaller = [{layer: b / layer**power} for layer, b in enumerate(steps, 1)]
    return deep.residual_polynomial(uniform, steps, 4) == of_residual_stream(smaller)


@DEEP.check(
    "what two layers gain over the best two steps, in squared units of y, by (d, n, sigma)",
    states={(3, 4, 2): 0.0464, (5, 8, 3): 0.2395},
    control={(3, 4, 2): 0.0},
    wrong="nothing",
)
def is_worth(gains: Mapping[tuple[int, int, int], float]) -> Conditions:
    """Check that the best polynomial of all is attained; the steps' loss is by their own moments, two of one size."""
    for (d, n, sigma), gain in gains.items():
        best = spectral.best_polynomial(d, n, sigma, 2)
        toy = deep.of_polynomial(best.residual, 2)
        loss = spectral.polynomial_loss(d, n, sigma, deep.residual_polynomial(toy.weights, toy.steps, toy.readout))
        found = regression.steps(d, n, sigma, 2).value - float(loss)
        yield loss == best.loss
        yield abs(found - gain) <= 5e-5


@DEEP.check(
    "what depth weights gain at d = 5, n = 8, sigma = 2, of what the best steps lose above the noise, by layers",
    states={2: 0.0023, 4: 0.0291},
    control={2: 0.0291, 4: 0.0291},
    wrong="as much with two layers as with four",
    others={"of what no layers lose above it": {2: 0.0023, 4: 0.0136}},
)
def shares_above_the_noise(shares: Mapping[int, float]) -> Conditions:
    d, n, sigma = 5, 8, 2
    for layers, share in shares.items():
        best = spectral.best_polynomial(d, n, sigma, layers)
        toy = deep.of_polynomial(best.residual, layers)
        loss = spectral.polynomial_loss(d, n, sigma, deep.residual_polynomial(toy.weights, toy.steps, toy.readout))
        of_steps = regression.steps(d, n, sigma, layers).value
        yield abs((of_steps - float(loss)) / (of_steps - d * sigma**2) - share) <= 5e-5


@DEEP.check(
    "best polynomials of degree two and four at d = 5, n = 8 and this sigma are those of steps: their roots are real",
    states=0,
    control=2,
    wrong="with noise as well",
)
def nothing_without_noise(sigma: int) -> Conditions:
    for layers in (2, 4):
        best = spectral.best_polynomial(5, 8, sigma, layers)
        yield abs(np.roots([float(c) for c in reversed(best.residual)]).imag).max() <= 1e-9
        yield abs(spectral.best_steps(5, 8, sigma, layers).loss / float(best.loss) - 1) <= 1e-9
