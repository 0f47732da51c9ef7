"""Does one order of things agree with another?  Concordant pairs, and how many there would be by chance, exactly.

The first order is given by levels: whole numbers, lower is better, equal ones are ties.  Of the second, pairs (better,
worse) are known, not necessarily of every two things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Agreement:
    """The numbers of pairs that stand in the same order at the levels, in the opposite one, or at one level."""

    concordant: int
    discordant: int
    tied: int

    @property
    def balance(self) -> int:
        """Kendall's S: concordant minus discordant pairs."""
        return self.concordant - self.discordant

    @property
    def share(self) -> float | None:
        """The share of concordant pairs among those that are not tied; None without any."""
        untied = self.concordant + self.discordant
        return self.concordant / untied if untied else None


def agreement(levels: Mapping[str, int], pairs: Pairs) -> Agreement:
    signs = Counter(_sign(levels[worse] - levels[better]) for better, worse in pairs)
    return Agreement(signs[1], signs[-1], signs[0])


def _sign(x: int) -> int:
    return (x > 0) - (x < 0)


# How many of each level are left to deal, and the levels of those who wait for a partner.
_State = tuple[tuple[int, ...], tuple[tuple[str, int], ...]]


def null_balances(levels: Mapping[str, int], pairs: Pairs) -> dict[int, float]:
    """Return the exact distribution of `balance` if levels are dealt out at random among the things that pairs name.

    They are dealt one after the other.  Of what was dealt, only the levels of things matter that have pairs with things
    still to come; those with most pairs come first, so that these stay few.
    """
    met = Counter(thing for pair in pairs for thing in pair)
    order = sorted(met, key=lambda thing: (-met[thing], thing))
    place = {thing: i for i, thing in enumerate(order)}
    last = {thing: max(place[x] for pair in pairs if thing in pair for x in pair) for thing in order}
    kinds = sorted({levels[thing] for thing in order})
    counts = [levels[thing] for thing in order]
    some = np.zeros(2 * len(pairs) + 1)  # probabilities of the balances -len(pairs) .. len(pairs)
    some[len(pairs)] = 1.0
    states: dict[_State, NDArray[np.float64]] = {(tuple(counts.count(kind) for kind in kinds), ()): some}
    for i, thing in enumerate(order):
        earlier = [pair for pair in pairs if thing in pair and max(place[x] for x in pair) == i]
        after: dict[_State, NDArray[np.float64]] = {}
        for (left, waiting), probabilities in states.items():
            for k, kind in enumerate(kinds):
                if left[k]:
                    dealt = {**dict(waiting), thing: kind}
                    gained = agreement(dealt, earlier).balance
                    rest = tuple(count - (j == k) for j, count in enumerate(left))
                    state = (rest, tuple((x, level) for x, level in dealt.items() if last[x] > i))
                    moved = left[k] / (len(order) - i) * np.roll(probabilities, gained)
                    after[state] = after.get(state, 0.0) + moved
        states = after
    total = sum(states.values(), np.zeros_like(some))
    return {balance - len(pairs): float(p) for balance, p in enumerate(total) if p}


def convolved(distributions: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """Return the distribution of the sum of independent whole numbers."""
    total: dict[int, float] = {0: 1.0}
    for distribution in distributions:
        terms: dict[int, float] = {}
        for a, p in total.items():
            for b, q in distribution.items():
                terms[a + b] = terms.get(a + b, 0.0) + p * q
        total = terms
    return total


def tail(distribution: Mapping[int, float], least: int) -> float:
    """Return the probability of `least` or more."""
    return sum(p for value, p in distribution.items() if value >= least)


def widest_by_chance(distribution: Mapping[int, float], level: float) -> int:
    """Return the least w such that values beyond w on either side have a probability of at most `level` together."""
    mirrored = {-value: p for value, p in distribution.items()}
    most = max(map(abs, distribution), default=0)
    return next(w for w in range(most + 1) if tail(distribution, w + 1) + tail(mirrored, w + 1) <= level)
