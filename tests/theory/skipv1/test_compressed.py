"""Deeper toys on compressed tokens: the two-layer theorem at one step, attention token by token at several."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.prompts import setting
from theory.skipv1 import gap as skipv1
from theory.skipv1.compressed import any_depth_floor, compressed_losses

d_values, n_values, steps = st.integers(1, 6), st.integers(1, 9), st.integers(1, 5)
sigmas = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(2)])


@given(d_values, n_values, sigmas)
def test_one_step_is_the_theorem(d, n, sigma):
    for rank in range(d + 1):
        losses, gap = compressed_losses(d, n, sigma, rank, 1), skipv1.loss_gap(d, n, sigma, rank)
        assert (losses.mha, losses.skipv1, losses.gap) == (gap.mha, gap.skipv1, gap.gap)


@given(d_values, n_values, sigmas, steps)
def test_the_gap_at_equal_rank_does_not_depend_on_depth(d, n, sigma, count):
    for rank in range(d + 1):
        here, deeper = (compressed_losses(d, n, sigma, rank, k) for k in (count, count + 1))
        assert here.gap == setting.signal_share(d, n, sigma) * rank**2
        assert deeper.gap == here.gap
        assert any_depth_floor(d, sigma, rank) == here.floor <= deeper.mha <= here.mha


@given(st.integers(2, 5), sigmas)
def test_long_prompts_come_down_to_the_floor_and_skip_heads_below_it(d, sigma):
    for rank in range(1, d + 1):
        losses = compressed_losses(d, 10**7, sigma, rank, 2)
        assert 0 <= losses.mha - losses.floor <= Fraction(1, 10**3)
        assert losses.skipv1 < losses.floor


@pytest.mark.parametrize(
    "call",
    [
        lambda: compressed_losses(0, 3, 0.5, 0, 1),
        lambda: compressed_losses(2, 3, 0.5, 3, 1),
        lambda: compressed_losses(2, 3, 0.5, 1, 0),
        lambda: compressed_losses(2, 3, -0.5, 1, 1),
        lambda: any_depth_floor(2, 0.5, -1),
    ],
)
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()
