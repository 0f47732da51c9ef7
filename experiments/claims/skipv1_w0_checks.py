"""Checks behind the ledger's entries on W0 != 0.  Each takes a version of the claim: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sympy import expand, symbols

from experiments.toys.checks import EXACT_SLACK, ROUNDING
from theory.errors import BadInput
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1
from theory.prompts import setting
from theory.prompts.isserlis import gaussian_trace
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1 import w0 as skipv1_w0
from theory.skipv1 import w0_d2 as skipv1_w0_d2
from theory.skipv1 import w0_heads as skipv1_w0_heads
from theory.toy.enough_heads import EnoughHeads
from theory.toy.exact import exact_loss, prompt_map, random_weights
from theory.toy.few_terms import cyclic, quaternions, spreads, term_floor, terms_loss
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights
from theory.toy.tokens import whole

SIGMA = Fraction(1, 10)


def _eye(d: int) -> Array:
    return np.eye(d, dtype=int).astype(object) * Fraction(1)


def _whole(rng: np.random.Generator, *shape: int) -> Array:
    return whole(rng, *shape) * Fraction(1)


# --- products of few terms


def products_stay_above(floor_of: Callable[[int], int]) -> bool:
    """Exact: random products and the quaternions, d = 1..4; `floor_of(R)` products are what the floor allows for."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 4):
        target = _whole(rng, d, d) if d < 4 else 3 * _eye(d)
        squares = (np.linalg.svd(target.astype(float), compute_uv=False) ** 2).tolist() if d < 4 else [9] * d
        for left, right in _products(rng, d):
            for n in (1, 2, 7):
                least = _best_scale(left, right, n, target)
                floor = term_floor(squares, n, floor_of(len(left)))
                if least < floor - (ROUNDING * sum(squares) if d < 4 else 0):
                    return False
    return True


def _products(rng: np.random.Generator, d: int) -> Iterator[tuple[Array, Array]]:
    for terms in (1, 2, 3):
        yield _whole(rng, terms, d, d), _whole(rng, terms, d, d)
    if d == 4:
        family = quaternions(4).astype(object) * Fraction(1)
        yield family, np.swapaxes(family, 1, 2)


def _best_scale(left: Array, right: Array, n: int, target: Array) -> Any:
    """The loss of the products, all multiplied by the best number."""
    zero, one, two = (terms_loss(scale * left, right, n, target) for scale in (0, 1, 2))
    square, linear = (two - 2 * one + zero) / 2, (4 * one - two - 3 * zero) / 2
    return zero - linear**2 / (4 * square) if square else zero


def descent_ends_on_floor(terms: int) -> bool:
    """Minimising over L_r and N_r at d = 4, n = 3: four products end on the floor of `terms`, and not below."""
    d, n, target = 4, 3, np.eye(4)

    def loss(flat: Array) -> tuple[float, Array]:
        left, right = flat.reshape(2, 4, d, d)
        return float(terms_loss(left, right, n, target)), _gradient(left, right, n, target)

    rng = np.random.default_rng(1)
    ends = [minimize(loss, rng.standard_normal(8 * d * d) / 2, jac=True, method="L-BFGS-B").fun for _ in range(6)]
    floor = float(term_floor([1.0] * d, n, terms))
    return floor - ROUNDING * d <= min(ends) <= floor * (1 + EXACT_SLACK)


def _gradient(left: Array, right: Array, n: int, target: Array) -> Array:
    """Of `terms_loss`: with rest M = sum L N - target and E S X S = n^2 X + n X^T + n tr(X) I."""
    mean = np.einsum("rij,rjk->ik", left, right)
    by_left, by_right = np.empty_like(left), np.empty_like(right)
    for r in range(len(left)):
        inner = np.einsum("ij,sik->sjk", left[r], left)  # L_r^T L_s
        outer = np.einsum("jk,slk->sjl", right[r], right)  # N_r N_s^T
        by_left[r] = 2 * n * (n * mean - target) @ right[r].T
        by_left[r] += 2 * n * np.einsum("sij,sjk->ik", left, outer)
        by_left[r] += 2 * n * np.einsum("s,sij->ij", np.einsum("sjj->s", outer), left)
        by_right[r] = 2 * n * left[r].T @ (n * mean - target)
        by_right[r] += 2 * n * np.einsum("sij,sik->jk", inner, right)
        by_right[r] += 2 * n * np.einsum("s,sij->ij", np.einsum("sjj->s", inner), right)
    return np.concatenate([by_left.ravel(), by_right.ravel()])


def shifts_are_spread(spread: Callable[[int, int], Fraction]) -> bool:
    """Exact: kappa_i of R cyclic shifts of R^d."""
    sizes = [(3, 2), (5, 3), (8, 4), (9, 5), (14, 7)]
    return all((spreads(cyclic(d, r)) == spread(d, r)).all() for d, r in sizes)


# --- the printed theorem


def explicit_mha_loss(factor: Fraction) -> bool:
    """Exact loss of `mha_around` in rational arithmetic: d^2 + d sigma^2 + factor c^2 l_mha."""
    for d, n, c in ((3, 2, 5), (4, 1, 3), (4, 2, 10), (5, 3, 7)):
        loss = exact_loss(MHA, d, n, SIGMA, c * _eye(d)).value(skipv1_w0_heads.mha_around(d, n, Fraction(c)))
        lost = skipv1_w0_heads.large_prior(d, n, SIGMA).mha
        if loss != d**2 + d * SIGMA**2 + factor * c**2 * lost:
            return False
    return True


def even_products(around: str) -> bool:
    """Exact, d = 4, a = d: the even part of SkipV1Former's P is three products W S K, as a map of S."""
    rng = np.random.default_rng(2)
    d = 4
    weights = random_weights(rng, 2, d, d)
    w0 = 3 * _eye(d) if around == "a multiple of I" else _whole(rng, d, d)
    c = prompt_map(weights, SKIPV1)  # P_ij = sum c[i, j, p, q] S_pq over z = (x ; y), y = W0 x
    lift = np.concatenate([_eye(d), w0])
    of_s = np.einsum("ijpq,pk,ql->ikjl", c, lift, lift).reshape(d * d, d * d)  # rows (i, k), columns (j, l)
    return np.linalg.matrix_rank(of_s.astype(float)) == 3


def skipv1_above_mha(products: int) -> bool:
    """d = 4, n = 2, W0 = 10 I: SkipV1Former's exact minimum at a = d lies within 1 % above the floor of `products`,
    and above MHA's explicit weights at every rank."""
    d, n, sigma, c = 4, 2, 0.1, 10.0
    loss = PopulationLoss(PromptMoments(d, n, sigma, c * np.eye(d)), SKIPV1)
    found = [minimise(loss, a, starts=8 if a == d else 1, max_iterations=400).value for a in range(d + 1)]
    floor = d**2 * (1 - setting.signal_share(d, n, sigma)) + d * sigma**2 + term_floor([c**2] * d, n, products)
    mha = float(skipv1_w0_heads.mha_reached(d, n, sigma, c))
    return min(found) > mha and floor <= found[d] <= 1.01 * floor


def fails_from(first: int) -> bool:
    """Exact: two heads each; from d = `first` to 40 SkipV1Former loses at n just above (d - 1) kappa."""
    return all(_loses(d) for d in range(first, 41))


def _loses(d: int) -> bool:
    kappa = sum(spreads(quaternions(d))) / d
    return skipv1_w0_heads.large_prior(d, int((d - 1) * kappa) + 1, Fraction(0)).excess > 0


def heads_fail_from(first: Callable[[int], int]) -> bool:
    """Exact: H heads, half of them skip heads, H = 2..40; from d = first(H) on, as far as 20 more."""
    for heads in range(2, 41, 2):
        for d in range(first(heads), first(heads) + 20):
            terms, kappa = 3 * heads // 2, Fraction(d + 1, 2 * heads)
            theta, n = Fraction(d + 2 - terms, terms), (d * d - 1) // (2 * heads) + 1
            mha, skip = d * kappa / (n + kappa), d * theta / (n + theta)
            if not (mha < skip and mha < 1):
                return False
    return True


def eight_shifts_lose(skips: int) -> bool:
    """The loss of four heads by eight shifts, d = 20, exact, against the floor of four heads, `skips` skip heads."""
    d, heads, c = 20, 4, Fraction(1)
    n = ceil((d * d - 1) / (2 * heads)) + 1
    family = cyclic(d, 2 * heads).astype(object)
    scale = c / (2 * heads * (n + Fraction(d + 1, 2 * heads)))
    mha = terms_loss(scale * family, np.swapaxes(family, 1, 2), n, c * _eye(d))
    return bool(mha < c**2 and mha < term_floor([c**2] * d, n, 2 * heads - skips))


# --- enough heads


def s_is_seen(kinds: str) -> bool:
    """Exact: how many numbers of S the G's give free of Z, random whole-number A and B: all d (d + 1)/2 of them."""
    rng = np.random.default_rng(3)
    for d in (2, 3, 4):
        for rank in range(1, d + 1):
            a, b = _whole(rng, rank, d), _whole(rng, d - rank, d)
            low = np.eye(d, dtype=int)[rank:] - b
            rows = []
            for i in range(d):
                for j in range(i + 1):
                    s = np.zeros((d, d), dtype=object)
                    s[i, j] = s[j, i] = 1
                    upper = s[:rank, :rank] + a @ s @ a.T
                    lower = low @ s if kinds == "both kinds" else np.zeros((0, d))
                    rows.append(np.concatenate([upper.ravel(), np.asarray(lower).ravel()]).astype(float))
            if np.linalg.matrix_rank(np.array(rows)) != d * (d + 1) // 2:
                return False
    return True


def gap_with_enough_heads(least: Callable[[int, int], float]) -> bool:
    """The exact minima over all that heads can do, random W0: MHA's less SkipV1Former's, in units of rho."""
    rng = np.random.default_rng(4)
    for d, n, sigma, size in ((2, 3, 0.5, 4.0), (3, 2, 0.1, 3.0), (3, 4, 1.5, 1.0)):
        moments = PromptMoments(d, n, sigma, size * rng.standard_normal((d, d)))
        rho = setting.signal_share(d, n, sigma)
        for rank in range(1, d + 1):
            mha, skip = (EnoughHeads(moments, kinds).minimise(rank)[0] for kinds in ((ORDINARY,), (ORDINARY, SKIP)))
            if mha - skip < rho * least(rank, d) - EXACT_SLACK * rho:
                return False
    return True


def reads_of_the_constant(noise_power: int) -> bool:
    """Symbolic, by pairing: mean and variance of tr S, and the variance of tr(Q_B Y) - k tr S given k = 1, at n, d."""
    d, n, sigma = symbols("d n sigma")
    trace, square = gaussian_trace("X X'"), gaussian_trace("X X'", "X X'")
    if expand(square - trace**2 - 2 * n * d) != 0 or expand(trace - n * d) != 0:
        return False
    # One row of eta = D X + sigma N given X is N(0, X'X + sigma^2 I): the variance of its square is twice the trace of
    # the square of that matrix.
    inner = gaussian_trace("X X' X X'") + 2 * sigma**2 * trace + n * sigma**4
    return bool(expand(inner - n * (d * (n + d + 1) + 2 * d * sigma**2 + sigma**noise_power)) == 0)


def floor_is_met(seen_rows: Callable[[int, int], int]) -> bool:
    """With enough heads SkipV1Former's exact minimum is Theorem 2's, at 2 a >= d and at W0 of rank one."""
    rng = np.random.default_rng(5)
    for d, n, sigma, rank, of_w0 in ((2, 2, 2.0, 1, 2), (3, 3, 1.5, 2, 3), (3, 2, 2.0, 1, 1)):
        w0 = 3 * rng.standard_normal((d, of_w0)) @ rng.standard_normal((of_w0, d))
        squares = sorted((np.linalg.svd(w0, compute_uv=False) ** 2)[:of_w0].tolist() + [0.0] * (d - of_w0))[::-1]
        found = EnoughHeads(PromptMoments(d, n, sigma, w0), (ORDINARY, SKIP)).minimise(rank, starts=6)[0]
        tau = skipv1_w0.constant_share(d, n, sigma, seen_rows(d, rank))
        explained = setting.signal_share(d, n, sigma) * rank * d + (1 - tau) * sum(squares[:rank])
        shown = setting.zero_loss(d, n, sigma) + sum(squares) - found
        slack = 1e-6 * explained  # tau_k differs from tau_0 by a hundredth and more
        if not explained - slack <= shown <= explained + ROUNDING * (shown + found):
            return False
    return True


# --- two heads


def small_w0_loss(fraction: Fraction) -> bool:
    """Exact loss of one ordinary and one skip head at A = I and the best mu, random whole-number W0."""
    rng = np.random.default_rng(6)
    for d, n in ((1, 1), (2, 3), (3, 2)):
        w0, sigma = _whole(rng, d, d), Fraction(2, 3)
        power = (w0 * w0).sum()
        mu = (d**2 + power) / ((d**2 + power) * (n + d + 1) + sigma**2 * d**2)
        weights = Weights(
            _eye(d), _eye(d)[:0], np.stack([-mu * fraction * _eye(d), mu * _eye(d)]), np.stack([_eye(d)] * 2)
        )
        if exact_loss(SKIPV1, d, n, sigma, w0).value(weights) != skipv1_w0.two_heads_reach(d, n, sigma, power):
            return False
    return True


def small_w0_wins(share: float) -> bool:
    """Exact minimisation, d = 3, n = 8, W0 a multiple of a rotation with `share` of Theorem 3's largest norm."""
    d, n, sigma = 3, 8, 0.3
    turned = np.linalg.qr(np.random.default_rng(7).standard_normal((d, d)))[0]
    power = share * skipv1_w0.small_power(d, n, sigma)
    floor = min(skipv1_w0.mha_floor(d, n, sigma, [power / d] * d, a) for a in range(d + 1))
    loss = PopulationLoss(PromptMoments(d, n, sigma, turned * (power / d) ** 0.5), SKIPV1)
    reached = skipv1_w0.two_heads_reach(d, n, sigma, power)
    found = minimise(loss, d, starts=2).value
    return bool(found <= reached + ROUNDING * loss.constant and reached < floor)


def d2_loss(cross: int) -> bool:
    """Exact loss of `d2_weights`, random W0: 2 sigma^2 + 4 + tau_0 w^2, less what Z and plus what S adds."""
    rng = np.random.default_rng(8)
    for n, beta, sigma in (
        (1, Fraction(3, 2), Fraction(1)),
        (2, Fraction(2), Fraction(1, 3)),
        (5, Fraction(7), Fraction(0)),
    ):
        w0 = _whole(rng, 2, 2)
        loss = exact_loss(SKIPV1, 2, n, sigma, w0).value(skipv1_w0_heads.d2_weights(n, w0, beta))
        nu = Fraction(1, 2 * n + 2)
        mu = nu * (1 - beta**-2)
        odd = 4 * (2 * mu * n - mu**2 * n * (n + 3 + sigma**2))
        if loss != 2 * sigma**2 + 4 + (w0 * w0).sum() / Fraction(n + 1) - odd + cross * n * (n + 3) * mu**2 / beta**2:
            return False
    return True


def d2_gap(least: float) -> bool:
    """Exact minimisation at d = 2: SkipV1Former with two heads below MHA's floor for any number by `least` rho."""
    rng = np.random.default_rng(9)
    for n, sigma, w0 in (
        (2, 0.0, 6 * rng.standard_normal((2, 2))),
        (4, 1.0, np.diag([6.0, 3.0])),
        (3, 0.5, 5 * np.eye(2)),
    ):
        squares = (np.linalg.svd(w0, compute_uv=False) ** 2).tolist()
        found = minimise(PopulationLoss(PromptMoments(2, n, sigma, w0), SKIPV1), 2, starts=8).value
        floor = min(skipv1_w0.mha_floor(2, n, sigma, squares, a) for a in range(3))
        if found > floor - least * setting.signal_share(2, n, sigma):
            return False
    return True


def d2_lopsided(rank: str) -> bool:
    """The exact loss, in rational arithmetic, of explicit weights of SkipV1Former, against MHA's floors."""
    for n, sigma, s_2 in ((2, 1.0, 3.0), (1, 3.0, 9.0)):
        squares = [(12 * s_2) ** 2, s_2**2]
        floor = min(skipv1_w0.mha_floor(2, n, sigma, squares, a) for a in range(3))
        w0 = np.diag([12 * s_2, s_2])
        if rank == "a = 2":
            weights = skipv1_w0_heads.d2_weights(n, w0, min(skipv1_w0_heads.d2_best_beta(n, sigma), 1e3))
        else:
            weights = _first_of_rank_one(n, sigma, w0)
        rational = Weights(*(_rational(x) for x in weights.arrays()))
        loss = float(exact_loss(SKIPV1, 2, n, Fraction(sigma), _rational(w0)).value(rational))
        if loss >= floor - 1e3 * np.finfo(float).eps * squares[0]:
            return False
    return True


def _first_of_rank_one(n: int, sigma: float, w0: Array) -> Weights:
    """Theorem 6's weights at the largest alpha of a falling sequence, of one sign or the other."""
    for alpha in (sign * 0.5**i for i in range(40) for sign in (1, -1)):
        try:
            return skipv1_w0_d2.rank_one_weights(n, sigma, w0, alpha)
        except BadInput:
            continue
    raise AssertionError("Theorem 6 promises weights")


def _rational(array: Array) -> Array:
    return np.array([Fraction(float(x)) for x in np.ravel(array)], dtype=object).reshape(np.shape(array))
