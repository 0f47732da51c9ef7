"""Sizes at initial weights: what is refused, and an activation's mean square by quadrature."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.attnres import typical


@given(st.floats(1e-4, 1e3))
@settings(max_examples=20)
def test_gelu_s_closed_form_is_its_quadrature(q):
    assert typical.inner_square(q, "gelu") == pytest.approx(typical._inner_moment(q, "gelu", 2), rel=1e-7)
