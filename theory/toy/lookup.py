r"""Recall as a lookup: how wide the state must be from which a key and a value are both read.

In a lookup layer 1 copies the key of pair j to its value's token, whose state is then a_k + b_v: what is copied of key
k, and the token's own code of value v.  Layer 2 looks for a key there, and reads the value there.  Attention is hard: a
query of key k attends where q_k is largest, and value v is answered if u_v is largest.  So of the sets A = {a_k} and
B = {b_v} is asked, whatever else stands at the token,

    q_k(a_k - a_k') > width of B along q_k   for all k' != k,           (keys are told apart)
    u_v(b_v - b_v') > width of A along u_v   for all v' != v,           (values are told apart)

the width of a set along a functional being the largest difference of its values on the set.

**Theorem.** If both hold, keys are two or more and values are two or more, then the state is at least d(K) + d(V) wide,
where d is 1 of two and 2 of three or more.

*Proof.* Of more than three keys or values take three: widths only get smaller.  Three points that are told apart are
no three on a line, as the one between the others has the larger value of no functional; so conv A and conv B are
triangles or segments, d(K) and d(V) dimensions.  It is to be shown that span(A - A) and span(B - B) meet in zero
alone.  Let n lie in both.  Take the longest chords of conv A and of conv B along n, and let that of A be no longer
than that of B (else exchange the two).  Of a longest chord of a triangle or segment one end can be a vertex a_k, and
the other is a point p of conv(A - {a_k}), as otherwise it could be made longer.  So a_k - p is a convex combination
of the a_k - a_k', and q_k(a_k - p) is more than the width of B along q_k.  But a_k - p is at most as long as a chord
x - y of conv B along n, so q_k(a_k - p) <= |q_k(x - y)|, which is at most that width.  Contradiction.

So **three or more keys and values need width 4**, and 4 is enough for any number: two circles, in planes of their own.

**Where layer 2 reads layer 1's values, 2 are enough.**  The value is then read from b_v alone, and only keys must be
told apart beside values: one circle for both, keys copied large.  So in a lookup a value skip is worth twice vanilla's
width, as in the toy (`theory.toy.worth`), if weights may be as large as one likes; how much of it training finds is
another question.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # one a row


def told_apart(points: Points, others: Points) -> bool:
    """Return whether each of the points can be told apart, whichever of the others is added to it.

    A linear program per point finds a functional along which it exceeds all other points by one more than the others'
    width.

    Args:
        points: (count, width).
        others: (count, width); one alone makes no difference.
    """
    from scipy.optimize import linprog

    count, width = points.shape
    if count == 1:
        return True
    for i in range(count):
        # of the functional and its largest and least values on the others
        above = np.hstack([np.delete(points, i, 0) - points[i], np.ones((count - 1, 1)), -np.ones((count - 1, 1))])
        largest = np.hstack([others, -np.ones((len(others), 1)), np.zeros((len(others), 1))])
        least = np.hstack([-others, np.zeros((len(others), 1)), np.ones((len(others), 1))])
        most = np.concatenate([-np.ones(count - 1), np.zeros(2 * len(others))])
        found = linprog(
            np.zeros(width + 2), A_ub=np.vstack([above, largest, least]), b_ub=most, bounds=[(None, None)] * (width + 2)
        )
        if not found.success:
            return False
    return True


def least_width(keys: int, values: int, *, skip: bool) -> int:
    """Return the least width of a state that serves as a lookup, for two or more keys and values.

    Args:
        keys: Keys to tell apart.
        values: Values to tell apart.
        skip: Whether layer 2 reads layer 1's values, which hold nothing of keys.
    """
    of_keys, of_values = (1 if count == 2 else 2 for count in (keys, values))
    return max(of_keys, of_values) if skip else of_keys + of_values


def circle(count: int) -> Points:
    """Return `count` points in convex position, in two dimensions, or in one for two points: (count, 2 or 1)."""
    if count == 2:
        return np.array([[-1.0], [1.0]])
    angles = 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def codes(keys: int, values: int, *, skip: bool) -> tuple[Points, Points]:
    """Return copied keys and own values, as narrow as `least_width` says: (keys, width), (values, width).

    With a skip they share a circle, and keys are copied so large that values do not matter beside them.
    """
    a, b = circle(keys), circle(values)
    if not skip:
        return np.hstack([a, np.zeros((keys, b.shape[1]))]), np.hstack([np.zeros((values, a.shape[1])), b])
    width = max(a.shape[1], b.shape[1])
    a, b = (np.hstack([x, np.zeros((len(x), width - x.shape[1]))]) for x in (a, b))
    return keys**2 * a, b
