"""Checks behind the ledger's entries on what deeper toys compute.  Each takes a version: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts import regression, setting, spectral
from theory.toy.deep import mixed_weights, reach, residual_polynomial, value_sources
from theory.toy.stack import (
    AttentionHead,
    Value,
    descent_layers,
    filtered,
    predicts,
    prompt,
    side_by_side,
    x_slot,
    y_slot,
)

SIZES = ((1, 1), (2, 3), (3, 2), (4, 7))
TASKS = ((1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 8, Fraction(1)), (4, 2, Fraction(2)))


# --- what attention computes ----------------------------------------------------------------------------------------


def attention_computes(version: tuple[str, Callable[[Sequence[Any]], Sequence[float]]]) -> bool:
    """Random weights of a named plan, token by token, in 1 to 6 layers: W = S_yx q(S_xx) with the stated p."""
    name, polynomial = version
    rng = np.random.default_rng(20)
    for layers in (1, 2, 3, 6):
        sources = value_sources(resolve(name, Shape(layers, 2)))
        for d, n in SIZES:
            x, y, query = prompt(rng, d, n, 0.5)
            size = float(np.linalg.norm(x @ x.T, 2))
            steps = [{m: float(rng.uniform(-1, 1)) / size for m in sorted(found)} for found in sources]
            stack = descent_layers([{m: beta * np.eye(d) for m, beta in row.items()} for row in steps])
            if not predicts(side_by_side(x, y, query), stack, filtered(polynomial(steps), x, y, query)):
                return False
    return True


def product_of_steps(steps: Sequence[Any]) -> list[float]:
    """prod (1 - beta s), one factor a layer."""
    whole = np.poly1d([1.0])
    for row in steps:
        whole = whole * np.poly1d([-sum(row.values()), 1.0])
    return list(whole.coeffs[::-1])


def sum_of_steps(steps: Sequence[Any]) -> list[float]:
    """1 - s sum beta."""
    return [1.0, -sum(sum(row.values()) for row in steps)]


def product_of_pairs(steps: Sequence[Any]) -> list[float]:
    """prod (1 - beta s), one factor for two layers."""
    return product_of_steps([{1: sum(sum(row.values()) for row in steps[i : i + 2])} for i in range(0, len(steps), 2)])


def roots_are_real(name: str) -> bool:
    """Of 200 random p of a named plan, six layers; exact, by Sturm's theorem."""
    rng = np.random.default_rng(21)
    sources = value_sources(resolve(name, Shape(6, 2)))
    return all(
        spectral.is_real_rooted(
            residual_polynomial([{m: Fraction(int(rng.integers(-9, 10)), 4) for m in found} for found in sources])
        )
        for _ in range(200)
    )


def complex_steps_reach(square: int) -> bool:
    """beta = a + b i and a - b i as matrices a I +- b J with J^2 = square I make p = |1 - beta s|^2; d = 2 and 4."""
    rng = np.random.default_rng(22)
    for d, n in ((2, 1), (2, 5), (4, 6)):
        x, y, query = prompt(rng, d, n, 0.5)
        a, b = rng.uniform(0.2, 1, 2) / np.linalg.norm(x @ x.T, 2)
        turn = np.kron(np.eye(d // 2), np.array([[0.0, square], [1.0, 0.0]]))
        stack = descent_layers([{1: a * np.eye(d) + b * turn}, {2: a * np.eye(d) - b * turn}])
        if not predicts(side_by_side(x, y, query), stack, filtered([1, -2 * a, a**2 + b**2], x, y, query)):
            return False
    return True


def two_matrices_have_a_real_root(d: int) -> bool:
    """det (I - s B_1)(I - s B_2) has a real root or a degree below 2d, for random rational B; exact."""
    rng, s = np.random.default_rng(23), sympy.Symbol("s")
    for _ in range(30):
        factors = ((sympy.eye(d) - s * sympy.Matrix(rng.integers(-5, 6, (d, d)))).det() for _ in range(2))
        whole = sympy.Poly(sympy.prod(factors), s)
        if whole.degree() == 2 * d and whole.count_roots() == 0:
            return False
    return True


def one_step_is_best(name: str) -> bool:
    """A named plan's best loss in 1, 2, 4 and 8 layers is that of a gradient step, the bound for linear maps; exact."""
    for layers in (1, 2, 4, 8):
        degree = reach(resolve(name, Shape(layers, 2))).degree
        for d, n, sigma in TASKS:
            bound = setting.zero_loss(d, n, sigma) - d**2 * setting.signal_share(d, n, sigma)
            if spectral.best_polynomial(d, n, sigma, degree).loss != bound:
                return False
    return True


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


# --- own values beside layer 1's ------------------------------------------------------------------------------------


def every_polynomial_is_made(source: int) -> bool:
    """`mixed_weights` for random p, with what they say of layer 1's values given to layer `source`'s; exact."""
    rng = np.random.default_rng(25)
    for layers in range(2, 7):
        for _ in range(20):
            wanted = [Fraction(1), *(Fraction(int(c), 3) for c in rng.integers(-9, 10, layers))]
            own = [Fraction(int(c)) for c in rng.integers(1, 6, layers - 1)]
            steps = [
                {m if m == n else source: w for m, w in row.items()}
                for n, row in enumerate(mixed_weights(wanted, own), 1)
            ]
            if list(residual_polynomial(steps)) != wanted:
                return False
    return True


def one_resformer_head_reaches(own_projection: bool) -> bool:
    """One head a layer, half its own value and half layer 1's, makes the best p above the threshold, token by token.

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
        if not predicts(side_by_side(x, y, query), layers, filtered(residual, x, y, query)):
            return False
    return True


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
