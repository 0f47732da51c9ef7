"""The assumed-copy toy with tokens wider, or narrower, than the task: an embedding of width m.

The theorem of `theory.toy.value_maps` gives the token of y_t exactly d numbers, to be divided between x_t and y_t.  A
model that reads its input into an embedding of width m has m of them: u_t = (A x_t ; B y_t) with A: a x d, B: b x d and
a + b = m.  Raw tokens are read in without loss where m >= d.

Theorem.  At W0 = 0, with any number of heads and the best division a + b = m >= d, the entries of W* that can be
explained, in units of rho = n / (n + d + 1 + sigma^2), are
    d^2                                if some raw value has a copied key (SkipV1Former, ResFormer, SVFormer),
    max over a + b = m of min(a, d) min(b, d) = floor(m/2) ceil(m/2) for m <= 2d, d^2 beyond
                                       if no pair mixes the two, but some copied value has a copied key (MHA, SkipV0),
    max over a + b = m                 of the entries of `theory.toy.raw_keys` if a copied value has a raw key,
    0                                  if all pairs are a raw value with a raw key.

Proof.  That of `theory.toy.value_maps` uses d - a only as the number of rows of B.  With b rows, of which at most
min(b, d) are independent, the odd part of P depends on B S_yx A^T alone: min(a, d) min(b, d) numbers, or on S_yx A^T:
min(a, d) d numbers.  The upper bounds are those of that theorem with B' = beta (I 0) of min(b, d) rows; rows beyond d
add nothing and may be zero.  Over a + b = m the product is largest at the middle, and for raw values at a = d.     QED

So the toy predicts that what reaching back to layer 1 wins shrinks as the embedding grows, and is nothing from m = 2d
on: there both numbers fit side by side, and nothing needs compression.  That is a prediction for tokens u_t of this
form, one for a pair.  A first layer that sees positions may write a pair into both of its tokens; with enough heads MHA
then needs 2d - 1 numbers at most (`theory.toy.least_width`).
"""

from __future__ import annotations

from theory.errors import InvalidSize, check_sizes
from theory.plans.heads import Heads, is_bound, toy_heads
from theory.plans.plan import Plan
from theory.prompts.setting import signal_share
from theory.toy.value_maps import explained_entry_bounds, needs_free_weights


def most_entries_at_width(heads: Heads, d: int, width: int) -> int | None:
    """Return how many of W*'s d^2 entries an embedding of `width` lets the heads explain; None: not known.

    They count in units of rho.  Raises InvalidSize for a width below d, which loses part of the input.
    """
    least, most = entry_bounds_at_width(heads, d, width)
    return most if least == most else None


def entry_bounds_at_width(heads: Heads, d: int, width: int) -> tuple[int, int]:
    """Return the least and the most that `most_entries_at_width` can be.  Raises InvalidSize for a width below d."""
    if isinstance(width, bool) or not isinstance(width, int) or width < d:
        raise InvalidSize(f"width must be a whole number from d = {d}, got {width!r}")
    divisions = ((min(a, d), min(width - a, d)) for a in range(width + 1))
    least, most = zip(*(explained_entry_bounds(heads, d, rank, rows) for rank, rows in divisions), strict=True)
    return max(least), max(most)


def explained_share_at_width(plan: Plan, d: int, n: int, sigma: float, width: int) -> float | None:
    """Return the share of E ||W*||^2 = d^2 that the toy of a two-layer plan explains at most, at the best rank.

    Raises theory.plans.heads.NotCovered if the toy does not cover the plan, InvalidSize for sizes without meaning.
    """
    check_sizes(d, n, sigma)
    heads = toy_heads(plan)
    entries = most_entries_at_width(heads, d, width)
    if entries is None or (is_bound(plan) and needs_free_weights(heads)):
        return None
    return signal_share(d, n, sigma) * entries / d**2
