"""Proved bounds on the entries of W* that a two-layer plan explains if its first layer is trained.

Setting of `theory.toy.positions`: linear attention, W0 = 0, tokens of m numbers, layer 1's scores of positions alone,
heads as wide as tokens.  `First` says what layer 2 reads:
    assumed         the assumed copy alone (`theory.toy.width`), where all is known
    positions       what layer 1 puts out
    residual        that and the embedding, as in a residual stream (`theory.toy.mixed_tokens`)
    copy-residual   the assumed copy and the embedding
All of it is in units of rho = n / (n + d + 1 + sigma^2), and an upper bound is one on suprema.  With scores of contents
in layer 1 the lower bounds hold still, and of the upper ones only that of the Bayes posterior mean
(`theory.toy.content_scores` exceeds others).  Layer 2 hides the
query from itself, as SkipV1Former's mask does.  Where it sees itself, the lower bounds of a trained layer 1 hold still,
since a query scaled down by c adds a term that is c^2 times smaller; an assumed copy does not let it be scaled.  The
upper ones do, but for the half entry of (2), if the query's token holds nothing of the context: what the query adds is
an even term, which may take the mean off as a constant does.

What holds, m >= d, for the last three of these.
(1) If some raw value has a copied key, all d^2 are explained: layer 1 copies by one head, x_t into y_t's token, and
    keeps the query.  (It clears what else a residual stream holds; beside an assumed copy A is as large as one likes.)
(2) If all pairs are an ordinary head's, at least the most of
        floor(m/2) ceil(m/2)           by copying,
        theory.toy.mixed_tokens        from m = d on, by one head of layer 2 or by m d,
        d^2/4 + d/2                    at even d, by rotating (`theory.toy.positions`),
        d^2 - h (h-1)                  from m = 2d - h on, by hiding (`theory.toy.least_width`),
        d^2                            from `theory.toy.generic_tokens` on, for d <= 16,
    and at most min(d^2, m (m+1) / 2 - 1/2), or without the half where a residual stream adds a constant.
    The last three write a pair into both of its tokens.  A causal layer can not: x_t sees no y_t.  But x_{t+1} does, so
    that all pairs but the last have two tokens, and with n - 1 pairs this explains rho_{n-1} of each entry.
(3) If all pairs are a copied value with a raw key and layer 1 is causal, r readers explain min(r, d^2), at one head in
    layer 1, and no more; if not causal, one explains all d^2.
    Proof.  Causal, f of an x token holds nothing of its pair's y, so that the part of sum f_t e_t^T that meets W* is
    sum_t A_t x_t y_t^T.  What of P lies in the span of S_yx is that of the mean of all A_t, sum_h W_h A S_xy R_h, which
    `theory.toy.raw_keys`, case (i), bounds; with A = I in y's tokens and nothing in x's there is no even part.  Not
    causal, let x_t's token hold y_t, and y_t's nothing.
(4) If such pairs stand beside ordinary heads, what either of them explains is a lower bound.
(5) Raw values with raw keys explain nothing, and beside ordinary heads leave (2) but for its half entry.
(6) Attention over depth whose weights do not depend on the token, as AttnRes at zero queries, is a residual stream;
    else only the lower bounds hold.
Two heads in each layer, all that is proved of MHA, `counted`: copying, rotating, one mixed head, and hiding nowhere, as
it takes four in layer 1.  At d = 2, n = 8, sigma = 0.1, not causal, m = 2 and 3: from 2 and 2.51 entries to 2.5 and 4,
and with a residual stream from 2.00 and 3.02 to 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import exp, inf, log
from typing import Any, Literal, get_args

from theory.errors import InvalidSize, at_least, check_sizes
from theory.plans.depth import Chain, DepthAttention, DepthAverage, Residual
from theory.plans.heads import Heads, NotCovered, is_bound, toy_heads
from theory.plans.plan import Plan
from theory.prompts.regression import ridge, zero
from theory.prompts.setting import signal_share
from theory.toy.generic_tokens import LARGEST_CHECKED, generic_width
from theory.toy.least_width import hidden_entries
from theory.toy.mixed_tokens import BESIDE_COPY, best_of_one_head, mixed_entries
from theory.toy.raw_keys import COPIED, RAW, key_kinds
from theory.toy.value_maps import needs_free_weights
from theory.toy.worth import Bounds, plan_entries

First = Literal["assumed", "positions", "residual", "copy-residual"]


def entry_bounds(
    plan: Plan,
    d: int,
    n: int,
    sigma: float,
    width: int,
    first: First = "positions",
    *,
    causal: bool = True,
    counted: bool = False,
) -> Bounds:
    """Return proved bounds on the entries of W* that a two-layer plan explains at best, in units of rho; inf: none.

    causal   whether layer 1 is
    counted  with as many heads in each layer as the plan has, in layer 2 of the kind; else with as many as it takes

    Raises theory.plans.heads.NotCovered for a plan without meaning there, InvalidSize for a width below d and for a
    first layer of another name.
    """
    check_sizes(d, n, sigma)
    at_least("width", width, d)
    if first not in get_args(First):
        raise InvalidSize(f"the first layer must be one of {', '.join(get_args(First))}, got {first!r}")
    if first == "assumed":
        return plan_entries(plan, d, width)
    depth = plan.depth
    if first == "positions" and isinstance(depth, DepthAttention):
        raise NotCovered("attention over depth reads the embedding: without a residual stream it has no meaning")
    if not isinstance(depth, Residual | Chain | DepthAverage | DepthAttention):
        raise NotCovered("the toy's second layer reads a sum of outputs: streams and other rules have no meaning there")
    heads = toy_heads(replace(plan, depth=Residual()))
    constant = not isinstance(depth, DepthAttention) or depth.query == "static"
    count = _count(plan, heads) if counted else None
    bound = is_bound(plan) and needs_free_weights(heads)
    least = 0.0 if bound else _least(heads, d, n, sigma=sigma, width=width, first=first, causal=causal, count=count)
    return Bounds(least, _most(heads, d, width, first, causal=causal) if constant else inf)


def share_bounds(
    plan: Plan,
    d: int,
    n: int,
    sigma: float,
    width: int,
    first: First = "positions",
    *,
    causal: bool = True,
    counted: bool = False,
) -> Bounds:
    """Return `entry_bounds` as shares of E ||W*||^2 = d^2; `bayes_share` where nothing else bounds them.

    Raises as `entry_bounds`.
    """
    bounds = entry_bounds(plan, d, n, sigma=sigma, width=width, first=first, causal=causal, counted=counted)
    rho = float(signal_share(d, n, sigma))
    least, most = (float(entries) * rho / d**2 for entries in bounds)
    return Bounds(least, most if most < inf else bayes_share(d, n, sigma))


def bayes_share(d: int, n: int, sigma: float) -> float:
    """Return the share that no model exceeds: that of the posterior mean.

    It has the sampling error of `regression.ridge`.
    """
    return 1 - (ridge(d, n, sigma).value - float(zero(d, sigma)) + d**2) / d**2


def worth_bounds(
    plan: Plan,
    vanilla: Plan,
    d: int,
    n: int,
    sigma: float,
    width: int,
    first: First = "positions",
    *,
    causal: bool = True,
    counted: bool = False,
) -> Bounds:
    """Return bounds on the worth of a plan at a width, as in `theory.toy.worth`.

    Worth is vanilla's width for as many entries, over this width.  Between whole widths vanilla is a straight line in
    log width.  Below d it is bounded as in (2), by copying and by m (m+1) / 2, since neither needs more of the
    read-in.  The bounds are 0 and inf where nothing is proved.  Raises as `entry_bounds`.
    """

    def bounds(of: Plan, at: int) -> Bounds:
        return entry_bounds(of, d, n, sigma=sigma, width=at, first=first, causal=causal, counted=counted)

    own = bounds(plan, width)
    if plan == vanilla:
        return Bounds(1.0, 1.0)
    heads = toy_heads(replace(vanilla, depth=Residual()))
    count = _count(vanilla, heads) if counted else None
    curve = {w: bounds(vanilla, w) for w in range(d, max(2 * d, width) + 1)}
    below = {
        w: Bounds(
            vanilla_least(d, n, sigma, width=w, first=first, causal=causal, count=count),
            _most(heads, d, w, first, causal=causal),
        )
        for w in range(1, d)
    }
    curve = {**below, **curve}
    least = _worth({w: b.most for w, b in curve.items()}, own.least, width)
    return Bounds(least, _worth({w: b.least for w, b in curve.items()}, own.most, width))


def _worth(curve: dict[int, float], entries: float, width: int) -> float:
    """Return the worth: 1 where the curve holds as many entries at this width, 0 where its first width holds more."""
    if entries == curve[width]:
        return 1.0
    return 0.0 if entries <= curve[1] else _crossing(sorted(curve.items()), entries) / width


def _crossing(curve: list[tuple[int, float]], entries: float) -> float:
    """Return the least width at which a curve that never falls reaches `entries`; inf if it does not."""
    for (w, before), (_, after) in pairwise(curve):
        if after >= entries:
            return exp(log(w) + float(entries - before) / float(after - before) * log((w + 1) / w))
    return inf


def _count(plan: Plan, heads: Heads) -> tuple[int, int]:
    """Return the heads of layer 1, and the ordinary ones of layer 2.

    SkipV0 has fewer there, and SkipKV1Former's others are raw.
    """
    pairs = [head for head in heads if not head.raw and not head.key_raw]
    ordinary = {pair.readout[0] for pair in pairs if isinstance(pair.readout, tuple)}  # (head, value): `toy_heads`
    return len(plan.live(1)), len(ordinary)


def _pairs(heads: Heads) -> set[tuple[bool, bool]]:
    return {(bool(head.raw), bool(head.key_raw)) for head in heads}


def _least(
    heads: Heads, d: int, n: int, sigma: float, width: int, first: First, *, causal: bool, count: tuple[int, int] | None
) -> float:
    pairs = _pairs(heads)
    if (RAW, COPIED) in pairs:
        return d**2
    found = [0.0]
    if (COPIED, COPIED) in pairs:
        found.append(vanilla_least(d, n, sigma, width=width, first=first, causal=causal, count=count))
    if (COPIED, RAW) in pairs and (readers := key_kinds(heads)) is not None:
        reading = sum(RAW in kinds for kinds in readers)
        found.append(min(reading, d**2) if causal or first == "copy-residual" else d**2)
    return max(found)


def _most(heads: Heads, d: int, width: int, first: First, *, causal: bool) -> Any:
    pairs, forms = _pairs(heads), width * (width + 1) // 2
    readers = key_kinds(heads)
    if pairs == {(COPIED, COPIED)}:
        return min(d**2, forms if first != "positions" else forms - Fraction(1, 2))
    if pairs == {(RAW, RAW)}:
        return 0
    if pairs <= {(COPIED, COPIED), (RAW, RAW)}:
        return min(d**2, forms)
    if pairs == {(COPIED, RAW)} and readers is not None and (causal or first == "copy-residual"):
        return min(len(readers), d**2)
    return d**2


@lru_cache(maxsize=4096)
def vanilla_least(
    d: int, n: int, sigma: float, width: int, first: First, *, causal: bool = True, count: tuple[int, int] | None = None
) -> float:
    """Return the entries that vanilla explains at least, by (2).

    `count` holds the heads of layer 1 and the ordinary ones of layer 2; None: as many as it takes.
    """
    return max(0.0, *_constructions(d, n, sigma, width=min(width, 2 * d), first=first, causal=causal, count=count))


def _constructions(
    d: int, n: int, sigma: float, width: int, first: First, *, causal: bool, count: tuple[int, int] | None
) -> Iterator[float]:
    stream, free = first != "positions", first != "copy-residual"
    tau = 0 if free else BESIDE_COPY

    def enough(of_first: int, of_second: int) -> bool:
        return count is None or (count[1] >= of_second and (count[0] >= of_first or not free))

    if enough(1 if stream else 2, 1):
        yield float(width * width // 4)
    for w in range(d, min(width, 2 * d - 1) + 1):
        if enough(2, w * d):
            yield float(mixed_entries(d, n, sigma, w, tau=tau, constant=stream))
        if enough(1 if w == d else 2, 1):
            yield best_of_one_head(d, n, sigma, w, tau=tau, constant=stream)
    if not free or (causal and n == 1):
        return
    kept = float(signal_share(d, n - 1, sigma) / signal_share(d, n, sigma)) if causal else 1.0
    if d % 2 == 0 and width >= d and enough(2, 2):
        yield kept * (d**2 // 4 + d // 2)
    for h in range(max(1, 2 * d - width), (1 if d % 2 else d // 2) + 1):
        if d >= 2 and enough(4 + stream, 6 if d % 2 else 2 if h == d // 2 else 3):
            yield kept * hidden_entries(d, h)
    if d <= LARGEST_CHECKED and width >= generic_width(d) and enough(4 + stream, generic_width(d) * d):
        yield kept * d**2
