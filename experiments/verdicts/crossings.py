"""Sizes at which a share is reached, known between two sizes that were trained, and bounded outside of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple


class Crossing(NamedTuple):
    """The least and the largest that a size can be; equal where it is known."""

    least: float
    most: float

    @property
    def known(self) -> bool:
        return self.least == self.most


def crossing(shares: Mapping[int, float], reached: float) -> Crossing:
    """Return the least size at which so large a share is reached.

    Args:
        shares: By size, the smallest first.  Between two sizes a share is a straight line in the logarithm of the size.
        reached: The share to be reached.
    """
    (first, share), *_ = shares.items()
    if share >= reached:
        return Crossing(0.0, float(first))
    for (small, below), (large, above) in pairwise(shares.items()):
        if above >= reached:
            size = small * (large / small) ** ((reached - below) / (above - below))
            return Crossing(size, size)
    return Crossing(float(max(shares)), math.inf)


def octaves(own: Crossing, other: Crossing, apart: float) -> float:
    """Return log2 of the other's size over the own.

    Where one lies outside the sizes that were trained: how much it is at least, if that is more than `apart`, or at
    most, if that is less than -apart; otherwise NaN.
    """
    least = math.log2(other.least / own.most) if other.least and math.isfinite(own.most) else -math.inf
    most = math.log2(other.most / own.least) if own.least else math.inf
    if least == most or least > apart:
        return least
    return most if most < -apart else math.nan
