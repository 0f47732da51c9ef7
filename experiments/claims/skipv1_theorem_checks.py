"""Checks behind the ledger's entries on the theorem.  Each takes a version of the claim: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from experiments.toys.checks import EXACT_SLACK, ROUNDING
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Heads
from theory.prompts import setting
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import PromptMoments
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import mha_approaching, mha_excess, skipv1_optimal, unattained_witness
from theory.toy.exact import RATIONAL_TASKS, closed_form, exact_loss, odd_map, prompt_map, random_weights, rational
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights

TASK = (4, 10, 0.4)
Rank = Callable[[Any, Any], Any]


def weights_approach_mha_infimum(rank_of: Rank) -> bool:
    beta = Fraction(7, 2)
    return all(
        exact_loss(MHA, d, n, sigma).value(mha_approaching(d, n, sigma, a, beta))
        == closed_form(d, n, sigma, rank_of(a, d)) + mha_excess(d, n, sigma, a, beta)
        for d, n, sigma in RATIONAL_TASKS
        for a in range(d + 1)
    )


def weights_attain_skipv1_minimum(rank_of: Rank) -> bool:
    return all(
        exact_loss(SKIPV1, d, n, sigma).value(skipv1_optimal(d, n, sigma, a)) == closed_form(d, n, sigma, rank_of(a, d))
        for d, n, sigma in RATIONAL_TASKS
        for a in range(d + 1)
    )


def loss_splits(one: int) -> bool:
    """Steps (1) and (2): L = d^2 (1-rho) + d sigma^2 + v ||T - lambda I||^2 + E ||P_even||^2, v = n (n+d+one+sigma^2).

    For random rational weights of one, two and three heads; E ||P_even||^2 by pairing.
    """
    rng = np.random.default_rng(8)
    sigma, n = Fraction(1, 2), 3
    for d, a, heads in ((1, 1, SKIPV1), (2, 1, (ORDINARY,)), (2, 1, SKIPV1), (2, 2, (ORDINARY, SKIP, SKIP))):
        w = random_weights(rng, len(heads), a, d)
        engine = PromptEngine(d)
        values = [(engine.n, n), (engine.sigma, sigma)] + [(g, 0) for row in engine.w0 for g in row]
        kinds = [("xx", p, q) for p in range(d) for q in range(d)] + [("yy", p, q) for p in range(d) for q in range(d)]
        c = prompt_map(w, heads)
        even = np.concatenate([c[:, :, :d, :d], c[:, :, d:, d:]], axis=2).reshape(d * d, -1)
        power = sum(
            (even[:, i] @ even[:, j]) * rational(engine.expect(f, g), values)
            for i, f in enumerate(kinds)
            for j, g in enumerate(kinds)
        )
        share = Fraction(n) / (n + d + one + sigma**2)
        off = odd_map(w, heads) - share / n * np.eye(d * d, dtype=object)
        stated = d**2 * (1 - share) + d * sigma**2 + n * (n + d + one + sigma**2) * (off * off).sum() + power
        if exact_loss(heads, d, n, sigma).value(w) != stated:
            return False
    return True


def map_rank_is(version: tuple[Heads, Rank]) -> bool:
    """Step (4): T has at most the stated rank for any number of heads of this kind, and just that with five heads.

    A and B get a heavy diagonal, so that whole-number entries do not make them singular.
    """
    head, rank_of = version
    rng = np.random.default_rng(9)
    for d in range(1, 4):
        for a in range(d + 1):
            for heads in (1, 2, 5):
                w = random_weights(rng, len(head * heads), a, d)
                w = Weights(w.a + 7 * np.eye(a, d, dtype=int), w.b + 7 * np.eye(d - a, d, dtype=int), w.w, w.k)
                ranks = sympy.Matrix(odd_map(w, head * heads)).rank() if a else 0
                if ranks > rank_of(a, d) or (heads == 5 and ranks != rank_of(a, d)):
                    return False
    return True


def infimum_is_unattained(with_first: bool) -> bool:
    """Step (7), exactly: of all linear maps Phi with (i) and (ii), none is injective on the matrices (0 C^T ; C 0).

    Each output entry of Phi is a functional on d x d matrices; what the functionals that obey (i) and (ii) can see of
    C has rank less than a (d-a).  Without (i) they see all of it.
    """
    rng = np.random.default_rng(10)
    for a, d in ((1, 2), (1, 3), (2, 3), (2, 4)):
        for kind in ("general", "singular", "square only"):
            matrix = _a_of_kind(kind, a, rng.integers(-3, 4, (a, d)))
            conditions = []
            for i in range(d):
                for j in range(i, d):
                    s = np.zeros((d, d), dtype=int)
                    s[i, j] = s[j, i] = 1
                    first = s.copy()
                    first[:a, :a] += matrix @ s @ matrix.T
                    if with_first:
                        conditions.append(first.ravel())
                    if i >= a:
                        conditions.append(s.ravel())
            free = sympy.Matrix(np.array(conditions)).nullspace()
            corners = []
            for i in range(a, d):
                for j in range(a):
                    c = np.zeros((d, d), dtype=int)
                    c[i, j] = c[j, i] = 1
                    corners.append([sum(int(v) * x for v, x in zip(c.ravel(), phi, strict=True)) for phi in free])
            if sympy.Matrix(corners).rank() == a * (d - a):
                return False
    return True


def _a_of_kind(kind: str, a: int, matrix: Any) -> Any:
    """A with a general square block, with a singular one (its last column zero), or with nothing to its right."""
    if kind == "singular":
        matrix[:, a - 1] = 0
    elif kind == "square only":
        matrix[:, a:] = 0
        matrix[:, :a] += 5 * np.eye(a, dtype=matrix.dtype)
    return matrix


def explained_at_minimum(heads: Heads, d: int, n: int, sigma: float, a: int, w0: Any = None, starts: int = 8) -> float:
    """How far the exact minimum lies below predicting zero."""
    loss = PopulationLoss(PromptMoments(d, n, sigma, w0), heads)
    return loss.constant - minimise(loss, a, starts=starts).value


def _minimiser_finds(heads: tuple[Heads, ...], closed: Callable[..., float], factor: float) -> bool:
    d = TASK[0]
    zero = setting.zero_loss(*TASK)
    return all(
        -EXACT_SLACK * closed(*TASK, a)
        <= explained_at_minimum(h, *TASK, a) - factor * closed(*TASK, a)
        <= ROUNDING * zero
        for h in heads
        for a in range(1, d)
    )


def minimiser_finds_mha_infimum(factor: float) -> bool:
    return _minimiser_finds(((ORDINARY,), MHA), skipv1.mha_explained, factor)


def minimiser_finds_skipv1_minimum(factor: float) -> bool:
    return _minimiser_finds((SKIPV1, (ORDINARY, SKIP, SKIP)), skipv1.skipv1_explained, factor)


def gap_identity(gap: Rank) -> bool:
    """`loss_gap`, in exact numbers, on a grid that determines a polynomial of degree four in a and d."""
    return all(
        found.gap == found.mha - found.skipv1 == found.rho * gap(a, d)
        for d in range(1, 7)
        for a in range(d + 1)
        for found in [skipv1.loss_gap(d, 7, Fraction(2, 3), a)]
    )


def gap_of_optima(numbers: Callable[[int], int]) -> bool:
    d, n, sigma = 3, 8, 0.3
    best = [max(explained_at_minimum(heads, d, n, sigma, a) for a in range(d + 1)) for heads in (MHA, SKIPV1)]
    stated = setting.signal_share(d, n, sigma) * numbers(d)
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
            matrix = _a_of_kind(kind, a, rng.standard_normal((a, d)))
            s = unattained_witness(matrix)
            if which == "no corner":
                s[a:, a:] = 0
            size = float(np.linalg.norm(s) * np.linalg.norm(matrix) ** 2)
            zero = np.linalg.norm(matrix @ s @ matrix.T) <= 100 * d * np.finfo(float).eps * max(size, 1)
            if not (zero and np.allclose(s, s.T) and not s[:a, :a].any() and np.linalg.norm(s[:a, a:]) > 1e-9 * size):
                return False
    return True


def limit_shares(quarter: Fraction) -> bool:
    """Of rho d^2, `skipv1_explained` takes all and `mha_explained` at its best a quarter, or (1 - 1/d^2)/4 at odd d;
    and 1 - rho = (d + 1 + sigma^2) / (n + d + 1 + sigma^2), which falls to zero as n grows."""
    n, sigma = 5, Fraction(1, 3)
    for d in range(1, 13):
        rho = setting.signal_share(d, n, sigma)
        best = max(skipv1.mha_explained(d, n, sigma, a) for a in range(d + 1)) / (rho * d**2)
        if best != quarter * (1 if d % 2 == 0 else 1 - Fraction(1, d**2)):
            return False
        if skipv1.skipv1_explained(d, n, sigma, d) != rho * d**2 or 1 - rho != (d + 1 + sigma**2) / (
            n + d + 1 + sigma**2
        ):
            return False
    return True


def limit_minimised(shares: tuple[float, float]) -> bool:
    d, n = 2, 10**6
    found = (explained_at_minimum(MHA, d, n, 0.3, 1) / d**2, explained_at_minimum(SKIPV1, d, n, 0.3, d) / d**2)
    return all(abs(f - s) <= EXACT_SLACK * s for f, s in zip(found, shares, strict=True))


def _large_w0(d: int) -> Any:
    """W0 = 4 d I, for which sigma_d(W0) > 2 sqrt(d) sigma at sigma = 1/2: what the printed theorem assumes."""
    return np.eye(d, dtype=object) * Fraction(4 * d)


def gap_at_zero_a(gap: int) -> bool:
    """At A = 0 the loss is that of predicting zero, whatever the other weights, so the minima differ by `gap` = 0."""
    rng = np.random.default_rng(1)
    for a, d in ((1, 1), (1, 2), (2, 3)):
        minima: list[float] = []
        for heads in (MHA, SKIPV1):
            loss = exact_loss(heads, d, 3, Fraction(1, 2), _large_w0(d))
            weights = [random_weights(rng, 2, a, d) for _ in range(5)]
            losses = {loss.value(Weights(0 * w.a, w.b, w.w, w.k)) for w in weights}
            if losses != {loss.constant}:
                return False
            minima += losses
        if minima[0] - minima[1] != gap:
            return False
    return True


def no_gradient_at_zero_a(size: float) -> bool:
    """With A and B fixed at A = size, nothing can be gained by moving W or K, for either model."""
    rng = np.random.default_rng(2)
    for heads in (MHA, SKIPV1):
        w = Weights(*(x.astype(float) for x in random_weights(rng, 2, 2, 4).arrays()))
        loss = PopulationLoss(PromptMoments(4, 6, 0.5, 16 * np.eye(4)), heads)
        _, gradient = loss.value_and_gradient(Weights(w.a * 0 + size, w.b, w.w, w.k))
        if gradient.w.any() or gradient.k.any():
            return False
    return True


def bound_holds(against: str) -> bool:
    for d, n, sigma in ((2, 3, 0.3), (3, 8, 0.3), (4, 16, 0.0), (5, 20, 0.5), (6, 6, 1.0), (6, 3, 0.5)):
        for a in range(d + 1):
            bound = skipv1.paper_bound(d, n, sigma, a, samples=2000)
            if bound.value - 5 * bound.stderr > getattr(skipv1.loss_gap(d, n, sigma, a), against) * (1 + 1e-12):
                return False
    return True


def bound_shares(shares: tuple[float, ...]) -> bool:
    """The bound over the gap it bounds at d = 5, n = 20, sigma = 0.5, a = 1 .. 4, to one part in twenty."""
    for a, share in enumerate(shares, 1):
        found = skipv1.paper_bound(5, 20, 0.5, a).value / skipv1.loss_gap(5, 20, 0.5, a).gap_to_optimum
        if abs(found - share) > share / 20:
            return False
    return True


def c_is_positive_from(shortest: Callable[[int], int]) -> bool:
    """sum_{i>a} sigma_i(S_yx)^2 is positive for n >= shortest(a) and zero below, by exact rank, one prompt each."""
    rng = np.random.default_rng(11)
    for d in (2, 3, 4):
        for a in range(d):
            for n in range(1, d + 2):
                x, y = (sympy.Matrix(rng.integers(-9, 10, (d, n))) for _ in range(2))
                if ((y * x.T).rank() > a) != (n >= shortest(a)):
                    return False
    return True


def simulated_bound(shift: int) -> bool:
    """`paper_bound` at rank a against the mean over 4000 prompts from their tokens, at rank a - shift."""
    rng = np.random.default_rng(14)
    d, sigma, prompts = 3, 0.5, 4000
    for n, a in ((1, 1), (2, 1), (2, 2), (7, 2)):
        x, noise = rng.standard_normal((2, prompts, d, n))
        y = rng.standard_normal((prompts, d, d)) @ x + sigma * noise
        squares = np.linalg.svd(y @ x.swapaxes(1, 2), compute_uv=False) ** 2 / (n + d + 1 + sigma**2) ** 2
        tail = squares[:, a - shift :].sum(axis=1)
        bound = skipv1.paper_bound(d, n, sigma, a)
        error = np.hypot(tail.std() / prompts**0.5, bound.stderr)
        if abs(tail.mean() - bound.value) > 5 * error + 1e-12:
            return False
    return True
