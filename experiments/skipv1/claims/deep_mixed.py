"""Claims on deeper toys: what layer 1's values beside own ones reach, and what that is worth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.deep import FAMILY, SIZES, attention_computes, product_of_steps
from experiments.toys.unjudged import OF_VALUES
from theory.prompts import regression, spectral
from theory.skipv1.paper import PAPER
from theory.toy import deep
from theory.toy.deep import mixed_weights, residual_polynomial
from theory.toy.stack import AttentionHead, Value, polynomial_prediction, predicts, prompt, side_by_side, x_slot, y_slot

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
    unjudged={**OF_VALUES},
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
            steps = [
                {m if m == n else source: w for m, w in row.items()}
                for n, row in enumerate(mixed_weights(target, own), 1)
            ]
            if list(residual_polynomial(steps)) != target:
                return False
    return True


@MIXED_VALUES.check(
    "one ResFormer head a layer, halves fixed, makes the best polynomial of four layers, token by token",
    states=True,
    control=False,
    wrong="all layers have layer 1's V",
    kind="float64",
)
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
        if not predicts(side_by_side(x, y, query), layers, polynomial_prediction(residual, x, y, query)):
            return False
    return True


MIXED_VALUES.check(
    "attention, token by token, makes the polynomials of the recursion: SkipV1Former",
    states=("skipv1", residual_polynomial),
    control=("skipv1", product_of_steps),
    wrong="with layer 1's weights taken for own ones",
    kind="float64",
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
