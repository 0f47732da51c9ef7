"""Claims on layer 1's keys: the gain that they bring under values of layer 2."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.model import explained_at_minimum
from experiments.skipv1.claims.setting import W0_ZERO
from experiments.toys.checks import EXACT_SLACK, ROUNDING
from experiments.toys.unjudged import RANK
from theory.prompts.setting import signal_share
from theory.skipv1.paper import PAPER
from theory.toy import raw_keys
from theory.toy.exact import RATIONAL_TASKS, exact_loss, loss_at_entries, odd_map
from theory.toy.population import Weights
from theory.toy.raw_keys_weights import (
    realignment,
    residual_key_heads,
    residual_key_weights,
    shared_key_excess,
    shared_key_heads,
    shared_key_weights,
)

RAW_KEYS = Claim(
    "toy.raw-keys",
    PAPER.ours,
    place="theory/toy/raw_keys.py; bears on ResFormer, section 3.5 (Fig. 4), 4.3 (Fig. 7) and 4.8 (Fig. 16), and "
    "SkipV1Former, appendix C.5",
    statement="Keys from layer 1 under values of layer 2 are worth one number of W* a head: H heads explain "
    "rho min(H, a d) of the signal, and, for a >= 1, no weights attain it.  Beside keys of layer 2 they add "
    "rho min(H, a^2) to MHA's rho a (d - a), if H > 2 a - d or a = d.",
    assumes=W0_ZERO + "; every head has an output matrix of its own; no raw value has a copied key",
    verdict="verified",
    proof=raw_keys,
    uses=("skipv1.mha-infimum",),
    unjudged={realignment: RANK, residual_key_heads: "whether a key is there counts, and not its weight"},
)


@RAW_KEYS.check(
    "shared keys: the map from S_yx to P, realigned, has rank min(H, a d) for random weights; exact",
    states=lambda heads, a, d: min(heads, a * d),
    control=lambda heads, a, d: a * d,
    wrong="a d, as if one head were enough, as it is for raw values",
    kind="exact",
)
def realigned_rank_is(rank: Callable[[int, int, int], int]) -> bool:
    """Compare the ranks of the odd part's realigned map, for one to nine heads with shared keys."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        for a in range(d + 1):
            for heads in (1, 2, 4, 9):
                w = _random(rng, heads, heads, a=a, d=d)
                t = odd_map(w, shared_key_heads(heads)).reshape(d, d, d, d) if a else np.zeros((d, d, d, d), dtype=int)
                if _rank(realignment(t)) != rank(heads, a, d):
                    return False
    return True


def _random(rng: np.random.Generator, readouts: int, keys: int, a: int, d: int) -> Weights:
    """Return random whole numbers from a range that makes accidental rank losses unlikely."""
    shapes = ((a, d), (d - a, d), (readouts, d, d), (keys, d, a))
    return Weights(*(rng.integers(1, 1000, shape).astype(object) for shape in shapes))


def _rank(matrix: Any) -> int:
    return int(sympy.Matrix(matrix).rank()) if matrix.size else 0


@RAW_KEYS.check(
    "shared keys: explicit weights have that loss but for a stated excess; rational, d = 1..3",
    states=2,
    control=1,
    wrong="an excess that falls like 1 / beta",
    kind="exact",
)
def shared_keys_approach(power: int) -> bool:
    """The loss of `shared_key_weights` is the closed form and an excess that falls like beta^-power."""
    beta = Fraction(7, 2)
    for d, n, sigma in RATIONAL_TASKS[:3]:
        for a in range(d + 1):
            for heads in (1, 3):
                weights = shared_key_weights(d, n, sigma, rank=a, readers=heads, beta=beta)
                excess = shared_key_excess(d, n, sigma, rank=a, readers=heads, beta=beta) * beta ** (2 - power)
                loss = loss_at_entries(d, n, sigma, min(heads, a * d)) + excess
                if exact_loss(shared_key_heads(heads), d, n, sigma).value(weights) != loss:
                    return False
    return True


@RAW_KEYS.check(
    "shared keys: for their odd part, no W make the even part vanish; exact, random projections, d = 1..3",
    states=True,
    control=False,
    wrong="the even part forgotten",
    kind="exact",
)
def shared_keys_attain_nowhere(antisymmetric: bool) -> bool:
    """Show that the linear system of the proof has no solution, for V's of random whole numbers in R^d (x) row(A).

    R^h = V^h, and sum_h vec(L^h) vec(V^h)^T the projection on them, leave W^h_2 free; and sum_h W^h_ij V^h_kl
    antisymmetric in j, k has no solution.
    """
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
        equations = sigma + sigma.swapaxes(1, 2) if antisymmetric else 0 * sigma
        if _solvable([e for e in equations.ravel() if e != 0], [symbol for m in free for symbol in m]):
            return False
    return True


def _solvable(equations: list[Any], unknown: list[Any]) -> bool:
    """Return whether these linear expressions can all be zero at once."""
    if not equations or not unknown:
        return not equations
    return bool(sympy.linsolve(equations, unknown))


@RAW_KEYS.check(
    "residual keys: where MHA's numbers are blind, the realigned map has rank min(H, a^2); exact",
    states=lambda heads, a: min(heads, a * a),
    control=lambda heads, a: min(2 * heads, a * a),
    wrong="two for a head, as if its two keys counted",
    kind="exact",
)
def residual_rank_is(rank: Callable[[int, int], int]) -> bool:
    """Compare ranks on row(B)^perp (x) row(A), the part of S_yx that B S_yx A^T does not see.

    The map is realigned, for one to four heads with residual keys.
    """
    rng = np.random.default_rng(1)
    for d in (2, 3, 4):
        for a in range(1, d):
            for heads in (1, 2, 4):
                w = _random(rng, heads, 2 * heads, a=a, d=d)
                t = odd_map(w, residual_key_heads(heads)).reshape(d, d, d, d)
                blind = np.array(sympy.Matrix(w.b).nullspace()).reshape(a, d)
                on_blind = np.einsum("ijkl,pk,ql->ijpq", t, blind, w.a)
                if _rank(on_blind.transpose(0, 3, 2, 1).reshape(d * a, a * d)) != rank(heads, a):
                    return False
    return True


@RAW_KEYS.check(
    "residual keys: the excess of explicit weights falls like s^2; exact numbers, d = 2 and 3",
    states=0,
    control=1,
    wrong="one number more",
    kind="exact",
)
def residual_keys_approach(more: int) -> bool:
    """Check loss minus closed form, with `more` extra numbers: positive, and a hundredth at a tenth of s."""
    for (d, n, sigma), a, heads in ((RATIONAL_TASKS[1], 1, 1), (RATIONAL_TASKS[2], 1, 1), (RATIONAL_TASKS[2], 2, 2)):
        loss = exact_loss(residual_key_heads(heads), d, n, sigma)
        infimum = loss_at_entries(d, n, sigma, a * (d - a) + min(heads, a * a) + more)
        tries = [residual_key_weights(d, n, sigma, rank=a, readers=heads, s=Fraction(1, s)) for s in (1000, 10_000)]
        first, second = (loss.value(weights) - infimum for weights in tries)
        if not (first > 0 and 99 * second < first < 101 * second):
            return False
    return True


@RAW_KEYS.check(
    "exact minimisation with one to three heads ends on the closed forms and not below, d = 3",
    states=1.0,
    control=1.02,
    wrong="explained signal 2 % larger",
    kind="descent",
)
def minimiser_finds_raw_keys(factor: float) -> bool:
    """Compare the signal explained at exact minima with `factor` times the closed form.

    It may fall short by the slack, and exceed it by rounding.
    """
    d, n, sigma = task = (3, 8, 0.3)
    rho, zero = signal_share(*task), d**2 + d * sigma**2
    cases = [(shared_key_heads(h), a, min(h, a * d)) for h in (1, 2, 3) for a in (1, 2)]
    cases += [(residual_key_heads(h), a, entries) for h, a, entries in ((2, 1, d), (3, 1, d), (2, 3, 2), (1, 3, 1))]
    for heads, a, entries in cases:
        explained, most = explained_at_minimum(heads, d, n, sigma=sigma, a=a), rho * entries
        if not -EXACT_SLACK * most <= explained - factor * most <= ROUNDING * zero:
            return False
    return True
