"""Checks behind the ledger's entries on Lemmas 3 and 4 of SkipV1Former's appendix A.1.

Given X, the rows of Y - W0 X are independent with covariance X^T X + sigma^2 I, so that the mean of a product of two
linear functions of Y is a finite sum.  Of X the lemmas use only that E S and E S^2 are multiples of the identity,
S = X X^T, and that holds when X runs through all signed permutations of the rows of one whole-number matrix.  Over such
an X everything in Lemmas 3 and 4 is exact arithmetic, with the t_1, t_2 and lambda that belong to it.

Two short proofs that the entries use, both at W0 = 0.
  t_2 = n.  E[X y_i y_i^T X^T | X] = X (X^T X + sigma^2 I) X^T = S (S + sigma^2), y_i a row of Y as a column, so that
  E[X y_i (W_D)_i | X] = S (S + sigma^2) (S + sigma^2)^-1 = S, of mean n I.  Hence lambda = t_2/t_1 = 1/(n+d+1+sigma^2).
  C_3 > 0.  W_D - lambda S_yx is uncorrelated with every entry of S_yx (that is Lemma 3), so C_3 = E ||W_D||^2 -
  E ||lambda S_yx||^2 = E ||W_D - lambda S_yx||^2 = d E tr S/(S + sigma^2) - rho d^2, zero only if S/(S + sigma^2) =
  lambda S almost surely.                                                                                          QED
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import sympy

from experiments.claims.skipv1_lemma12_checks import SIZES, blocks, over_spectrum
from theory.plans.heads import MHA, SKIPV1
from theory.prompts import regression, setting
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array
from theory.skipv1 import gap as skipv1
from theory.toy.exact import prompt_map
from theory.toy.tokens import draw, draw_weights, whole

SIGMA2 = Fraction(1, 4)


def _inverse(matrix: Array) -> Array:
    inverse = sympy.Matrix(matrix.shape[0], matrix.shape[0], [sympy.Rational(v) for v in matrix.ravel()]).inv()
    return np.array([Fraction(int(v.p), int(v.q)) for v in inverse], dtype=object).reshape(matrix.shape)


def row_moment_given_x(power: int) -> bool:
    """E[X y_i (W_D)_i | X] = S for ridge of strength sigma^power, any n; whole-number X, sigma = 1/2."""
    rng, sigma = np.random.default_rng(48), Fraction(1, 2)
    for d, n in ((1, 1), (2, 1), (2, 3), (3, 2)):
        x = whole(rng, d, n) + np.eye(d, n, dtype=int)
        s, eye = x @ x.T, np.eye(d, dtype=object)
        row_covariance = x.T @ x + sigma**2 * np.eye(n, dtype=object)
        if (x @ row_covariance @ x.T @ _inverse(s + sigma**power * eye) != s).any():
            return False
    return True


def target_moment(t2: Callable[[Any, Any], Any]) -> bool:
    """E[(S_yx)_ij W*_ij] = t_2, and zero for other pairs of entries, by pairing, d = 1, 2, symbolic in n and sigma."""
    for d in (1, 2):
        engine = PromptEngine(d)
        at_zero = [(g, 0) for row in engine.w0 for g in row]
        for i, j, k, m in product(range(d), repeat=4):
            found = engine.expect(("yx", i, j), ("w", k, m)).evaluate(at_zero)
            if found != (t2(found.ring.gens[0], d) if (i, j) == (k, m) else 0):
                return False
    return True


def is_special_case(version: tuple[str, str]) -> bool:
    """N_3 and N_3' as h(W~, M~), W~^h = (W_1 A, W_2 B) and M~^h = (A^T M_1 ; B^T M_2) in an ordinary head.

    In the skip head W~ = (0, W) with M~ = (A^T M_1 ; 0).  `version` names the model and the order of M~'s blocks.
    """
    model, order = version
    rng, heads = np.random.default_rng(49), MHA if version[0] == "MHA" else SKIPV1
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        s_yx, total = p.y @ p.x.T, 0
        for h, (w_1, w_2, m_1, m_2) in enumerate(blocks(w, "rows")):
            skip = model == "SkipV1Former" and h == 1
            left = (0 * w.w[h], w.w[h]) if skip else (w_1 @ w.a, w_2 @ w.b)
            right = (w.a.T @ m_1, 0 * w.w[h] if skip else w.b.T @ m_2)
            top, bottom = right if order == "as stated" else right[::-1]
            total = total + left[0] @ s_yx.T @ bottom + left[1] @ s_yx @ top
        c = prompt_map(w, heads)
        odd = np.einsum("ijpq,pq->ij", c[:, :, d:, :d], s_yx) + np.einsum("ijpq,pq->ij", c[:, :, :d, d:], s_yx.T)
        if (odd != total).any():
            return False
    return True


class _Orbit:
    """Exact means over X, the signed permutations of the rows of one matrix, and over Y given X; d = 2."""

    def __init__(self, w0: int, x: Array | None = None) -> None:
        base = np.array([[1, 2, 0], [0, 1, -3]], dtype=object) if x is None else x
        d, n = base.shape
        signs = [np.diag(s).astype(object) for s in product((1, -1), repeat=d)]
        self.xs = [s @ base[list(order)] for s in signs for order in permutations(range(d))]
        units = np.eye(d * n, dtype=object).reshape(d, n, d, n)
        covariance = base.T @ base + SIGMA2 * np.eye(n, dtype=object)  # the same for every X
        self.pairs = [
            (units[r, t], units[r, u], covariance[t, u]) for r in range(d) for t in range(n) for u in range(n)
        ]
        self.w0 = w0
        self.ridges = [x.T @ _inverse(x @ x.T + SIGMA2 * np.eye(d, dtype=object)) for x in self.xs]

    def mean(self, bilinear: Callable[[Array, Array, Array, Array], Any]) -> Any:
        """E of bilinear(Y, Y, X, R), which is linear in each of the first two; W_D = Y R."""
        total: Any = 0
        for x, ridge in zip(self.xs, self.ridges, strict=True):
            centre = self.w0 * x
            total = total + bilinear(centre, centre, x, ridge)
            for first, second, weight in self.pairs:
                if weight:
                    total = total + weight * bilinear(first, second, x, ridge)
        return total / Fraction(len(self.xs))

    def step(self, i: int) -> Fraction:
        """lambda_i as Lemmas 3 and 4 define it."""
        hit = self.mean(lambda y, z, x, r: (y @ r)[i] @ (x @ z.T)[:, i])
        return hit / self.mean(lambda y, z, x, r: (y @ x.T)[i] @ (x @ z.T)[:, i])


def equations_12_to_14(w0: int) -> bool:
    """Eqns. (13) and (14), which make up (12), and the equation for the gradient in M~, around W0 = w0 I; exact."""
    orbit, rng = _Orbit(w0), np.random.default_rng(50)
    scale = np.diag([orbit.step(0), orbit.step(1)])
    forms: tuple[Callable[[Array, Array, Array], Array], ...] = (
        lambda target, m, s: target @ m.T @ s.T,
        lambda target, m, s: target @ m.T @ s,
        lambda target, m, s: s @ m.T @ target,
        lambda target, m, s: s.T @ m.T @ target,
    )
    return all(_equation_holds(orbit, scale, form, whole(rng, 2, 2)) for form in forms)


def _equation_holds(orbit: _Orbit, scale: Array, form: Callable[[Array, Array, Array], Array], m: Array) -> bool:
    """E form(W_D, m, S_yx) = E form(Lambda S_yx, m, S_yx)."""
    left = orbit.mean(lambda y, z, x, r: form(y @ r, m, z @ x.T))
    right = orbit.mean(lambda y, z, x, r: form(scale @ y @ x.T, m, z @ x.T))
    return not (left != right).any()


def cross_moments_are_proportional(w0: int) -> bool:
    """E[(S_yx)_kl W*_ij] over E[(S_yx)_kl (S_yx)_ij] for every pair of entries, by pairing, around W0 = w0 I.

    W_D = E[W* | D], so W* may stand for it.  All of Eqns. (12) to (14) are linear in these.
    """
    d = 2
    engine = PromptEngine(d)
    at = [(g, w0 * (i == j)) for i, row in enumerate(engine.w0) for j, g in enumerate(row)]
    for i, j, k, m in product(range(d), repeat=4):
        hit = engine.expect(("yx", k, m), ("w", i, j)).evaluate(at)
        power = engine.expect(("yx", k, m), ("yx", i, j)).evaluate(at)
        n, sigma = hit.ring.gens[:2]
        if hit * (n + d + 1 + sigma**2) != power:
            return False
    return True


def lemma4_splits(factor: int) -> bool:
    """L~ - E||factor lambda S_yx - h||^2 is C_3 = E||W_D - lambda S_yx||^2 > 0 for random W~, M~; exact."""
    orbit, rng = _Orbit(0), np.random.default_rng(51)
    step = orbit.step(0)

    def power(of_target: int, of_signal: Fraction | int, w: Array, m: Array) -> Fraction:
        """E||of_target W_D - of_signal S_yx - h(w, m)||^2."""

        def map_(y: Array, x: Array, r: Array) -> Array:
            h = sum(w[k, 0] @ x @ y.T @ m[k, 1] + w[k, 1] @ y @ x.T @ m[k, 0] for k in range(2))
            return of_target * y @ r - of_signal * y @ x.T - h

        return orbit.mean(lambda y, z, x, r: (map_(y, x, r) * map_(z, x, r)).sum())

    nothing = np.zeros((2, 2, 2, 2), dtype=object)
    c_3 = power(1, step, nothing, nothing)
    weights = [(whole(rng, 2, 2, 2, 2), whole(rng, 2, 2, 2, 2)) for _ in range(3)]
    return c_3 > 0 and all(power(1, 0, w, m) - power(0, -factor * step, w, m) == c_3 for w, m in weights)


def c3_noiseless(minimum: int) -> bool:
    """sigma = 0: C = d (d - n)_+ and C_3 = d min(d, n) - rho d^2 > 0, whose sum is SkipV1Former's minimum; exact."""
    for d in range(1, 6):
        for n in range(1, 8):
            sigma = Fraction(0)
            c_3 = d * min(d, n) - minimum * setting.signal_share(d, n, sigma) * d**2
            if c_3 <= 0 or regression.minimum_norm(d, n, sigma) + c_3 != skipv1.loss_gap(d, n, sigma, d).skipv1:
                return False
    return True


def c3_with_noise(one: int) -> bool:
    """d = 1: E W_D^2 - E (lambda S_yx)^2 = E (W_D - lambda S_yx)^2 with lambda = 1/(n + 1 + one + sigma^2)."""
    n, sigma = 4, 0.7
    step = 1 / (n + 1 + one + sigma**2)

    def power(of_target: int, of_signal: float) -> tuple[float, float]:
        """E (of_target W_D - of_signal S_yx)^2 by quadrature over S, with its error."""
        return over_spectrum(
            lambda s: (s**2 + sigma**2 * s) * (of_target / (s + sigma**2) - of_signal) ** 2,
            n,
        )

    (target, e_1), (signal, e_2), (off, e_3) = power(1, 0.0), power(0, step), power(1, step)
    return abs(target - signal - off) <= 10 * (e_1 + e_2 + e_3)


def lemma3_is_isotropic(w0: int) -> bool:
    """Both matrices of Lemma 3 are multiples of the d x d identity, the second of it by E tr S/d, as t_2 = n says;
    and lambda_i makes its third display zero."""
    orbit = _Orbit(w0)
    return all(_row_is_isotropic(orbit, i) for i in range(2))


def _row_is_isotropic(orbit: _Orbit, i: int) -> bool:
    eye = np.eye(2, dtype=object)
    first = orbit.mean(lambda y, z, x, r: np.outer(x @ y[i], z[i] @ x.T))
    second = orbit.mean(lambda y, z, x, r: np.outer(x @ y[i], z[i] @ r))
    mean_s = Fraction(np.trace(orbit.xs[0] @ orbit.xs[0].T), 2)
    round_ = not ((first != first[0, 0] * eye).any() or (second != mean_s * eye).any())
    return round_ and not (orbit.step(i) * first != second).any()
