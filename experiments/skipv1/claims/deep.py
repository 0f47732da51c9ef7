"""Deeper linear toys: own values, raw values and mixed values as polynomials of S."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim, at
from experiments.toys.unjudged import OF_VALUES_IN_A_TABLE
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts import regression, setting, spectral
from theory.skipv1.paper import PAPER
from theory.skipv1.variants import cla_v
from theory.toy import deep
from theory.toy.deep import mixed_weights, reach, residual_polynomial, value_sources
from theory.toy.stack import (
    AttentionHead,
    Value,
    descent_layers,
    polynomial_prediction,
    predicts,
    prompt,
    side_by_side,
    x_slot,
    y_slot,
)

FAMILY = (
    "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; tokens (x ; y) of width 2d, a residual stream, linear attention over "
    "the context; queries and keys read x alone, with a multiple of x^T x', values read and outputs write y alone"
)
SIZES = ((1, 1), (2, 3), (3, 2), (4, 7))
TASKS = ((1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 8, Fraction(1)), (4, 2, Fraction(2)))


def product_of_steps(steps: Sequence[Any]) -> Sequence[float]:
    """Return prod (1 - beta s), one factor per layer."""
    whole = np.poly1d([1.0])
    for row in steps:
        whole = whole * np.poly1d([-sum(row.values()), 1.0])
    return list(whole.coeffs[::-1])


def sum_of_steps(steps: Sequence[Any]) -> Sequence[float]:
    """Return 1 - s sum beta."""
    return [1.0, -sum(sum(row.values()) for row in steps)]


def product_of_pairs(steps: Sequence[Any]) -> Sequence[float]:
    """Return prod (1 - beta s), one factor per two layers."""
    return product_of_steps([{1: sum(sum(row.values()) for row in steps[i : i + 2])} for i in range(0, len(steps), 2)])


OWN_VALUES = Claim(
    "deep.own-values",
    PAPER.ours,
    place="theory/toy/deep.py, theorems 1 to 3; bears on MHA, on SkipV0 and on shared keys and queries",
    statement="k layers of own values predict S_yx q(S_xx) x.  With a number for each layer's weight, 1 - s q is "
    "any polynomial of degree <= k with real roots only and value 1 at 0, and no other; with matrices on an even "
    "number of outputs any at all; on an odd number, none without a real root at even k.",
    assumes=FAMILY,
    verdict="verified",
    proof=deep,
    unjudged=OF_VALUES_IN_A_TABLE,
)


@OWN_VALUES.check(
    "attention, token by token, 1 to 6 layers: the steps multiply",
    states=("vanilla", product_of_steps),
    control=("vanilla", sum_of_steps),
    wrong="the steps add up",
)
def attention_computes(version: tuple[str, Callable[[Sequence[Any]], Sequence[float]]]) -> bool:
    """Random weights of a named plan, token by token, in 1 to 6 layers: W = S_yx q(S_xx) with the stated p.

    The recursion gives p a coefficient for every degree up to the number of layers.
    """
    name, polynomial = version
    rng = np.random.default_rng(20)
    for layers in (1, 2, 3, 6):
        sources = value_sources(resolve(name, Shape(layers, 2)))
        for d, n in SIZES:
            x, y, query = prompt(rng, d, n, 0.5)
            size = float(np.linalg.norm(x @ x.T, 2))
            steps = [{m: float(rng.uniform(-1, 1)) / size for m in sorted(row)} for row in sources]
            stack = descent_layers([{m: beta * np.eye(d) for m, beta in row.items()} for row in steps])
            recursion = [float(c) for c in residual_polynomial(steps)]
            if len(recursion) != layers + 1:
                return False
            if not np.allclose(recursion[: len(polynomial(steps))], polynomial(steps), rtol=1e-9, atol=0):
                return False
            if not predicts(side_by_side(x, y, query), stack, polynomial_prediction(polynomial(steps), x, y, query)):
                return False
    return True


@OWN_VALUES.check(
    "200 random polynomials of six layers have real roots only, by Sturm's theorem",
    states="vanilla",
    control="skipv1",
    wrong="with layer 1's values too",
    kind="exact",
)
def roots_are_real(name: str) -> bool:
    """Check 200 random p of a named plan, six layers; exact, by Sturm's theorem."""
    rng = np.random.default_rng(21)
    sources = value_sources(resolve(name, Shape(6, 2)))
    return all(
        spectral.is_real_rooted(
            residual_polynomial([{m: Fraction(int(rng.integers(-9, 10)), 4) for m in row} for row in sources])
        )
        for _ in range(200)
    )


@OWN_VALUES.check(
    "two layers whose output matrices are a I + b J and a I - b J, J^2 = -I, make a pair of complex roots",
    states=-1,
    control=1,
    wrong="J^2 = I",
)
def complex_steps_reach(square: int) -> bool:
    """beta = a + b i and a - b i as matrices a I +- b J with J^2 = square I make p = |1 - beta s|^2; d = 2 and 4."""
    rng = np.random.default_rng(22)
    for d, n in ((2, 1), (2, 5), (4, 6)):
        x, y, query = prompt(rng, d, n, 0.5)
        a, b = rng.uniform(0.2, 1, 2) / np.linalg.norm(x @ x.T, 2)
        turn = np.kron(np.eye(d // 2), np.array([[0.0, square], [1.0, 0.0]]))
        stack = descent_layers([{1: a * np.eye(d) + b * turn}, {2: a * np.eye(d) - b * turn}])
        if not predicts(side_by_side(x, y, query), stack, polynomial_prediction([1, -2 * a, a**2 + b**2], x, y, query)):
            return False
    return True


@OWN_VALUES.check(
    "on three outputs the determinant of two layers has a real root or too low a degree; exact",
    states=3,
    control=2,
    wrong="on two outputs",
    kind="exact",
)
def two_matrices_have_a_real_root(d: int) -> bool:
    """det (I - s B_1)(I - s B_2) has a real root or a degree below 2d, for random rational B; exact."""
    rng, s = np.random.default_rng(23), sympy.Symbol("s")
    for _ in range(30):
        factors = ((sympy.eye(d) - s * sympy.Matrix(rng.integers(-5, 6, (d, d)))).det() for _ in range(2))
        whole = sympy.Poly(sympy.prod(factors), s)
        if whole.degree() == 2 * d and whole.count_roots() == 0:
            return False
    return True


RAW_VALUES = Claim(
    "deep.raw-values-one-step",
    PAPER.ours,
    place="theory/toy/deep.py, theorems 2 and 3; bears on SVFormer (ResFormer, Eqn. (10)), and on CLA and YOCO "
    "(SkipV1Former, section 6.1)",
    statement="k layers that all use layer 1's values are worth one gradient step, whatever k; layers that share "
    "values by blocks are worth one step a block.",
    assumes=FAMILY + ".  A head that writes to the x slot makes more of raw values, too",
    verdict="verified",
    proof=deep,
    uses=("deep.best-polynomial", "skipv1.mha-infimum"),
    unjudged={**OF_VALUES_IN_A_TABLE, cla_v: "CLA shares the same values; its keys make no difference"},
)

RAW_VALUES.check(
    "SVFormer's attention, token by token, 1 to 6 layers: the steps add up",
    states=("svformer", sum_of_steps),
    control=("svformer", product_of_steps),
    wrong="the steps multiply",
)(attention_computes)

RAW_VALUES.check(
    "value sharing in every second layer (CLA), token by token: one step for two layers",
    states=("cla-v", product_of_pairs),
    control=("cla-v", product_of_steps),
    wrong="one a layer",
)(attention_computes)


@RAW_VALUES.check(
    "in 1, 2, 4 and 8 layers random weights make a gradient step and no more; exact.  The best step has the least loss "
    "of all linear maps of S_yx, by elimination from the moments",
    states="svformer",
    control="cla-v",
    wrong="CLA, which has a step for every second layer",
    kind="exact",
)
def one_step_is_best(name: str) -> bool:
    """Compare losses; a named plan's random polynomials are 1 - eta s in 1, 2, 4 and 8 layers.

    The best of those, by its moments, has the bound for linear maps; exact.
    """
    rng = np.random.default_rng(19)
    for layers in (1, 2, 4, 8):
        plan = resolve(name, Shape(layers, 2))
        for _ in range(5):
            steps = [{m: Fraction(int(rng.integers(1, 9)), 4) for m in row} for row in value_sources(plan)]
            total = sum(sum(row.values()) for row in steps)
            if [*residual_polynomial(steps)][:2] != [1, -total] or any(residual_polynomial(steps)[2:]):
                return False
        if reach(plan) != deep.Reach(1, 0):
            return False
    for d, n, sigma in TASKS:
        first, second = regression.trace_moments(d, n, 2)[1:]
        loss = d * (d - first**2 / (second + sigma**2 * first)) + d * sigma**2
        bound = d**2 + d * sigma**2 - d**2 * setting.signal_share(d, n, sigma)
        if not loss == bound == spectral.best_polynomial(d, n, sigma, 1).loss:
            return False
    return True


@RAW_VALUES.check(
    "outside the family: with x <- (I + b S_xx) x beside, two layers of raw values make a square",
    states=2,
    control=0,
    wrong="one step there too",
)
def writing_x_makes_more(power: int) -> bool:
    """Two layers of raw values, the first of which also writes x <- (I + b S_xx) x: S_yx [c + g (I + b S_xx)^power]."""
    rng = np.random.default_rng(24)
    for d, n in SIZES:
        x, y, query = prompt(rng, d, n, 0.5)
        b, c, g = rng.uniform(0.2, 1, 3) / np.linalg.norm(x @ x.T, 2)
        eye = np.eye(d)
        look, raw = x_slot(eye), Value(1, y_slot(eye))
        first = [
            AttentionHead((raw,), y_slot(-c * eye), look, look),
            AttentionHead((Value(1, look),), b * look, look, look),
        ]
        second = [AttentionHead((raw,), y_slot(-g * eye), look, look)]
        gram = np.linalg.matrix_power(eye + b * x @ x.T, power)
        if not predicts(side_by_side(x, y, query), [first, second], y @ x.T @ (c * eye + g * gram) @ query):
            return False
    return True


MIXED_VALUES = Claim(
    "deep.mixed-values",
    PAPER.ours,
    place="theory/toy/deep.py, theorem 2; theory/prompts/spectral.py, (4) and (5); bears on ResFormer and SkipV1Former",
    statement="k layers with their own values and layer 1's reach every polynomial of degree <= k.  Against own "
    "values with a number for each layer's weight that wins nothing up to a noise sigma_k(d, n), in particular "
    "nothing at sigma = 0, and something for every sigma above it, k >= 2; against matrices on an even number of "
    "outputs it wins nothing.",
    assumes=FAMILY + "; k free weights",
    verdict="verified",
    proof=deep,
    uses=("deep.own-values", "deep.best-polynomial"),
    unjudged={
        **OF_VALUES_IN_A_TABLE,
        at(mixed_weights, "layers + 1 -> layers + 2"): "one coefficient more, which is zero, above the degree",
    },
)


@MIXED_VALUES.check(
    "weights for random polynomials, two to six layers, exactly; the own ones are given beforehand",
    states=1,
    control=2,
    wrong="layer 2's values instead of layer 1's",
    kind="exact",
)
def every_polynomial_is_made(source: int) -> bool:
    """`mixed_weights` for random p, with what they say of layer 1's values given to layer `source`'s; exact."""
    rng = np.random.default_rng(25)
    for layers in range(2, 7):
        for _ in range(20):
            target = [Fraction(1), *(Fraction(int(c), 3) for c in rng.integers(-9, 10, layers))]
            own = [Fraction(int(c)) for c in rng.integers(1, 6, layers - 1)]
            rows = mixed_weights(target, own)
            if [row[n] for n, row in enumerate(rows[1:], 2)] != own:
                return False
            steps = [{m if m == n else source: w for m, w in row.items()} for n, row in enumerate(rows, 1)]
            if list(residual_polynomial(steps)) != target:
                return False
    return True


@MIXED_VALUES.check(
    "one ResFormer head a layer, halves fixed, makes the best polynomial of four layers, token by token",
    states=True,
    control=False,
    wrong="all layers have layer 1's V",
)
def one_resformer_head_reaches(own_projection: bool) -> bool:
    """One head per layer, half its own value and half layer 1's, makes the best p above the threshold, token by token.

    own_projection: each layer has a V of its own; else all have layer 1's, which ties the two halves.
    """
    rng = np.random.default_rng(26)
    for d, n in SIZES:
        x, y, query = prompt(rng, d, n, 0.5)
        residual = [float(c) for c in spectral.best_polynomial(d, n, Fraction(4), 4).residual]
        unit = float(np.linalg.norm(x @ x.T, 2))
        steps = mixed_weights(residual, [1 / unit, 2 / unit, 3 / unit])
        eye = np.eye(d)
        look, first = x_slot(eye), y_slot(eye)
        layers = [[AttentionHead((Value(1, first),), -steps[0][1] * first, look, look)]]
        for layer, row in enumerate(steps[1:], 2):
            own = row[layer] / row[1] if own_projection else 1.0
            values = (Value(layer, own * first, 0.5), Value(1, first, 0.5))
            layers.append([AttentionHead(values, -2 * row[1] * first, look, look)])
        if not predicts(side_by_side(x, y, query), layers, polynomial_prediction(residual, x, y, query)):
            return False
    return True


MIXED_VALUES.check(
    "attention, token by token, makes the polynomials of the recursion: SkipV1Former",
    states=("skipv1", residual_polynomial),
    control=("skipv1", product_of_steps),
    wrong="with layer 1's weights taken for own ones",
)(attention_computes)


@MIXED_VALUES.check(
    "two layers, sigma = 2: the best quadratic has complex roots and no two own steps have its loss; exact",
    states=Fraction(2),
    control=Fraction(1),
    wrong="sigma = 1, below the threshold",
    kind="exact",
)
def real_roots_lose_at_two_layers(sigma: Fraction) -> bool:
    """No two own steps are as good as the best quadratic, whose own roots are complex; exact, by Sturm's theorem.

    The loss being convex in p, the best p with real roots is then a square: no eta attains the best loss by one.
    """
    return all(_only_complex_roots_are_best(d, n, sigma) for d, n in ((1, 1), (2, 2), (3, 8)))


def _only_complex_roots_are_best(d: int, n: int, sigma: Fraction) -> bool:
    best, eta = spectral.best_polynomial(d, n, sigma, 2), sympy.Symbol("eta")
    _, c1, c2 = best.residual
    moments, noise = regression.trace_moments(d, n, 4), sympy.Rational(sigma.numerator, sigma.denominator) ** 2
    p = [1, -2 * eta, eta**2]
    left = sum(a * b * moments[i + j] for i, a in enumerate(p) for j, b in enumerate(p))
    carried = sum(a * b * moments[i + j + 1] for i, a in enumerate(p[1:]) for j, b in enumerate(p[1:]))
    lowest = sympy.Rational(best.loss.numerator, best.loss.denominator)
    above = sympy.Poly(d * (left + noise * (carried + 1)) - lowest, eta)
    return c1**2 < 4 * c2 and above.count_roots() == 0 and above.eval(0) > 0


@MIXED_VALUES.check(
    "the best polynomials of degree 2 to 6 have real roots just below sigma_k, and not just above; exact",
    states=1.0,
    control=1.1,
    wrong="the threshold a tenth higher",
    kind="exact",
)
def threshold_parts(factor: float) -> bool:
    """Complex roots just above `factor` sigma_k, and real ones just below and at 0; exact coefficients, Sturm."""
    for d, n in SIZES:
        for degree in range(2, 7):
            threshold = spectral.noise_threshold(d, n, degree) * factor
            for times, real in ((0.0, True), (1 - 1e-6, True), (1 + 1e-6, False)):
                best = spectral.best_polynomial(d, n, Fraction(threshold * times), degree)
                if spectral.is_real_rooted(best.residual) is not real:
                    return False
    return True
