"""The worth of a variant in width: the factor by which vanilla's tokens have to grow to explain as much.

Setting of `theory.toy.width`: the assumed copy, W0 = 0, tokens of m numbers, the best division of them.  Let v(w) be
the entries of W* that vanilla explains at width w, and e(m) a plan's at width m; both count in units of rho, so that
worth depends neither on n nor on sigma.

Worth.  w / m, w the least width with v(w) = e(m), where between whole widths v is a straight line in log w.

Theorem.
(1) v(w) = min(floor(w^2 / 4), d^2) at every whole w >= 1, below d too.  It grows from 1 to 2d, strictly, and then
    stays.  So the width for e entries, 0 < e <= d^2, is one: 2k for e = k^2 and 2k + 1 for e = k (k+1).
(2) A plan that explains all d^2 (SkipV1Former, ResFormer, SVFormer, any number of heads, any n and sigma) is worth
    max(1, 2d / m) at every m >= d: exactly 2 at m = d, and 1 from m = 2d on.
(3) Vanilla, and whatever explains as much (SkipV0, true cross-layer attention), is worth 1 at m <= 2d.  Beyond, where
    v is flat, we call worth 1 what explains all, as (2) does: vanilla need not grow.
(4) Keys of layer 1 alone, r of them (shared keys), explain min(r, d^2) at every m >= d.  For r >= d^2 that is (2).  For
    r < d^2 their worth falls like 1 / m, 2 k / m for r = k^2, and is below 1 where floor(m^2 / 4) > r, which at
    r = k (k+1) begins at m = 2k + 2, the second whole number beyond 2 sqrt(r).
A plan that explains nothing is worth 0, but where vanilla explains nothing either (m = 1).
Proof.  (1) For w >= d this is `theory.toy.width`.  Below d a read-in R: w x d loses part of the input, but the proof
there uses of u_t = (A x_t ; B y_t) only that A and B have a + b = w rows, which may be any that R leaves: with
R = (I_w 0), A its first a rows and B its last b.  P's odd part depends on B S_yx A^T, a b numbers at most, and one
ordinary head comes as near to that as one likes.  floor((w+1)^2 / 4) - floor(w^2 / 4) = floor((w+1) / 2) >= 1.
(2) to (4) insert e(m) from `theory.toy.width` and `theory.toy.raw_keys`, case (i), whose maximum is at a = d; for m up
to 2d, v(m) > r makes vanilla's width for r entries smaller than m, and beyond 2d it is below 2d.                  QED
"""

from __future__ import annotations

from math import exp, isqrt, log
from typing import NamedTuple

from theory.errors import BadInput, at_least, check_sizes
from theory.plans.heads import is_bound, toy_heads
from theory.plans.plan import Plan
from theory.toy.value_maps import needs_free_weights
from theory.toy.width import entry_bounds_at_width


class Bounds(NamedTuple):
    """Proved bounds of a number: it is at least `least` and at most `most`; they are equal where it is known."""

    least: float
    most: float


def vanilla_entries(d: int, width: int) -> int:
    """Return min(floor(w^2 / 4), d^2), the entries of W* that vanilla explains at any width w >= 1, in units of rho."""
    check_sizes(d, 1, 0)
    at_least("width", width, 1)
    return int(min(width * width // 4, d**2))


def equal_width(d: int, entries: float) -> float:
    """Return the least width at which vanilla explains `entries`, interpolated in log width; 0 for no entries.

    Raises BadInput for entries below 0 or above d^2.
    """
    check_sizes(d, 1, 0)
    if not 0 <= entries <= d**2:
        raise BadInput(f"of d^2 = {d**2} entries none can explain {entries}")
    if not entries:
        return 0.0
    below = isqrt(4 * int(entries) + 1)  # the most whole width with floor(w^2 / 4) <= int(entries)
    before = below * below // 4
    if before == entries:
        return float(below)
    part = (entries - before) / ((below + 1) // 2)
    return exp(log(below) + part * log((below + 1) / below))


def worth_at_width(plan: Plan, d: int, width: int) -> Bounds:
    """Return the worth of a two-layer plan at width m >= d, under the assumed copy.

    The bounds differ where its entries are not known.  Raises theory.plans.heads.NotCovered if the toy does not cover
    the plan, InvalidSize for sizes without meaning.
    """
    least, most = (worth_of_entries(d, width, entries) for entries in plan_entries(plan, d, width))
    return Bounds(least, most)


def worth_of_entries(d: int, width: int, entries: float) -> float:
    """Return the worth of explaining `entries` at this width: 1 where vanilla explains as many there."""
    return 1.0 if entries == vanilla_entries(d, width) else equal_width(d, entries) / width


def plan_entries(plan: Plan, d: int, width: int) -> Bounds:
    """Return the entries of W*, in units of rho, that the toy of a plan explains under the assumed copy.

    Raises as `worth_at_width`.
    """
    check_sizes(d, 1, 0)
    heads = toy_heads(plan)
    least, most = entry_bounds_at_width(heads, d, width)
    bound = is_bound(plan) and needs_free_weights(heads)
    return Bounds(0 if bound else least, most)
