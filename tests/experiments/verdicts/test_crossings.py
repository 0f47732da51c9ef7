"""Planted crossings are found exactly; what is censored or told apart by nothing is tied."""

from itertools import pairwise, permutations
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.verdicts.crossings import UNKNOWN, Crossing, crossing, sign, smoothed, trend

rising = st.lists(st.integers(1, 400), min_size=1, max_size=6, unique=True).map(sorted)


def planted(zeros, start):
    """A curve of straight lines whose sign changes at these times alone, `start` at first; a point between any two."""
    times = [zeros[0] - 1.0, *((a + b) / 2 for a, b in pairwise(zeros)), zeros[-1] + 2.0]
    values = [float(start)]
    for zero, (before, after) in zip(zeros, pairwise(times), strict=True):
        values.append(-values[-1] * (after - zero) / (zero - before))
    return times, values


@given(rising, st.sampled_from([-1, 1]))
def test_planted_crossings_are_found(zeros, start):
    found = crossing(*planted(zeros, start))
    ups = zeros[start > 0 :: 2]
    above = (start > 0) == (len(zeros) % 2 == 0)
    assert found.changes == len(zeros)
    assert found.first == pytest.approx(ups[0] if ups else inf)
    assert found.last == pytest.approx((ups[-1] if ups else -inf) if above else inf)
    assert found.seen == (above and bool(ups))


@pytest.mark.parametrize(
    ("differences", "first", "last", "changes"),
    [
        ([1, 2, 1], -inf, -inf, 0),  # never ahead
        ([-1, -2, -1], inf, inf, 0),  # not passed by the end
        ([0, 0, 0], inf, inf, 0),
        ([-1, 0, 1], 2, 2, 1),  # at the point
        ([-1, 0, 0, 1], 3, 3, 1),  # above only after the last of them
        ([-1, 0, -1], inf, inf, 0),  # touched
        ([-1, 1, 0], 1.5, 1.5, 1),
        ([0, -1, 1], 2.5, 2.5, 1),
        ([-1, 1, -1], 1.5, inf, 2),  # passed, and back
        ([1, -1], inf, inf, 1),
        ([1, -1, 3], 2.25, 2.25, 2),
    ],
)
def test_none_one_and_several(differences, first, last, changes):
    assert crossing(range(1, len(differences) + 1), differences) == Crossing(first, last, changes)


@pytest.mark.parametrize(
    ("times", "differences"),
    [([1], [1]), ([], []), ([1, 1], [1, 2]), ([2, 1], [1, 2]), ([1, 2], [1, nan]), ([1, 2], [1]), ([1, inf], [1, 2])],
)
def test_what_is_no_curve_is_refused(times, differences):
    with pytest.raises(ValueError, match="two or more finite differences"):
        crossing(times, differences)


@given(st.integers(1, 9), st.integers(2, 12), st.floats(-2, 2), st.floats(-5, 5))
def test_smoothing_leaves_straight_lines_where_they_are(width, count, slope, start):
    times = [3.0 * i for i in range(count)]
    t, v = smoothed(times, [start + slope * x for x in times], width)
    assert len(t) == len(v) == max(1, count - width + 1)
    assert v == pytest.approx([start + slope * x for x in t])


def test_what_is_not_known_to_differ_is_tied():
    early, late, wide = Crossing(3, 3, 1), Crossing(9, 9, 1), Crossing(2, 8, 3)
    never, after = Crossing(-inf, -inf, 0), Crossing(inf, inf, 0)
    assert [sign(early, x) for x in (early, late, wide, never, after, UNKNOWN)] == [0, 1, 0, -1, 1, 0]
    assert sign(after, after) == sign(never, never) == sign(UNKNOWN, after) == 0
    assert sign(wide, late) == 1


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=3))
def test_a_trend_is_held_against_all_orders(seeds):
    crossings = [[Crossing(x, x, 1) if x < 4 else Crossing(inf, inf, 0) for x in of_seed] for of_seed in seeds]
    found = trend(crossings)

    def balance(values):
        return sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1 :])

    assert found.balance == sum(map(balance, seeds))
    assert found.pairs == 3 * len(seeds)
    totals = {0: 1.0}
    for of_seed in seeds:
        orders = [balance(order) for order in permutations(of_seed)]
        totals = {
            total: sum(p * orders.count(total - a) / 6 for a, p in totals.items())
            for total in range(-3 * len(seeds), 3 * len(seeds) + 1)
        }
    assert found.chance == pytest.approx({total: p for total, p in totals.items() if p > 0})


def test_a_trend_s_significance():
    up = [Crossing(x, x, 1) for x in (1, 2, 3)]
    found = trend([up, up, up])
    assert (found.balance, found.pairs) == (9, 9)
    assert found.p == pytest.approx(2 / 6**3)
    assert found.widest_by_chance(0.05) < 9
    assert trend([up[::-1]] * 3).balance == -9
    tied = trend([[Crossing(inf, inf, 0)] * 3] * 3)
    assert (tied.balance, tied.p, tied.widest_by_chance(0.05)) == (0, 1.0, 0)
