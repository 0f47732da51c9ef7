"""Value-state drains where heads attend over own v_n + first v_1: the part of a drain that remains visible.

A token's value drains where it is much shorter than the other tokens' (sections 4.5 and A.2, Figs. 10 and 19): r_n is
its length over theirs, all equal, for what layer n itself projects, r_1 that in layer 1, and c how much longer the
others' are in layer n than in layer 1.  Heads attend over a = own v_n + first v_1, own and first >= 0 and not both 0.

 (a) |a| >= |first |v_1| - own |v_n||, with equality where the two point in opposite directions.
 (b) Where v_n and v_1 are at right angles for every token, the drain that is seen is
         sqrt((own^2 c^2 r_n^2 + first^2 r_1^2) / (own^2 c^2 + first^2)).
So where layer n's own value drains to nothing, r_n = 0, and layer 1's does not, r_1 = 1, at own = first and c = 1 what
is seen is 1 / sqrt 2 = 0.71 - about the 0.7 that appendix A.2 reports of ResFormer.  That number does not tell whether
layers have ceased to drain values; and as c grows the drain is seen again.
Proof.  (a) is the triangle inequality, (b) Pythagoras'.                                                           QED
"""

from __future__ import annotations


def least_attended(own_length: float, first_length: float, own: float = 0.5, first: float = 0.5) -> float:
    """Return the least length of own v_n + first v_1, given the lengths of v_n and v_1, in their unit; (a)."""
    return abs(first * first_length - own * own_length)


def seen_drain(own_ratio: float, first_ratio: float, size: float, own: float = 0.5, first: float = 0.5) -> float:
    """Return (b), from r_n, r_1 and c: a token's length over the others' of what heads attend over, at right angles."""
    of_own, of_first = (own * size) ** 2, first**2
    return float(((of_own * own_ratio**2 + of_first * first_ratio**2) / (of_own + of_first)) ** 0.5)
