"""Checks behind the ledger's entries on SkipV1Former's appendix A.2.  Each takes a version of the claim.

Residual (`skipv1.a2-residual`).  A residual connection adds to P a matrix R that does not depend on the prompt: the
readout of the query's own token.  At W0 = 0 the sign flip of (W*, noise) makes R part of P's even part, which only
hurts (`theory.skipv1.gap`, (1)), so that R = 0 is best.  Around W0 it is not: at d = n = 1, sigma = 0, P = x^2 f(W*) with f
a quadratic that the weights choose, and P = R + x^2 f with a residual.  As E x^4 = 3 and E x^2 = 1, the best f is
(W* - R)/3 and leaves 2/3 E (W* - R)^2: 2/3 (1 + W0^2) without, 2/3 with R = W0.

Compressed descent (`skipv1.a2-deeper`).  For A = (I_a 0), B = (0 I), the pairs (A x, B y) are a regression of d - a
labels on a inputs.  What the other d - a inputs add to a label, and its noise, have variance sigma^2 + d - a, are
uncorrelated from pair to pair and independent of A x and the a coefficients; the losses of `theory.prompts.regression` need
no more.  The a labels that B drops cost d + sigma^2 each.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from theory.plans.heads import MHA, SKIPV1
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array
from theory.toy.exact import rational
from theory.toy.tokens import context, draw, draw_weights, full_key, output, whole

SIZES = ((1, 2, 2), (1, 3, 4), (2, 3, 3))  # rank, d, n


def order_is_ignored(permuted: str) -> bool:
    """Permuting the pairs, or the labels alone, leaves both models' predictions; from tokens, exact."""
    rng = np.random.default_rng(80)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        order = np.roll(np.arange(n), 1)
        moved = p.with_(y=p.y[:, order], x=p.x[:, order] if permuted == "pairs" else p.x)
        if any((output(p, w, heads) != output(moved, w, heads)).any() for heads in (MHA, SKIPV1)):
            return False
    return True


def mask_predicts_the_same(reach: Callable[[int], int]) -> bool:
    """A causal mask, under which a token reads the `reach(n)` before it, gives the query what P gives it; exact."""
    rng = np.random.default_rng(81)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        first, size = p.copied(w.a, w.b), 2 * n + 1
        distance = np.arange(size)[None] - np.arange(size)[:, None]
        seen = ((distance > 0) & (distance <= reach(n))).astype(object)
        scores = [(first.T @ full_key(k) @ first) * seen for k in w.k]
        out = w.w[0] @ first @ scores[0] + w.w[1] @ p.tokens @ scores[1]
        if (out[:, -1:] != output(p, w, SKIPV1)).any():
            return False
    return True


def scores_scale_out(power: int) -> bool:
    """Scores twice as large and readouts times 2^power predict the same: linear attention has no temperature; exact."""
    rng = np.random.default_rng(82)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        moved = type(w)(w.a, w.b, w.w * Fraction(2) ** power, 2 * w.k)
        if (output(p, w, SKIPV1) != output(p, moved, SKIPV1)).any():
            return False
    return True


def _look_back(e: Array, matrix: Array) -> Array:
    """E + C times each token's predecessor: a residual and a head that looks one token back."""
    return e + np.concatenate([0 * e[:, :1], (matrix @ e)[:, :-1]], axis=1)


def residual_layer_is_one_matrix(kind: str) -> bool:
    """Does the matrix that the first d tokens of E + TF_1(E) demand explain the others?  Whole numbers, exact."""
    rng, d = np.random.default_rng(83), 2
    for _ in range(3):
        p, w_k, w_v = draw(rng, d, 3), whole(rng, d, d), whole(rng, d, d)
        e = p.tokens
        e[:, :d] = e[:, :d] + 9 * np.eye(d, dtype=int)
        out = e + w_v @ e @ context(e) @ (e.T @ w_k @ e) if kind == "no positions" else _look_back(e, w_v)
        matrix = sympy.Matrix(out[:, :d]) * sympy.Matrix(e[:, :d]).inv()
        if matrix * sympy.Matrix(e) != sympy.Matrix(out):
            return False
    return True


def look_back_makes(inputs: str) -> bool:
    """It turns y_t's token into y_t + C x_t, and x_t's into x_t + C y_{t-1} or, as Assumption 1 has it, x_t; exact."""
    rng = np.random.default_rng(84)
    for _, d, n in SIZES:
        p, c = draw(rng, d, n), whole(rng, d, d)
        out = _look_back(p.tokens, c)
        before = np.concatenate([0 * p.y[:, :1], p.y[:, :-1]], axis=1)
        x = p.x + c @ before if inputs == "mixed" else p.x
        if (out[:, 1::2] != p.y + c @ p.x).any() or (out[:, 0:-1:2] != x).any():
            return False
    return True


def _least_loss(w0: int, n: int, sigma: Fraction, residual: bool) -> Fraction:
    """d = 1, one layer, heads enough: the least E (P - W*)^2 + sigma^2, P a combination of S_xx, S_yx, S_yy (and 1)."""
    engine = PromptEngine(1)
    values = [(engine.n, n), (engine.sigma, sigma), (engine.w0[0][0], w0)]
    features = [(kind,) for kind in ("xx", "yx", "yy")] + [()] * residual

    def mean(*kinds: str) -> Any:
        value = rational(engine.expect(*((kind, 0, 0) for kind in kinds)), values)
        return sympy.Rational(value.numerator, value.denominator)

    gram = sympy.Matrix(len(features), len(features), lambda i, j: mean(*features[i], *features[j]))
    hit = sympy.Matrix([mean("w", *f) for f in features])
    loss = mean("w", "w") - (hit.T * gram.inv() * hit)[0]
    return Fraction(int(loss.p), int(loss.q)) + sigma**2


def residual_losses(losses: tuple[Fraction, Fraction]) -> bool:
    """d = n = 1, sigma = 0, W0 = 2, by pairing: without a residual connection, and with one."""
    found = tuple(_least_loss(2, 1, Fraction(0), residual) for residual in (False, True))
    return found == losses


def residual_is_worth_nothing(w0: int) -> bool:
    return all(
        _least_loss(w0, n, sigma, False) == _least_loss(w0, n, sigma, True)
        for n, sigma in ((1, Fraction(0)), (1, Fraction(1, 2)), (4, Fraction(0)), (3, Fraction(2)))
    )


def second_step_correlates(shift: int) -> bool:
    """d = 1: E[S_yx S_xx S_yx] = (n + shift + sigma^2) E[S_yx S_xx W_D], by pairing; W_D = E[W* | D].

    Lemma 4 for what a second step reads, S_yx S_xx, would need 1/lambda = n + 2 + sigma^2 here.
    """
    engine = PromptEngine(1)
    at = [(engine.w0[0][0], 0)]
    yx, xx = ("yx", 0, 0), ("xx", 0, 0)
    hit = engine.expect(yx, xx, ("w", 0, 0)).evaluate(at)
    n, sigma = hit.ring.gens[:2]
    return bool(hit * (n + shift + sigma**2) == engine.expect(yx, xx, yx).evaluate(at))
