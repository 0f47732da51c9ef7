"""Claims on the gradient step of section 4: Eqn. (1), and the step that SkipV1Former makes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import W0_ZERO
from theory.plans.heads import SKIPV1
from theory.prompts import regression, setting
from theory.prompts.moments import Array
from theory.skipv1.gap_weights import skipv1_weights
from theory.skipv1.paper import PAPER
from theory.toy.exact import RATIONAL_TASKS, exact_loss
from theory.toy.tokens import Prompt, draw, output, whole

STEP = Fraction(1, 7)


def least_squares(w: Array, x: Array, y: Array) -> Any:
    """L(W) of Eqn. (1)."""
    return ((w @ x - y) ** 2).sum() / Fraction(2 * x.shape[1])


def gradient(w: Array, x: Array, y: Array) -> Array:
    """The gradient of `least_squares` at W, by differentiating it: (d, d).

    What a step does to the labels.  It leaves y_j - (W - eta grad L) x_j = (y_j + eta grad L x_j) - W x_j, which are
    the residuals of W itself on the labels y_j + eta grad L x_j.

    What a layer does.  grad L = (1/N) sum_i (W x_i - y_i) x_i^T, so that linear attention with values
    (0 ; W x_i - y_i) eta / N and the scores x_i^T x_j adds eta grad L x_j to y_j, exactly.

    What the query reads.  From W = 0 the step's prediction is -eta grad L(0) x: an empty label with the printed sign.
    """
    symbols = np.array([sympy.Symbol(f"w_{i}") for i in range(w.size)], dtype=object)
    loss = least_squares(symbols.reshape(w.shape), x, y)
    at = dict(zip(symbols, (int(v) for v in w.ravel()), strict=True))
    values = [sympy.diff(loss, s).subs(at) for s in symbols]
    return np.array([Fraction(int(v.p), int(v.q)) for v in values], dtype=object).reshape(w.shape)


EQN1_SIGN = Claim(
    "skipv1.eqn1-sign",
    PAPER.name,
    place="section 4, Eqn. (1)",
    statement="One step of gradient descent on W takes y_j to y_j - eta grad L(W) x_j, and a linear attention "
    "layer approximates that.",
    assumes="tokens (x ; y) of width 2d, W kept",
    verdict="corrected",
    correction="A step leaves the residuals y_j - (W - eta grad L) x_j, as if y_j had become y_j + eta grad L "
    "x_j: the printed sign climbs.  At d = N = 1, W = 0, x = y = 1, eta = 1/2, grad L = -1: the residual is 1/2 "
    "after a step, and the printed label 3/2.  The minus is right for the query alone: with W = 0 and an empty "
    "label it makes the prediction.  The layer does it exactly, with no approximation.",
    proof=gradient,
)


def _regressions() -> list[tuple[Array, Prompt]]:
    rng = np.random.default_rng(20)
    return [(whole(rng, d, d), draw(rng, d, n)) for d, n in ((1, 1), (1, 3), (2, 2), (3, 4))]


@EQN1_SIGN.check(
    "the loss after a step is the old W's loss on the new labels; exact, the gradient by differentiation",
    states=1,
    control=-1,
    wrong="the printed sign",
    kind="exact",
)
def step_moves_labels(sign: int) -> bool:
    """The loss of W after a step is the loss of W on the labels y_j + sign eta grad L x_j."""
    return all(
        least_squares(w - STEP * g, p.x, p.y) == least_squares(w, p.x, p.y + sign * STEP * g @ p.x)
        for w, p in _regressions()
        for g in [gradient(w, p.x, p.y)]
    )


@EQN1_SIGN.check(
    "a linear attention layer with values (0 ; W x - y) makes these labels; exact, d = 1..3",
    states=1,
    control=-1,
    wrong="the printed sign",
    kind="exact",
)
def layer_moves_labels(sign: int) -> bool:
    """A linear attention layer on tokens (x ; y), values (0 ; W x - y) eta/n, adds sign eta grad L x_j to y_j."""
    for w, p in _regressions():
        d, n = p.x.shape
        eye, zero = np.eye(d, dtype=object), np.zeros((d, d), dtype=object)
        tokens = np.concatenate([p.x, p.y])
        value, key = np.block([[zero, zero], [w, -eye]]), np.block([[eye, zero], [zero, zero]])
        after = tokens + STEP / n * (value @ tokens) @ (tokens.T @ key @ tokens)
        expected = p.y + sign * STEP * gradient(w, p.x, p.y) @ p.x
        if (after != np.concatenate([p.x, expected])).any():
            return False
    return True


@EQN1_SIGN.check(
    "at the query, from W = 0 and an empty label, the printed sign makes the prediction; exact",
    states=-1,
    control=1,
    wrong="the sign of the context's labels",
    kind="exact",
)
def query_reads_prediction(sign: int) -> bool:
    """From W = 0 and an empty label, sign eta grad L(0) x_{n+1} is (eta/n) sum_i y_i x_i^T x_{n+1}."""
    return all(
        (sign * STEP * gradient(0 * w, p.x, p.y) @ p.query == STEP / p.x.shape[1] * p.y @ p.x.T @ p.query).all()
        for w, p in _regressions()
    )


UNCOMPRESSED_STEP = Claim(
    "skipv1.uncompressed-step",
    PAPER.name,
    place="section 4, after Theorem 1; appendix A.1, after Assumption 1",
    statement="SkipV1Former realises one step of gradient descent on the uncompressed pairs.",
    assumes=W0_ZERO,
    verdict="verified",
    correction="True at rank a = d, with eta = n lambda in Eqn. (1), and no better step exists.  At that rank B "
    "is empty: the token that should hold a pair holds x_t alone.  At a < d the skip head reads the raw y_t, but "
    "x_t through A still: a d entries of W* out of d^2 (skipv1.skipv1-minimum).",
    proof=skipv1_weights,
    uses=("skipv1.eqn1-sign", "skipv1.skipv1-minimum"),
)


@UNCOMPRESSED_STEP.check(
    "the minimum is the loss of one step of size lambda, by the moments of its spectrum; exact",
    states=1,
    control=2,
    wrong="twice the step",
    kind="exact",
)
def best_loss_is_one_step(factor: int) -> bool:
    """SkipV1Former's optimum is the loss of one step of factor lambda on the uncompressed pairs."""
    return all(
        exact_loss(SKIPV1, d, n, sigma).value(skipv1_weights(d, n, sigma, d))
        == regression.after_steps(d, n, sigma, 1, factor * setting.signal_share(d, n, sigma) / n)
        for d, n, sigma in RATIONAL_TASKS
    )


@UNCOMPRESSED_STEP.check(
    "from tokens: the prediction is that of eta grad L(0), eta = n lambda; exact, whole-number prompts",
    states=lambda n: n,
    control=lambda n: 1,
    wrong="eta = lambda, without the 1/N of Eqn. (1)",
    kind="exact",
)
def best_prediction_is_one_step(scale: Callable[[int], int]) -> bool:
    """From tokens: it predicts (0 - eta grad L(0)) x_{n+1} with eta = scale(n) lambda, on whole-number prompts."""
    rng = np.random.default_rng(33)
    for d, n, sigma in RATIONAL_TASKS:
        p, step = draw(rng, d, n), setting.signal_share(d, n, sigma) / n
        predicted = output(p, skipv1_weights(d, n, sigma, d), SKIPV1)
        if (predicted != -scale(n) * step * gradient(np.zeros((d, d), dtype=object), p.x, p.y) @ p.query).any():
            return False
    return True
