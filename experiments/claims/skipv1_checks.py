"""Checks behind the ledger's entries on the theorem.  Each takes a version of the claim: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from theory import skipv1
from theory.minimise import minimise
from theory.moments import PromptMoments
from theory.plan import MHA, ORDINARY, SKIP, SKIPV1, Heads
from theory.population import PopulationLoss, Weights
from theory.skipv1_weights import (
    mha_approaching,
    mha_excess,
    quaternion_heads,
    skipv1_optimal,
    unattained_witness,
)

EXACT_SLACK = 0.005  # of the explained signal, as in the experiments
TASK = (4, 10, 0.4)
Rank = Callable[[Any, Any], Any]


def exact_loss(heads: Heads, d: int, n: int, sigma: Fraction, w0: Any = None) -> PopulationLoss:
    """The population loss in rational arithmetic."""
    zero = np.full((d, d), Fraction(0), dtype=object)
    return PopulationLoss(PromptMoments(d, n, sigma, zero if w0 is None else w0), heads)


def _rational_tasks() -> list[tuple[int, int, Fraction]]:
    return [(1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 4, Fraction(2, 3)), (4, 2, Fraction(1))]


def _closed(d: int, n: int, sigma: Fraction, rank: Fraction | int) -> Fraction:
    return d**2 + d * sigma**2 - Fraction(n) / (n + d + 1 + sigma**2) * rank


def weights_approach_mha_infimum(rank_of: Rank) -> bool:
    beta = Fraction(7, 2)
    return all(
        exact_loss(MHA, d, n, sigma).value(mha_approaching(d, n, sigma, a, beta))
        == _closed(d, n, sigma, rank_of(a, d)) + mha_excess(d, n, sigma, a, beta)
        for d, n, sigma in _rational_tasks()
        for a in range(d + 1)
    )


def weights_attain_skipv1_minimum(rank_of: Rank) -> bool:
    return all(
        exact_loss(SKIPV1, d, n, sigma).value(skipv1_optimal(d, n, sigma, a)) == _closed(d, n, sigma, rank_of(a, d))
        for d, n, sigma in _rational_tasks()
        for a in range(d + 1)
    )


def explained_at_minimum(heads: Heads, d: int, n: int, sigma: float, a: int, w0: Any = None, starts: int = 8) -> float:
    """How far the exact minimum lies below predicting zero."""
    loss = PopulationLoss(PromptMoments(d, n, sigma, w0), heads)
    return loss.constant - minimise(loss, a, starts=starts).value


def _minimiser_finds(heads: tuple[Heads, ...], closed: Callable[..., float], factor: float) -> bool:
    d = TASK[0]
    return all(
        abs(explained_at_minimum(h, *TASK, a) - factor * closed(*TASK, a)) <= EXACT_SLACK * closed(*TASK, a)
        for h in heads
        for a in range(1, d)
    )


def minimiser_finds_mha_infimum(factor: float) -> bool:
    return _minimiser_finds(((ORDINARY,), MHA), skipv1.mha_explained, factor)


def minimiser_finds_skipv1_minimum(factor: float) -> bool:
    return _minimiser_finds((SKIPV1, (ORDINARY, SKIP, SKIP)), skipv1.skipv1_explained, factor)


def gap_identity(gap: Rank) -> bool:
    a, d = sympy.symbols("a d")
    return bool(sympy.expand(a * d - a * (d - a) - gap(a, d)) == 0)


def gap_of_optima(numbers: Callable[[int], int]) -> bool:
    d, n, sigma = 3, 8, 0.3
    best = [max(explained_at_minimum(heads, d, n, sigma, a) for a in range(d + 1)) for heads in (MHA, SKIPV1)]
    stated = skipv1.signal_share(d, n, sigma) * numbers(d)
    return abs(best[1] - best[0] - stated) <= EXACT_SLACK * stated


def witness_identity(factor: int) -> bool:
    """A S A^T = 0 for S_11 = 0, S_12 = A_1^-1 A_2, S_22 = -factor I, with symbols for A."""
    for a, d in ((1, 2), (1, 3), (2, 3)):
        matrix = sympy.Matrix(a, d, lambda i, j: sympy.Symbol(f"a_{i}{j}"))
        corner = matrix[:, :a].inv() * matrix[:, a:]
        s = sympy.zeros(d, d)
        s[:a, a:], s[a:, :a], s[a:, a:] = corner, corner.T, -factor * sympy.eye(d - a)
        if not (matrix * s * matrix.T).applyfunc(sympy.cancel).is_zero_matrix:
            return False
    return True


def witness_exists(which: str) -> bool:
    """S_11 = 0, A S A^T = 0, S_12 != 0 for A_1 singular, A_2 = 0 and neither."""
    rng = np.random.default_rng(0)
    for a, d in ((1, 2), (1, 4), (2, 3), (3, 5)):
        for kind in ("general", "singular", "square only"):
            matrix = rng.standard_normal((a, d))
            if kind == "singular":
                matrix[:, a - 1] = matrix[:, :a] @ np.append(rng.standard_normal(a - 1), 0.0)
            elif kind == "square only":
                matrix[:, a:] = 0
            s = unattained_witness(matrix) if which == "theory" else np.zeros((d, d))
            size = float(np.linalg.norm(s) * np.linalg.norm(matrix) ** 2)
            zero = np.linalg.norm(matrix @ s @ matrix.T) <= 100 * d * np.finfo(float).eps * max(size, 1)
            if not (zero and np.allclose(s, s.T) and not s[:a, :a].any() and np.linalg.norm(s[:a, a:]) > 1e-9 * size):
                return False
    return True


def excess_falls_with_beta(power: int) -> bool:
    d, n, sigma, a = 4, 3, Fraction(1, 3), 2
    loss = exact_loss(MHA, d, n, sigma)
    excess = [
        (loss.value(mha_approaching(d, n, sigma, a, Fraction(beta))) - _closed(d, n, sigma, a * (d - a))) * beta**power
        for beta in (1, 10, 1000)
    ]
    return len(set(excess)) == 1 and excess[0] > 0


def limit_shares(version: tuple[int, int]) -> bool:
    quarter, whole = version
    n, d, sigma = sympy.symbols("n d sigma", positive=True)
    k = sympy.Symbol("k", integer=True, positive=True)
    limit = sympy.limit(n / (n + d + 1 + sigma**2), n, sympy.oo)
    even = sympy.simplify(sympy.floor((2 * k) ** 2 / sympy.Integer(4)) / (2 * k) ** 2)
    odd_d = 2 * k + 1
    odd = sympy.simplify(k * (k + 1) / odd_d**2 - (1 - 1 / odd_d**2) / quarter)
    best = sympy.maximum(quarter * k * (n - k) / n**2, k, sympy.Interval(0, n))  # a (d - a) over d^2, a = k, d = n
    return bool(limit == whole and even == sympy.Rational(1, quarter) and odd == 0 and best == 1)


def limit_minimised(shares: tuple[float, float]) -> bool:
    d, n = 2, 10**6
    found = (explained_at_minimum(MHA, d, n, 0.3, 1) / d**2, explained_at_minimum(SKIPV1, d, n, 0.3, d) / d**2)
    return all(abs(f - s) <= EXACT_SLACK * s for f, s in zip(found, shares, strict=True))


def _random_weights(rng: np.random.Generator, heads: int, a: int, d: int) -> Weights:
    shapes = ((a, d), (d - a, d), (heads, d, d), (heads, d, a))
    return Weights(*(rng.integers(-3, 4, shape).astype(object) + Fraction(0) for shape in shapes))


def no_gap_at_zero_a(size: int) -> bool:
    rng = np.random.default_rng(1)
    for heads in (MHA, SKIPV1):
        for a, d in ((1, 1), (1, 2), (2, 3)):
            loss, w = exact_loss(heads, d, 3, Fraction(1, 2)), _random_weights(rng, 2, a, d)
            if loss.value(Weights(w.a * 0 + size, w.b, w.w, w.k)) != loss.constant:
                return False
    return True


def no_gradient_at_zero_a(size: float) -> bool:
    """With A and B fixed at A = size, nothing can be gained by moving W or K, for either model."""
    rng = np.random.default_rng(2)
    for heads in (MHA, SKIPV1):
        w = Weights(*(x.astype(float) for x in _random_weights(rng, 2, 2, 4).arrays()))
        loss = PopulationLoss(PromptMoments(4, 6, 0.5), heads)
        _, gradient = loss.value_and_gradient(Weights(w.a * 0 + size, w.b, w.w, w.k))
        if gradient.w.any() or gradient.k.any():
            return False
    return True


def bound_holds(against: str) -> bool:
    for d, n, sigma in ((2, 3, 0.3), (3, 8, 0.3), (4, 16, 0.0), (5, 20, 0.5), (6, 6, 1.0)):
        for a in range(1, d):
            bound = skipv1.paper_bound(d, n, sigma, a)
            if bound.value - 5 * bound.stderr > getattr(skipv1.loss_gap(d, n, sigma, a), against):
                return False
    return True


def quaternion_loss(factor: int) -> bool:
    d, n, sigma, c = 4, 2, Fraction(1, 10), Fraction(10)
    w0 = np.eye(d, dtype=object) * c
    value = exact_loss(MHA, d, n, sigma, w0).value(quaternion_heads(c, n))
    return bool(value == d**2 + d * sigma**2 + factor * d * c**2 / (n * d + 2))


def skipv1_around_w0(level: float) -> bool:
    loss = PopulationLoss(PromptMoments(4, 2, 0.1, 10 * np.eye(4)), SKIPV1)
    return minimise(loss, 4, starts=8).value >= level
