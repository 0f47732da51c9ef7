"""Examples in which R^2 and the cost have nothing to do with each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.reading.token_values import linear_error, r_squared
from theory.reading.variance import (
    cost,
    first_kept,
    quiet,
    quiet_cost,
    quiet_r_squared,
    refitted_cost,
    sink,
    sink_cost,
    sink_r_squared,
    spare,
    token_values,
)

gains = st.floats(0, 50)


@given(st.integers(1, 60), st.floats(0, 1), gains)
def test_a_sink(pairs, share, gain):
    example = sink(pairs, share, gain)
    assert example.pattern.sum(1) == pytest.approx(np.ones(2 * pairs + 1))
    assert cost(example) == pytest.approx(sink_cost(pairs, share, gain), abs=1e-9)
    explained = 1 - linear_error(token_values(example)) / (example.own**2).mean()
    assert explained == pytest.approx(sink_r_squared(pairs))
    assert cost(first_kept(example)) == pytest.approx(0, abs=1e-9)


@given(st.floats(0, 100), gains)
def test_loud_values_that_nothing_depends_on(size, gain):
    assert r_squared(token_values(quiet(size, gain))) == pytest.approx(quiet_r_squared(size), abs=1e-9)
    assert cost(quiet(size, gain)) == pytest.approx(quiet_cost(gain), abs=1e-9)


@given(gains)
def test_a_spare_head(gain):
    assert r_squared(token_values(spare(gain))) == pytest.approx(0, abs=1e-9)
    assert cost(spare(gain)) == pytest.approx(quiet_cost(gain) / 2, abs=1e-9)
    assert refitted_cost(spare(gain)) == pytest.approx(0, abs=1e-9)


def test_bad_input():
    with pytest.raises(InvalidSize):
        sink(0, 0.5, 1.0)
    for share in (-0.1, 1.1):
        with pytest.raises(BadInput):
            sink(1, share, 1.0)
