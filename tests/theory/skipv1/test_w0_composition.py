"""Theorems 7 to 9: how many heads around W0, in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import exact
from theory.errors import InvalidSize
from theory.plans.heads import ORDINARY, SKIP
from theory.prompts import setting
from theory.skipv1.w0 import constant_share, skipv1_floor
from theory.skipv1.w0_composition import (
    is_too_few,
    lead,
    losing_square,
    mha_weights,
    skipv1_weights,
    sufficient_heads,
    three_heads_gain,
    three_heads_weights,
)
from theory.toy.composition import composition_excess
from theory.toy.exact import exact_loss

SIGMAS = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(5)])


@given(st.integers(1, 12), st.integers(1, 60), st.fractions(0, 50, max_denominator=5))
def test_lower_ranks_lose_more_than_too_few_heads_do(d, n, sigma):
    """Step (2) of Theorem 7, and what it is for: from `losing_square` on MHA is ahead, and just from there."""
    excess = composition_excess(d, n)
    full = d * constant_share(d, n, sigma, 0)
    for a in range(d):
        assert d - a + a * constant_share(d, n, sigma, d - a) - full >= excess
    square, rho = losing_square(d, n, sigma), setting.signal_share(d, n, sigma)
    assert square * (full + excess) - rho * d**2 == square * full


@given(st.data(), st.integers(1, 8), st.integers(1, 20), st.fractions(0, 50, max_denominator=5))
def test_lead_where_w0_is_not_lopsided(data, d, n, sigma):
    least = data.draw(st.fractions(Fraction(1, 9), 9, max_denominator=9))
    factors = st.fractions(1, 1 + Fraction(n * d, 2), max_denominator=9)
    squares = [least] + [least * data.draw(factors) for _ in range(d - 1)]
    rho = setting.signal_share(d, n, sigma)
    assert lead(d, n, sigma, squares) >= rho * (d**2 - d**2 // 4)
    singular = [*squares[: d // 2], *[Fraction(0)] * (d - d // 2)]
    assert lead(d, n, Fraction(0), singular) >= setting.signal_share(d, n, Fraction(0)) * (d**2 - d**2 // 4)


def test_lead_of_a_lopsided_w0_can_be_negative():
    """Why the condition is there: MHA at a = 1 sees a row of y y^T."""
    assert lead(2, 2, Fraction(3), [Fraction(10**6), Fraction(1)]) < 0


@settings(max_examples=4)
@given(st.integers(1, 6), SIGMAS, st.fractions(-9, 9, max_denominator=5))
def test_three_heads_at_four_in_fractions(n, sigma, c):
    loss = exact_loss((ORDINARY, SKIP, SKIP), 4, n, sigma, c * exact(np.eye(4, dtype=int)))
    mha = setting.zero_loss(4, n, sigma) + 4 * c**2 * constant_share(4, n, sigma, 0)
    gain = three_heads_gain(4, n, sigma)
    assert mha - loss.value(three_heads_weights(4, n, c)) == gain * c**2 / (c**2 + 1)
    assert (gain > 0) == (3 * (n - 1) > sigma**2)


def test_impossible_sizes():
    with pytest.raises(InvalidSize):
        is_too_few(4, 1, 2)
    with pytest.raises(InvalidSize):
        three_heads_gain(5, 1, 0.0)
    with pytest.raises(InvalidSize):
        three_heads_weights(2, 1, 1.0)
    with pytest.raises(InvalidSize):
        skipv1_weights(2, 0, np.zeros((2, 3)))
    with pytest.raises(InvalidSize):
        mha_weights(0, 1, 1.0)
    with pytest.raises(InvalidSize):
        losing_square(2, 1, -1)


def test_random_w0_in_whole_numbers_needs_no_invertible_one():
    w0 = exact(np.array([[1, 2], [2, 4]]))
    n, sigma = 3, Fraction(0)
    loss = exact_loss(sufficient_heads(2), 2, n, sigma, w0).value(skipv1_weights(n, sigma, w0))
    assert loss == skipv1_floor(2, n, sigma, [Fraction(25), Fraction(0)], 2)
