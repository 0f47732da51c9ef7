"""Recall by shared keys: the right value stands apart, by how much, and what that costs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.plans.recall import RecallSetting
from theory.toy import recall


def averages(n: int, query: int) -> np.ndarray:
    """What layer 1 has at each token of each pair's value, exact: (tokens, n)."""
    tokens = 2 * n + query
    return np.array([[Fraction(j >= 2 * pair, j) for pair in range(1, n + 1)] for j in range(1, tokens + 1)])


@given(st.integers(1, 8), st.data())
def test_scores_are_what_two_heads_and_the_readout_add_up_to(n, data):
    query, asked = (data.draw(st.integers(1, n)) for _ in range(2))
    shared = averages(n, query)
    looks_for_its_own = -Fraction(recall.strength(n)) * (shared[2 * asked - 2] + shared[-1]) / 2
    looks_at_all = shared.sum(0) / (2 * n + query)
    readout = Fraction(recall.strength(n), 2) * shared[-1]
    assert recall.shared_key_scores(n, query, asked) == list(looks_for_its_own + looks_at_all + readout)


@given(st.integers(1, 9), st.data())
def test_the_right_value_is_first(n, data):
    query, asked = (data.draw(st.integers(1, n)) for _ in range(2))
    assert recall.margin(n, query, asked) >= recall.least_margin(n) > 0
    scores = recall.shared_key_scores(n, query, asked)
    assert max(range(n), key=scores.__getitem__) == asked - 1


def test_the_margin_falls_as_a_square():
    found = [float(recall.least_margin(n)) * 3 * n**2 for n in (6, 12, 24)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(1, rel=0.04)


@given(st.integers(1, 6), st.integers(6, 40), st.floats(0, 1e5))
def test_a_readout_leaves_at_most_this_loss(n, values, readout):
    """Of the query whose margin is least, with as many values elsewhere as there are."""
    worst = 0.0
    for query in range(1, n + 1):
        for asked in range(1, n + 1):
            scores = [*recall.shared_key_scores(n, query, asked), *[Fraction(0)] * (values - n)]
            apart = [readout * float(scores[asked - 1] - score) for score in scores]
            worst = max(worst, math.log(sum(math.exp(-x) for x in apart)))
    assert worst <= recall.most_loss(n, values, readout) + 1e-12


def test_settings():
    setting = RecallSetting(pairs=3, keys=4, values=5)
    assert (setting.told, setting.tokens, setting.width) == (6, 9, 9)
    assert (setting.blind, setting.unmatched) == (math.log(5), math.log(3))
    with pytest.raises(BadInput, match="keys must be at least as many as pairs"):
        RecallSetting(pairs=5, keys=4, values=5)
