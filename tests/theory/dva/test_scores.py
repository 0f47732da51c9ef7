"""Scores as bilinear forms: what a head of a width makes, and what it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.dva.scores import factors, form, shares
from theory.errors import BadInput

sizes = st.integers(1, 5)


@given(sizes, sizes, st.integers(0, 99))
def test_factors_make_the_form_or_refuse(d, width, seed):
    wanted = np.random.default_rng(seed).standard_normal((d, d))
    if width < d:
        with pytest.raises(BadInput, match=f"rank {width} at most"):
            factors(wanted, width)
        return
    query, key = factors(wanted, width)
    assert query.shape == key.shape == (width, d)
    np.testing.assert_allclose(form(query, key), wanted, atol=1e-12 * d * width)


def test_shares_are_of_differences_and_never_overflow():
    np.testing.assert_allclose(shares(np.array([1000.0, 1000.0])), [0.5, 0.5])
    np.testing.assert_allclose(shares(np.array([[0.0, np.log(3)]])), [[0.25, 0.75]])


@pytest.mark.parametrize("width", [0, -1])
def test_no_head_has_such_a_width(width):
    with pytest.raises(BadInput):
        factors(np.eye(2), width)
