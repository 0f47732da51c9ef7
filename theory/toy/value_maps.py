"""The lowest loss that the assumed-copy toy of any two-layer plan can reach, at W0 = 0.

Setting and notation of `theory.skipv1.gap`.  A head of layer 2 attends over pairs of a value and a key, each *copied*
(TF_1(E), where y_t's token holds u_t) or *raw* (E, where it holds y_t); see `theory.plans.heads`.  A pair contributes
W [S_xx + sum_t value_t key_t^T] R, where R = K A, or any matrix where the query is raw.

Theorem.  With any number of heads, inf L(a) is
    d^2 + d sigma^2 - rho a d         if some raw value has a copied key (SkipV1Former, ResFormer, SVFormer),
    d^2 + d sigma^2 - rho a (d - a)   if no pair mixes the two, but some copied value has a copied key (MHA, SkipV0,
                                      true cross-layer attention, SkipKV1Former),
    d^2 + d sigma^2                   if all pairs are a raw value with a raw key (sharing both, as CLA does).
Terms beside the attention change none of these.

Proof.  The sign flip of (W*, noise) and the rank argument of `theory.skipv1.gap`, (1) to (3), hold for any P.  The odd
part of P depends on S_yx through
    copied value, copied key    B S_yx A^T and its transpose,               a (d - a) numbers,
    raw value, copied key       S_yx A^T, of which those are functions,     a d numbers,
    copied value, raw key       A S_xy, the transpose of that,              the same a d numbers,
    raw value, raw key          nothing: S_xx + S_yy is even,
whatever R is, so its rank as a function of S_yx is at most that, which is the lower bound.  A term beside the attention
adds to P a matrix C that does not depend on the prompt; that is even, and an even part only hurts.
    For the upper bounds one head suffices; all others are silenced by their output, all other pairs of it by their V
or K.  MHA's bound is approached by one ordinary head (`theory.skipv1.gap`, (6)).  For the first bound a raw value with
a copied key, A = beta (I_a 0), B = 0, K = (I ; 0), W = lambda / beta^2 I, gives P = lambda S_yx Pi +
(lambda / beta) S_xx Pi, Pi the projection on the first a coordinates: the bound and lambda^2 a n (n + d + 1) / beta^2.
A C beside it is made from the same W = O V; W / c with c K leaves the attention as it is and takes C to C / c.
    If a copied value has the same key, it reads (I + Pi) S_xx Pi at A = (I_a 0), B = 0, and its own readout
W_1 = -lambda (I + Pi)^{-1} cancels the even part: the bound is attained, and one ResFormer head suffices.
    If every pair is a raw value with a copied key, it is not attained for a >= 1.  P_even = 0 for all S_xx says that
tau_{ijkl} = sum_h W^h_ij (K^h A)_kl is antisymmetric in j, k.  The bound asks sum_{k <= a} tau_{ijkl} A_km =
lambda delta_ij Pi'_ml for a projection Pi' of rank a; so, A having full row rank, tau_{ijkl} = delta_ij N_kl for k <= a
with N of rank a.  But tau_{jjjl} = 0, so N = 0.                                                                QED

What a copied value with a raw key is worth without the help of a raw value with a copied key depends on the number of
heads: `theory.toy.raw_keys`.  Where that leaves an entry open, `optimum` minimises the exact loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from theory.errors import InvalidSize, check_sizes
from theory.plans.heads import Heads, NotCovered, is_bound, toy_heads
from theory.plans.plan import Plan
from theory.prompts.setting import signal_share, zero_loss
from theory.toy import raw_keys
from theory.toy.raw_keys import COPIED, RAW

LARGEST_MINIMISED = 10  # of d: an exact minimisation then takes about a minute
MOST_MINIMISED = 800  # of heads d^2, likewise
STARTS, AROUND = 12, 48  # around W0 != 0 more, as there are many local minima; then only FINISHED go on to their end
FINISHED = 6


@dataclass(frozen=True)
class Optimum:
    """The lowest loss of a plan's toy, in squared units of y summed over its d entries.

    attained    whether weights reach it (None: not known); otherwise it is an infimum
    method      closed form, or exact minimisation: then `loss` is an upper bound on the infimum, the lowest of
                `finished` descents, those that were lowest of `starts`, and `agreeing` of them ended there
    beyond_two_layers   what the variant changes in deeper models and not in two layers, such as "values from layer 3
                on", of which the loss says nothing; empty: nothing; None: not known, as where a plan itself was given
    """

    loss: float
    explained: float
    attained: bool | None
    method: str
    starts: int = 0
    finished: int = 0
    agreeing: int = 0
    beyond_two_layers: tuple[str, ...] | None = field(default=None, compare=False)


def optimum(plan: Plan, d: int, n: int, sigma: float, rank: int) -> Optimum:
    """Return the optimum of a two-layer plan at one task and rank.

    It is the closed form or, where there is none, `optimum_by_descent`.

    Raises:
        NotCovered: if the toy does not cover the plan.
        InvalidSize: for sizes without meaning or too large.
    """
    return closed_form(plan, d, n, sigma=sigma, rank=rank) or optimum_by_descent(plan, d, n, sigma=sigma, rank=rank)


def closed_form(plan: Plan, d: int, n: int, sigma: float, rank: int) -> Optimum | None:
    """Return the theorem's number, or None where it has none.  Raises as `optimum`."""
    check_sizes(d, n, sigma, rank)
    heads = toy_heads(plan)
    share = explained_entries(heads, d, rank)
    if share is None or (is_bound(plan) and needs_free_weights(heads)):
        return None
    explained = signal_share(d, n, sigma) * share
    attained = True if share == 0 else _attained(heads, free=not (_has_beside(plan) or is_bound(plan)))
    return Optimum(zero_loss(d, n, sigma) - explained, explained, attained, "closed form")


def optimum_by_descent(
    plan: Plan,
    d: int,
    n: int,
    sigma: float,
    rank: int,
    *,
    starts: int | None = None,
    law: Mapping[str, Any] | None = None,
    after_start: Callable[[int, float], None] | None = None,
) -> Optimum:
    """Return the lowest of `starts` exact descents, by default as many as `descents(law)` says.

    after_start: as in `theory.toy.minimise`.
    law: what else `PromptMoments` takes, such as w0; here nothing needs W0 = 0.  Raises as `optimum`.
    """
    heads = toy_heads(plan)
    if _has_beside(plan):
        raise NotCovered("terms beside the attention are proved harmless only where the optimum has a closed form")
    if is_bound(plan):
        raise NotCovered("two heads of this plan share several projections, which binds their weights to each other")
    if any(term.source.layer == 1 for head in plan.table[1] for term in head.query.terms):
        raise NotCovered("with raw keys and a query from layer 1, the toy's loss is not worked out")
    if d > LARGEST_MINIMISED:
        raise InvalidSize(f"this plan's optimum has no closed form, and minimising it takes d <= {LARGEST_MINIMISED}")
    if len(heads) * d**2 > MOST_MINIMISED:
        raise InvalidSize(f"minimising takes heads d^2 <= {MOST_MINIMISED}, and this plan has {len(heads)} at d = {d}")
    from theory.prompts.moments import PromptMoments
    from theory.toy.minimise import minimise
    from theory.toy.population import PopulationLoss

    loss = PopulationLoss(PromptMoments(d, n, sigma, **(law or {})), heads)
    begun, finished = descents(law)
    found = minimise(loss, rank, starts=starts or begun, finished=finished, after_start=after_start)
    counts = found.starts, found.finished, found.agreeing
    return Optimum(found.value, float(loss.zero_loss) - found.value, None, "exact minimisation", *counts)


def descents(law: Mapping[str, Any] | None) -> tuple[int, int | None]:
    """Return how many descents are begun under this law by default, and how many, the lowest, are finished; None:
    all."""
    return (AROUND, FINISHED) if "w0" in (law or {}) else (STARTS, None)


def _has_beside(plan: Plan) -> bool:
    return any(head.beside.terms for head in plan.table[1])


def explained_entries(heads: Heads, d: int, rank: int, rows: int | None = None) -> int | None:
    """Return the number of entries of W* that are explained, in units of rho; None without a closed form.

    rows: of B, d - rank unless tokens have another width than d; see `theory.toy.width`.
    """
    least, most = explained_entry_bounds(heads, d, rank, rows)
    return most if least == most else None


def explained_entry_bounds(heads: Heads, d: int, rank: int, rows: int | None = None) -> tuple[int, int]:
    """Return the least and the most that `explained_entries` can be.

    They differ only where a copied value has a raw key.
    """
    pairs = _pairs(heads)
    if (RAW, COPIED) in pairs:
        return (rank * d,) * 2
    if (COPIED, RAW) in pairs:
        return raw_keys.raw_key_bounds(heads, d, rank, rows) or (0, rank * d)
    return (rank * (d - rank if rows is None else rows) if (COPIED, COPIED) in pairs else 0,) * 2


def needs_free_weights(heads: Heads) -> bool:
    """Return whether the closed form needs several heads to work together.

    Then it holds only if nothing binds their weights.
    """
    pairs = _pairs(heads)
    return (COPIED, RAW) in pairs and (RAW, COPIED) not in pairs


def _pairs(heads: Heads) -> set[tuple[bool, bool]]:
    """Return which kinds of value meet which kinds of key."""
    return {(bool(head.raw), bool(head.key_raw)) for head in heads}


def _attained(heads: Heads, *, free: bool) -> bool | None:
    """Return whether weights reach a nonzero closed form; `free`: nothing binds the weights of the pairs."""
    pairs = _pairs(heads)
    if {(RAW, COPIED), (COPIED, COPIED)} <= pairs:
        return True if free else None
    return False if len(pairs) == 1 else None
