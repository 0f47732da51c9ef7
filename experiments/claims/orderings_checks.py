"""Checks behind the ledger's entries on orders.  Each takes a version of the claim: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import sympy

from experiments.across.orderings.experiment import EXPERIMENT
from experiments.across.orderings.verdicts import difference, levels_of, made_for, pairs_of
from experiments.across.printed import BASELINE, reported
from experiments.claims.skipv1_theorem_checks import explained_at_minimum
from experiments.store.folders import Json
from experiments.toys.checks import EXACT_SLACK, ROUNDING
from experiments.verdicts.orders import agreement
from theory.plans.heads import ORDINARY, SKIP
from theory.prompts.setting import signal_share, zero_loss
from theory.skipv1.gap_weights import skipv1_optimal
from theory.toy.exact import RATIONAL_TASKS, closed_form, exact_loss, odd_map
from theory.toy.population import Weights
from theory.toy.raw_keys_weights import (
    realigned,
    residual_keys,
    residual_keys_approaching,
    shared_keys,
    shared_keys_approaching,
    shared_keys_excess,
)

PERMUTATIONS = 20_000


def _random(rng: np.random.Generator, readouts: int, keys: int, a: int, d: int) -> Weights:
    """Whole numbers of a range that makes accidents unlikely."""
    shapes = ((a, d), (d - a, d), (readouts, d, d), (keys, d, a))
    return Weights(*(rng.integers(1, 1000, shape).astype(object) for shape in shapes))


def _rank(matrix: Any) -> int:
    return int(sympy.Matrix(matrix).rank()) if matrix.size else 0


def realigned_rank_is(rank: Callable[[int, int, int], int]) -> bool:
    """Of the odd part's map for one to nine heads with shared keys."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        for a in range(d + 1):
            for heads in (1, 2, 4, 9):
                w = _random(rng, heads, heads, a, d)
                t = odd_map(w, shared_keys(heads)).reshape(d, d, d, d) if a else np.zeros((d, d, d, d), dtype=int)
                if _rank(realigned(t)) != rank(heads, a, d):
                    return False
    return True


def residual_rank_is(rank: Callable[[int, int], int]) -> bool:
    """On S_yx from row(B)^perp (x) row(A), which B S_yx A^T does not see, for one to four heads with residual keys."""
    rng = np.random.default_rng(1)
    for d in (2, 3, 4):
        for a in range(1, d):
            for heads in (1, 2, 4):
                w = _random(rng, heads, 2 * heads, a, d)
                t = odd_map(w, residual_keys(heads)).reshape(d, d, d, d)
                blind = np.array(sympy.Matrix(w.b).nullspace()).reshape(a, d)
                seen = np.einsum("ijkl,pk,ql->ijpq", t, blind, w.a)
                if _rank(seen.transpose(0, 3, 2, 1).reshape(d * a, a * d)) != rank(heads, a):
                    return False
    return True


def shared_keys_approach(power: int) -> bool:
    beta = Fraction(7, 2)
    for d, n, sigma in RATIONAL_TASKS[:3]:
        for a in range(d + 1):
            for heads in (1, 3):
                weights = shared_keys_approaching(d, n, sigma, a, heads, beta)
                excess = shared_keys_excess(d, n, sigma, a, heads, beta) * beta ** (2 - power)
                said = closed_form(d, n, sigma, min(heads, a * d)) + excess
                if exact_loss(shared_keys(heads), d, n, sigma).value(weights) != said:
                    return False
    return True


def shared_keys_attain_nowhere(antisymmetric: bool) -> bool:
    """For V's of random whole numbers in R^d (x) row(A): R^h = V^h and sum_h vec(L^h) vec(V^h)^T the projection on
    them leave W^h_2 free, and sum_h W^h_ij V^h_kl antisymmetric in j, k has no solution."""
    rng = np.random.default_rng(2)
    for d, a, count in ((1, 1, 1), (2, 1, 1), (2, 1, 2), (2, 2, 3), (3, 1, 2), (3, 2, 1), (3, 2, 4), (3, 3, 2)):
        top = sympy.Matrix(rng.integers(-3, 4, (a, d)).tolist()) + 7 * sympy.eye(d)[:a, :]
        v = [sympy.Matrix(rng.integers(-3, 4, (d, a)).tolist()) * top for _ in range(count)]
        gram = sympy.Matrix(count, count, lambda g, h: (v[g].T * v[h]).trace())  # noqa: B023
        dual = [sum((gram.inv()[g, h] * v[h] for h in range(count)), sympy.zeros(d, d)) for g in range(count)]
        first = [m * top.T * (top * top.T).inv() for m in dual]
        free = [sympy.Matrix(d, d - a, lambda i, j, h=h: sympy.Symbol(f"w{h}_{i}_{j}")) for h in range(count)]
        w = [one.row_join(two) for one, two in zip(first, free, strict=True)]
        sigma = np.einsum("hij,hkl->ijkl", *(np.array([np.array(m) for m in x]) for x in (w, v)))
        asked = sigma + sigma.swapaxes(1, 2) if antisymmetric else 0 * sigma
        if _solvable([e for e in asked.ravel() if e != 0], [symbol for m in free for symbol in m]):
            return False
    return True


def _solvable(equations: list[Any], unknown: list[Any]) -> bool:
    """Whether linear expressions can all be zero."""
    if not equations or not unknown:
        return not equations
    return bool(sympy.linsolve(equations, unknown))


def residual_keys_approach(more: int) -> bool:
    """The loss less the closed form, of `more` numbers more: positive, and a hundredth at a tenth of s."""
    for (d, n, sigma), a, heads in ((RATIONAL_TASKS[1], 1, 1), (RATIONAL_TASKS[2], 1, 1), (RATIONAL_TASKS[2], 2, 2)):
        loss = exact_loss(residual_keys(heads), d, n, sigma)
        said = closed_form(d, n, sigma, a * (d - a) + min(heads, a * a) + more)
        tries = [residual_keys_approaching(d, n, sigma, a, heads, Fraction(1, s)) for s in (1000, 10_000)]
        first, second = (loss.value(weights) - said for weights in tries)
        if not (first > 0 and 99 * second < first < 101 * second):
            return False
    return True


def minimiser_finds_raw_keys(factor: float) -> bool:
    d, n, sigma = task = (3, 8, 0.3)
    rho, zero = signal_share(*task), zero_loss(*task)
    cases = [(shared_keys(h), a, min(h, a * d)) for h in (1, 2, 3) for a in (1, 2)]
    cases += [(residual_keys(h), 1, d) for h in (2, 3)] + [(residual_keys(2), 3, 2), (residual_keys(1), 3, 1)]
    for heads, a, entries in cases:
        found, said = explained_at_minimum(heads, d, n, sigma, a), rho * entries
        if not -EXACT_SLACK * said <= found - factor * said <= ROUNDING * zero:
            return False
    return True


def mixtures_attain(share: Callable[[int, int], Fraction]) -> bool:
    """`share` of SkipV1Former's signal, for `skip` of `heads` heads, of which all but one of a kind are silent."""
    d, n, sigma = RATIONAL_TASKS[2]
    for a in range(1, d + 1):
        two = skipv1_optimal(d, n, sigma, a)
        for skip, heads in ((1, 3), (2, 3), (1, 4), (3, 4)):
            kinds = (ORDINARY, *(SKIP,) * skip, *(ORDINARY,) * (heads - skip - 1))
            silent = np.zeros((heads - 2, d, d), dtype=object)
            w, k = np.concatenate([two.w, silent]), np.concatenate([two.k, silent[:, :, :a]])
            said = closed_form(d, n, sigma, share(skip, heads) * a * d)
            if exact_loss(kinds, d, n, sigma).value(Weights(two.a, two.b, w, k)) != said:
                return False
    return True


@cache
def _told() -> tuple[Json, Json]:
    """The toy's prediction and the papers' figures, without any minimisation."""
    prediction = EXPERIMENT.predict(EXPERIMENT.profiles["smoke"].config)
    return prediction, {"papers": [asdict(r) for r in reported()]}


def order_counts(counts: tuple[int, int, int]) -> bool:
    return _counts(lambda *_: True) == counts


def rest_counts(counts: tuple[int, int, int]) -> bool:
    """Without the gains over vanilla that the toy was made to explain."""
    return _counts(lambda levels, pair: not made_for(levels, *pair)) == counts


def _counts(kept: Callable[[Mapping[str, int], tuple[str, str]], bool]) -> tuple[int, int, int]:
    prediction, measurement = _told()
    levels = levels_of(prediction)
    pairs = [pair for found in pairs_of(prediction, measurement).values() for pair in found if kept(levels, pair)]
    found = agreement(levels, pairs)
    return found.concordant, found.discordant, found.tied


def against_vanilla(version: tuple[set[str], set[str]]) -> bool:
    """The variants whose sign against vanilla is not the toy's, and those that the toy cannot tell from vanilla."""
    prediction, _ = _told()
    wrong, tied = set(), set()
    for r in reported():
        said = difference(prediction, r.variant, BASELINE) if r.against == BASELINE and r.differs else None
        if said == 0:
            tied.add(r.variant)
        elif said is not None and said * r.sign < 0:
            wrong.add(r.variant)
    return (wrong, tied) == version


def chance_of_order(p: float) -> bool:
    """Sampled permutations of the levels within each paper, apart from `experiments.verdicts.orders`' exact distribution."""
    prediction, measurement = _told()
    levels, rng = levels_of(prediction), np.random.default_rng(3)
    balances, reference = np.zeros(PERMUTATIONS), 0
    for pairs in pairs_of(prediction, measurement).values():
        names = sorted({name for pair in pairs for name in pair})
        place = {name: i for i, name in enumerate(names)}
        better, worse = np.array([[place[a], place[b]] for a, b in pairs]).T
        own = np.array([levels[name] for name in names])
        dealt = rng.permuted(np.tile(own, (PERMUTATIONS, 1)), axis=1)
        balances += np.sign(dealt[:, worse] - dealt[:, better]).sum(axis=1)
        reference += int(np.sign(own[worse] - own[better]).sum())
    found = float((balances >= reference).mean())
    return abs(found - p) <= 4 * (p * (1 - p) / PERMUTATIONS) ** 0.5
