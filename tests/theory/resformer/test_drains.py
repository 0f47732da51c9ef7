"""Drains that are seen: between those of both layers, and what limits they have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.resformer.drains import least_attended, seen_drain

RATIOS, SIZES, WEIGHTS = st.floats(0, 3), st.floats(0, 50), st.floats(0.01, 2)


@given(RATIOS, RATIOS, SIZES, WEIGHTS, WEIGHTS)
def test_a_drain_is_seen_between_those_of_both_layers(own_ratio, first_ratio, size, own, first):
    found = seen_drain(own_ratio, first_ratio, size, own, first)
    assert min(own_ratio, first_ratio) - 1e-9 <= found <= max(own_ratio, first_ratio) + 1e-9


@given(RATIOS, RATIOS)
def test_the_longer_values_decide(own_ratio, first_ratio):
    assert seen_drain(own_ratio, first_ratio, 0.0) == pytest.approx(first_ratio)
    assert seen_drain(own_ratio, first_ratio, 1e6) == pytest.approx(own_ratio, abs=1e-5)


@given(SIZES, SIZES)
def test_no_value_is_longer_than_both_or_shorter_than_their_difference(own_length, first_length):
    assert least_attended(own_length, first_length) == pytest.approx(abs(own_length - first_length) / 2)
    assert least_attended(own_length, 0.0) == pytest.approx(own_length / 2)
