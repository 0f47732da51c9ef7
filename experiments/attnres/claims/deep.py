"""Claims on depth attention in the deep toy of linear attention."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from experiments.ledger.claim import Claim
from theory.attnres import deep
from theory.attnres.paper import PAPER
from theory.prompts import regression, spectral
from theory.toy import stack
from theory.toy.deep import residual_polynomial as of_residual_stream

POLYNOMIALS: tuple[tuple[int | Fraction, ...], ...] = (
    (1, -3, Fraction(5, 2)),  # complex roots
    (1, 0, 1),  # above 1 everywhere
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
    },
)


@DEEP.check(
    "weights with one positive ratio a read make polynomials with complex roots, and those above 1 everywhere",
    states=2,
    control=1,
    wrong="the factor of the x slot on queries or keys alone",
    kind="exact",
)
def one_ratio_makes_any(power: int) -> bool:
    """power: of the embedding's weight, by which queries and keys shrink a step."""
    for residual in POLYNOMIALS:
        layers = len(residual)  # one more than needed
        toy = deep.of_polynomial(residual, layers)
        if not all(min(row) > 0 and sum(row) == 1 and len({*row[1:]}) <= 1 for row in toy.weights):
            return False
        steps = [step * row[0] ** (2 - power) for step, row in zip(toy.steps, toy.weights, strict=False)]
        if deep.residual_polynomial(toy.weights, steps, toy.readout) != (*map(Fraction, residual), 0):
            return False
    return True


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
def stacks_predict(scaled: bool) -> bool:
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
        if np.linalg.norm(-readout * read[-1, 3:] - expected) > 1e-10 * np.linalg.norm(expected):
            return False
    return True


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
def is_worth(gains: Mapping[tuple[int, int, int], float]) -> bool:
    """The polynomial that is least of all is made; steps by their own moments, two of one size."""
    for (d, n, sigma), gain in gains.items():
        best = spectral.best_polynomial(d, n, sigma, 2)
        toy = deep.of_polynomial(best.residual, 2)
        loss = spectral.polynomial_loss(d, n, sigma, deep.residual_polynomial(toy.weights, toy.steps, toy.readout))
        found = regression.steps(d, n, sigma, 2).value - float(loss)
        if loss != best.loss or abs(found - gain) > 5e-5:
            return False
    return True


@DEEP.check(
    "what depth weights gain at d = 5, n = 8, sigma = 2, of what the best steps lose above the noise, by layers",
    states={2: 0.0023, 4: 0.0291},
    control={2: 0.0023, 4: 0.0136},
    wrong="of what no layers lose above it",
)
@DEEP.check(
    "what depth weights gain at d = 5, n = 8, sigma = 2, of what the best steps lose above the noise, by layers",
    states={2: 0.0023, 4: 0.0291},
    control={2: 0.0291, 4: 0.0291},
    wrong="as much with two layers as with four",
)
def shares_above_the_noise(shares: Mapping[int, float]) -> bool:
    d, n, sigma = 5, 8, 2
    for layers, share in shares.items():
        best = spectral.best_polynomial(d, n, sigma, layers)
        toy = deep.of_polynomial(best.residual, layers)
        loss = spectral.polynomial_loss(d, n, sigma, deep.residual_polynomial(toy.weights, toy.steps, toy.readout))
        of_steps = regression.steps(d, n, sigma, layers).value
        if abs((of_steps - float(loss)) / (of_steps - d * sigma**2) - share) > 5e-5:
            return False
    return True


@DEEP.check(
    "best polynomials of degree two and four at d = 5, n = 8 and this sigma are those of steps: their roots are real",
    states=0,
    control=2,
    wrong="with noise as well",
)
def nothing_without_noise(sigma: int) -> bool:
    for layers in (2, 4):
        best = spectral.best_polynomial(5, 8, sigma, layers)
        if abs(np.roots([float(c) for c in reversed(best.residual)]).imag).max() > 1e-9:
            return False
        if abs(spectral.best_steps(5, 8, sigma, layers).loss / float(best.loss) - 1) > 1e-9:
            return False
    return True
