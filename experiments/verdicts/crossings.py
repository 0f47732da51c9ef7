"""When one curve passes another for good, where it may be that it does so before the first point or after the last.

A time is a float: -inf for before all points, inf for after them.  Neither says when, so two of the same are not told
apart, and whatever is measured at both is tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from math import inf, isfinite

import numpy as np

from experiments.verdicts.orders import convolved, tail, widest_by_chance


@dataclass(frozen=True)
class Crossing:
    """Where the difference of two curves changes from below zero to above.

    first    -inf if it never lies below zero, inf if it never comes from below to above
    last     after which it stays above; -inf if it never lies below, inf if it is not above at the last point
    changes  of its sign, in either direction
    """

    first: float
    last: float
    changes: int

    @property
    def seen(self) -> bool:
        """Whether the last change, for good, lies among the points."""
        return isfinite(self.last)


UNKNOWN = Crossing(-inf, inf, 0)  # of curves that are not there: neither before nor after any other


def crossing(times: Sequence[float], differences: Sequence[float]) -> Crossing:
    """Of the curve that joins the points by straight lines.  A point at zero belongs to what was before it.

    Raises ValueError for fewer than two points, times that do not rise, and numbers that are none.
    """
    t, d = np.asarray(times, float), np.asarray(differences, float)
    if t.shape != d.shape or t.ndim != 1 or len(t) < 2 or not np.isfinite([t, d]).all() or (np.diff(t) <= 0).any():
        raise ValueError("a crossing needs two or more finite differences, one at each of rising times")
    signed = [i for i in range(len(d)) if d[i] != 0]
    turns = [j for i, j in pairwise(signed) if d[i] * d[j] < 0]
    ups = [float(t[j - 1] + (t[j] - t[j - 1]) * d[j - 1] / (d[j - 1] - d[j])) for j in turns if d[j] > 0]
    above = bool(signed) and d[signed[-1]] > 0
    if above and not ups:
        return Crossing(-inf, -inf, 0)
    return Crossing(ups[0] if ups else inf, ups[-1] if above else inf, len(turns))


def smoothed(times: Sequence[float], values: Sequence[float], width: int) -> tuple[list[float], list[float]]:
    """Means over `width` points in a row, at the mean of their times; over all, where there are fewer."""
    width = min(width, len(values))
    kernel = np.ones(width) / width
    t, v = (np.convolve(np.asarray(x, float), kernel, "valid").tolist() for x in (times, values))
    return t, v


def sign(a: Crossing, b: Crossing) -> int:
    """1 where b is later than a, -1 where it is earlier, 0 where their spans from first to last touch."""
    return int(a.last < b.first) - int(b.last < a.first)


@dataclass(frozen=True)
class Trend:
    """Do crossings come later from one place to the next?  Pairs in which they do, less pairs in which they come
    earlier, of all seeds; and how that is distributed if each seed's crossings lie in a random order."""

    balance: int
    pairs: int
    chance: dict[int, float]

    @property
    def p(self) -> float:
        """Two-sided: of a balance as far from zero."""
        return min(1.0, 2 * tail(self.chance, abs(self.balance)))

    def widest_by_chance(self, level: float) -> int:
        return widest_by_chance(self.chance, level)


def trend(seeds: Sequence[Sequence[Crossing]]) -> Trend:
    """From every seed's crossings, place by place.  Exact: all orders of each seed's are counted, so a few places."""
    chances = []
    for of_seed in seeds:
        orders = [_balance(order) for order in permutations(of_seed)]
        chances.append({balance: orders.count(balance) / len(orders) for balance in sorted(set(orders))})
    pairs = sum(len(s) * (len(s) - 1) // 2 for s in seeds)
    return Trend(sum(map(_balance, seeds)), pairs, convolved(chances))


def _balance(places: Sequence[Crossing]) -> int:
    return sum(sign(a, b) for i, a in enumerate(places) for b in places[i + 1 :])
