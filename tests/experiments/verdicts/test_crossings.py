"""Sizes at which a share is reached."""

import math

import pytest

from experiments.verdicts.crossings import Crossing, crossing, octaves


def test_between_two_sizes_it_is_known_by_the_logarithm():
    found = crossing({4: 0.1, 8: 0.5, 32: 0.9}, 0.7)
    assert found.known
    assert found.least == pytest.approx(16)
    assert crossing({4: 0.1, 8: 0.9}, 0.9) == (8, 8)


def test_outside_of_the_sizes_it_is_bounded():
    assert crossing({4: 0.95, 8: 1.0}, 0.9) == (0, 4)
    assert crossing({4: 0.1, 8: 0.89}, 0.9) == (8, math.inf)
    assert not crossing({4: 0.1, 8: 0.89}, 0.9).known


KNOWN, SMALL, LARGE = Crossing(8, 8), Crossing(0, 4), Crossing(32, math.inf)


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (KNOWN, Crossing(16, 16), 1),
        (Crossing(16, 16), KNOWN, -1),
        (KNOWN, LARGE, 2),  # at least
        (LARGE, KNOWN, -2),  # at most
        (SMALL, KNOWN, 1),
        (SMALL, LARGE, 3),
        (SMALL, SMALL, math.nan),
        (LARGE, LARGE, math.nan),
        (KNOWN, Crossing(10, math.inf), math.nan),  # apart, but nobody knows that it is by more than 0.5
        (Crossing(10, math.inf), KNOWN, math.nan),
    ],
)
def test_octaves_are_told_as_far_as_they_are_known(own, other, expected):
    assert octaves(own, other, 0.5) == pytest.approx(expected, nan_ok=True)
