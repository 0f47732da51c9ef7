"""Checks behind the ledger's entries on Lemmas 1 and 2 of SkipV1Former's appendix A.1.

Each takes a version of the claim: see `ledger.Evidence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy

from theory.plans.heads import MHA, SKIPV1
from theory.prompts import regression
from theory.prompts.moments import Array, PromptMoments
from theory.toy.exact import exact_loss, prompt_map
from theory.toy.population import PopulationLoss, Weights
from theory.toy.tokens import draw, draw_weights, whole

SIZES = ((1, 2, 1), (1, 3, 2), (2, 3, 4), (2, 4, 1))  # rank, d, n


def eqn7_vanishes(first: str) -> bool:
    """d = 1: E[2 (V x - y) x (U - W_D)] over y of mean W_D x, with V = W_D or, as printed, V = U, for any U."""
    u, w, x = sympy.symbols("u w x")
    v = w if first == "W_D" else u
    return bool(sympy.expand(2 * (v * x - w * x) * x * (u - w)) == 0)


def decomposition_holds(centre: int) -> bool:
    """E|y - P x|^2 = E|y - W_D x|^2 + |(W_D - P) x|^2, d = 2, over four labels y of mean (W_D + centre) x."""
    rng = np.random.default_rng(40)
    for _ in range(5):
        best, p, x, first, second = whole(rng, 2, 2), whole(rng, 2, 2), whole(rng, 2, 1) + 9, *whole(rng, 2, 2, 1)
        labels = [best @ x + centre * x + s * first + t * second for s, t in product((1, -1), repeat=2)]
        left, right = (sum(((y - u @ x) ** 2).sum() for y in labels) for u in (p, best))
        if left != right + len(labels) * (((best - p) @ x) ** 2).sum():
            return False
    return True


def minimisers_left(number: Callable[[int], int]) -> bool:
    """The dimension of {U : U x = W_D x} for one query x != 0, exact."""
    rng = np.random.default_rng(41)
    for d in (1, 2, 3):
        x = whole(rng, d, 1) + 5
        conditions = sympy.Matrix(np.kron(np.eye(d, dtype=object), x.T))  # on U's rows, one after the other
        if len(conditions.nullspace()) != number(d):
            return False
    return True


def last_step_holds(minimiser: str) -> bool:
    """E|(W_D - P) x|^2 = E||U - P||^2 with a minimiser U of g, d = 2, over the four x = (+-1, +-1), of mean x x^T = I.

    U is W_D, or the minimiser of least norm, W_D x x^T / |x|^2.
    """
    rng = np.random.default_rng(42)
    for _ in range(5):
        best, p = whole(rng, 2, 2), whole(rng, 2, 2)
        left = right = Fraction(0)
        for signs in product((1, -1), repeat=2):
            x = np.array(signs, dtype=object)[:, None]
            u = best if minimiser == "W_D" else best @ x @ x.T * Fraction(1, 2)
            left += (((best - p) @ x) ** 2).sum()
            right += ((u - p) ** 2).sum()
        if left != right:
            return False
    return True


def over_spectrum(function: Callable[[float], float], n: int) -> tuple[float, float]:
    """E function(S) at d = 1, S chi-squared with n degrees, and the quadrature's error."""
    from scipy.integrate import quad
    from scipy.stats import chi2

    value, error = quad(lambda s: float(chi2.pdf(s, n)) * function(s), 0, np.inf)
    return float(value), float(error)


def constant_adds_up(label_noise: int) -> bool:
    """d = 1: C = E sigma^2/(S + sigma^2) + label_noise sigma^2 and the distance to W_D make the exact loss."""
    n, sigma = 5, 0.6
    c, error = over_spectrum(lambda s: sigma**2 / (s + sigma**2), n)
    for mu in (0.0, 0.1, 0.3):
        off, more = _distance_to_ridge(mu, n, sigma)
        exact = _loss_of_step(mu, n, sigma)
        if abs(c + label_noise * sigma**2 + off - exact) > 10 * (error + more) + 100 * np.finfo(float).eps * exact:
            return False
    return True


def _distance_to_ridge(mu: float, n: int, sigma: float) -> tuple[float, float]:
    """E (W_D - mu S_yx)^2 at d = 1, and its error."""
    return over_spectrum(lambda s: (s**2 + sigma**2 * s) * (1 / (s + sigma**2) - mu) ** 2, n)


def _loss_of_step(mu: float, n: int, sigma: float) -> float:
    """The exact loss of P = mu S_yx at d = 1: a skip head, whose S_xx the ordinary head cancels."""
    one = np.ones((1, 1))
    weights = Weights(one, one[1:], np.array([[[-mu / 2]], [[mu]]]), np.ones((2, 1, 1)))
    return PopulationLoss(PromptMoments(1, n, sigma), SKIPV1).value(weights)


def constant_vanishes_from(shortest: Callable[[int], float]) -> bool:
    """sigma = 0: C = d (d - n)_+, zero just if n whole-number x's determine W*, that is if X has rank d."""
    rng = np.random.default_rng(43)
    for d in (1, 2, 3):
        for n in range(1, d + 3):
            determined = sympy.Matrix(whole(rng, d, n) + 9 * np.eye(d, n, dtype=int)).rank() == d
            if not determined == (n >= shortest(d)) == (regression.minimum_norm(d, n, 0) == 0):
                return False
    return True


def one_gram_serves(model: str) -> bool:
    """Lemma 1's G_{i,D}, the same for both heads: true of MHA, and not of SkipV1Former.  By the map S -> P, exact."""
    rng = np.random.default_rng(44)
    w = draw_weights(rng, 1, 2)
    heads = MHA if model == "MHA" else SKIPV1
    together = prompt_map(w, heads[:1]) + prompt_map(Weights(w.a, w.b, w.w[1:], w.k[1:]), heads[:1])
    return bool((prompt_map(w, heads) == together).all())


def blocks(w: Weights, split: str) -> Iterator[tuple[Array, Array, Array, Array]]:
    """W_1, W_2, M_1, M_2 of each head, M = K A split by rows, or by columns as printed."""
    for w_h, k in zip(w.w, w.k, strict=True):
        m = k @ w.a
        parts = (m[: w.rank], m[w.rank :]) if split == "rows" else (m[:, : w.rank], m[:, w.rank :])
        yield w_h[:, : w.rank], w_h[:, w.rank :], *parts


def eqn9_adds_up(version: tuple[str, bool]) -> bool:
    """N_1 + N_2 + N_3 = P with M split in this way, with or without the first term of N_3; MHA, whole numbers."""
    split, both = version
    rng = np.random.default_rng(45)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        u, ax, by = p.labels(w.a, w.b), w.a @ p.x, w.b @ p.y
        s_xx = p.x @ p.x.T
        total: Any = 0
        for h, (w_1, w_2, m_1, m_2) in enumerate(blocks(w, split)):
            if m_1.shape != (a, d):
                return False
            n_1 = w.w[h] @ s_xx @ w.k[h] @ w.a + w_1 @ ax @ ax.T @ m_1
            n_3 = w_2 @ by @ ax.T @ m_1 + (w_1 @ ax @ by.T @ m_2 if both else 0)
            total = total + n_1 + w_2 @ by @ by.T @ m_2 + n_3
        if (total != sum(w_h @ (s_xx + u @ u.T) @ k @ w.a for w_h, k in zip(w.w, w.k, strict=True))).any():
            return False
    return True


def eqn10_labels(with_raw: bool) -> bool:
    """N_2' of Eqn. (10), the part of SkipV1Former's P quadratic in Y, with or without W^2 Y Y^T B^T M_2^2."""
    rng = np.random.default_rng(46)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        (_, w_2, _, m_2), (_, _, _, raw_m_2) = blocks(w, "rows")
        by = w.b @ p.y
        stated = w_2 @ by @ by.T @ m_2 + (w.w[1] @ p.y @ by.T @ raw_m_2 if with_raw else 0)
        seen = np.einsum("ijpq,pq->ij", prompt_map(w, SKIPV1)[:, :, d:, d:], p.y @ p.y.T)
        if (seen != stated).any():
            return False
    return True


def even_part_vanishes(which: str) -> bool:
    """Whether P has no even part at these weights, whatever the prompt: the map S -> P on S_xx and S_yy, exact."""
    rng, d = np.random.default_rng(47), 2
    eye, w = np.eye(d, dtype=object), draw_weights(rng, d, d)
    if which == "zero":
        w = Weights(w.a, w.b, 0 * w.w, w.k)
    elif which == "paper":
        w = Weights(eye, eye[d:], np.stack([-Fraction(1, 2) * eye, eye]), np.stack([eye, eye]))
    c = prompt_map(w, SKIPV1)
    return not (c[:, :, :d, :d].any() or c[:, :, d:, d:].any())


def c1_scales_with_power(power: int) -> bool:
    """d = a = 1: MHA is even, and C_1 = L_1 - C - E||W_D||^2 = L_1 - L_1(0) at readouts t goes with t^power."""
    loss = exact_loss(MHA, 1, 3, Fraction(1, 2))
    unit = np.full((2, 1, 1), Fraction(1), dtype=object)
    excess = [loss.value(Weights(unit[0], unit[0, 1:], t * unit, unit)) - loss.constant for t in (1, 2, 3)]
    return excess[0] > 0 and all(e == t**power * excess[0] for t, e in enumerate(excess, 1))
