"""Compute by power laws, against their definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.attnres.compute import PowerLaw, worth, worth_of_losses

laws = st.builds(PowerLaw, st.floats(0.5, 3), st.floats(0.04, 0.5))


@given(laws, laws, st.floats(0.1, 100))
def test_the_base_law_reaches_it_with_that_much_compute(base, other, compute):
    assert base.loss(worth(base, other, compute) * compute) == pytest.approx(other.loss(compute), rel=1e-9)


@given(laws, st.floats(0.1, 100), st.floats(0.5, 4))
def test_losses_of_the_same_slope_have_that_worth_at_all_compute(base, compute, times):
    other = PowerLaw(base.factor * times**-base.exponent, base.exponent)
    assert worth(base, other, compute) == pytest.approx(times, rel=1e-9)
    assert worth_of_losses(base.loss(compute), other.loss(compute), base.exponent) == pytest.approx(times, rel=1e-9)
