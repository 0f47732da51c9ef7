"""Checks behind the ledger's entries on the paper's setting.  Each takes a version of the claim."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from theory.plans.heads import MHA, SKIPV1
from theory.prompts import regression, setting
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array
from theory.skipv1.gap_weights import skipv1_optimal
from theory.toy.exact import RATIONAL_TASKS, exact_loss, random_weights, rational
from theory.toy.population import Weights
from theory.toy.tokens import Prompt, draw, draw_weights, output, whole


def least_squares(w: Array, x: Array, y: Array) -> Any:
    """L(W) of Eqn. (1)."""
    return ((w @ x - y) ** 2).sum() / Fraction(2 * x.shape[1])


def gradient(w: Array, x: Array, y: Array) -> Array:
    """The gradient of `least_squares` at W, by differentiating it."""
    symbols = np.array([sympy.Symbol(f"w_{i}") for i in range(w.size)], dtype=object)
    loss = least_squares(symbols.reshape(w.shape), x, y)
    at = dict(zip(symbols, (int(v) for v in w.ravel()), strict=True))
    values = [sympy.diff(loss, s).subs(at) for s in symbols]
    return np.array([Fraction(int(v.p), int(v.q)) for v in values], dtype=object).reshape(w.shape)


def _regressions() -> list[tuple[Array, Prompt]]:
    rng = np.random.default_rng(20)
    return [(whole(rng, d, d), draw(rng, d, n)) for d, n in ((1, 1), (1, 3), (2, 2), (3, 4))]


STEP = Fraction(1, 7)


def step_moves_labels(sign: int) -> bool:
    """The loss of W after a step is the loss of W on the labels y_j + sign eta grad L x_j."""
    return all(
        least_squares(w - STEP * g, p.x, p.y) == least_squares(w, p.x, p.y + sign * STEP * g @ p.x)
        for w, p in _regressions()
        for g in [gradient(w, p.x, p.y)]
    )


def layer_moves_labels(sign: int) -> bool:
    """A linear attention layer on tokens (x ; y), values (0 ; W x - y) eta/n, adds sign eta grad L x_j to y_j."""
    for w, p in _regressions():
        d, n = p.x.shape
        eye, zero = np.eye(d, dtype=object), np.zeros((d, d), dtype=object)
        tokens = np.concatenate([p.x, p.y])
        value, key = np.block([[zero, zero], [w, -eye]]), np.block([[eye, zero], [zero, zero]])
        moved = tokens + STEP / n * (value @ tokens) @ (tokens.T @ key @ tokens)
        stated = p.y + sign * STEP * gradient(w, p.x, p.y) @ p.x
        if (moved != np.concatenate([p.x, stated])).any():
            return False
    return True


def query_reads_prediction(sign: int) -> bool:
    """From W = 0 and an empty label, sign eta grad L(0) x_{n+1} is (eta/n) sum_i y_i x_i^T x_{n+1}."""
    return all(
        (sign * STEP * gradient(0 * w, p.x, p.y) @ p.query == STEP / p.x.shape[1] * p.y @ p.x.T @ p.query).all()
        for w, p in _regressions()
    )


def hypothesis_excludes_zero(strict: bool) -> bool:
    """sigma_d(W0) > 2 sqrt(d) sigma, W0 = w I, d = k^2: excludes w = 0 and w = 2 k sigma, and nothing above."""

    def holds(w: Fraction, d: int, sigma: Fraction) -> bool:
        return w**2 >= 4 * d * sigma**2 and not (strict and w**2 == 4 * d * sigma**2)

    sizes = [(k, Fraction(s, 3)) for k in (1, 2, 3) for s in range(4)]
    return all(
        not holds(Fraction(0), k**2, s) and not holds(2 * k * s, k**2, s) and holds(2 * k * s + Fraction(1, 9), k**2, s)
        for k, s in sizes
    )


def gap_at_one_dimension(share: int) -> bool:
    """d = 1, W0 = 0: no MHA weights beat predicting zero, and SkipV1Former does so by share rho."""
    rng = np.random.default_rng(21)
    for n, sigma in ((1, Fraction(0)), (3, Fraction(1, 2)), (2, Fraction(2))):
        mha, skip = exact_loss(MHA, 1, n, sigma), exact_loss(SKIPV1, 1, n, sigma)
        if any(mha.value(random_weights(rng, 2, a, 1)) < mha.constant for a in (0, 1) for _ in range(10)):
            return False
        best = skip.value(skipv1_optimal(1, n, sigma, 1))
        if mha.constant - best != share * setting.signal_share(1, n, sigma):
            return False
    return True


def two_pairs_reveal_w(noises: int) -> bool:
    """d = 1: (y_1 - y_2)/(x_1 - x_2) = W* on whole numbers, with one noise for the sequence or two for its tokens."""
    rng = np.random.default_rng(22)
    for _ in range(20):
        w, x, shift, *noise = (Fraction(int(v)) for v in rng.integers(1, 9, 5))
        first, second = noise if noises == 2 else (noise[0], noise[0])
        if (w * x + first - w * (x + shift) - second) / -shift != w:
            return False
    return True


def ridge_is_posterior_mean(noises: int) -> bool:
    """d = 1, n = 2: the conditional mean of W* given both pairs, from the covariance of (W*, y_1, y_2)."""
    x1, x2, y1, y2, s = sympy.symbols("x1 x2 y1 y2 sigma", positive=True)
    x, y = sympy.Matrix([x1, x2]), sympy.Matrix([y1, y2])
    noise = s**2 * (sympy.eye(2) if noises == 2 else sympy.ones(2, 2))
    mean = (x.T * (x * x.T + noise).inv() * y)[0]
    return bool(sympy.simplify(mean - (x.T * y)[0] / ((x.T * x)[0] + s**2)) == 0)


def loss_depends_on(names: frozenset[str]) -> bool:
    """What the loss of one prompt changes with: its context, the query x_{n+1}, the label y_{n+1}."""
    rng = np.random.default_rng(23)
    d, n = 2, 3
    found: set[str] = set()
    for _ in range(5):
        w, p, label = draw_weights(rng, 1, d), draw(rng, d, n), whole(rng, d, 1)
        before = _sample_loss(p, w, label)
        changed = {
            "context": _sample_loss(p.with_(y=p.y + 1), w, label),
            "x_{n+1}": _sample_loss(p.with_(query=p.query + 1), w, label),
            "y_{n+1}": _sample_loss(p, w, label + 1),
        }
        found |= {k for k, v in changed.items() if v != before}
    return found == names


def _sample_loss(p: Prompt, w: Weights, label: Array) -> int:
    return ((output(p, w, MHA) - label) ** 2).sum()


def step_from_own_label(step: Callable[[Any], Any]) -> bool:
    """d = n = 1, P = mu S_yx: the mu that is best at predicting y_1 from a prompt that holds it, by pairing.

    Its loss is E (y - mu y x^2)^2, least at E[y^2 x^2] / E[y^2 x^4].
    """
    engine, xx, yy = PromptEngine(1), ("xx", 0, 0), ("yy", 0, 0)
    for sigma in (Fraction(0), Fraction(1, 2), Fraction(2)):
        values = [(engine.n, 1), (engine.sigma, sigma), (engine.w0[0][0], 0)]
        top, bottom = rational(engine.expect(yy, xx), values), rational(engine.expect(yy, xx, xx), values)
        if top != step(sigma**2) * bottom:
            return False
    return True


def best_loss_is_one_step(factor: int) -> bool:
    """SkipV1Former's optimum is the loss of one step of factor lambda on the uncompressed pairs."""
    return all(
        exact_loss(SKIPV1, d, n, sigma).value(skipv1_optimal(d, n, sigma, d))
        == regression.after_steps(d, n, sigma, 1, factor * setting.signal_share(d, n, sigma) / n)
        for d, n, sigma in RATIONAL_TASKS
    )


def best_prediction_is_one_step(scale: Callable[[int], int]) -> bool:
    """From tokens: it predicts (0 - eta grad L(0)) x_{n+1} with eta = scale(n) lambda, on whole-number prompts."""
    rng = np.random.default_rng(33)
    for d, n, sigma in RATIONAL_TASKS:
        p, step = draw(rng, d, n), setting.signal_share(d, n, sigma) / n
        predicted = output(p, skipv1_optimal(d, n, sigma, d), SKIPV1)
        if (predicted != -scale(n) * step * gradient(np.zeros((d, d), dtype=object), p.x, p.y) @ p.query).any():
            return False
    return True
