"""Sizes at initial weights: what is refused, and an activation's mean square by quadrature."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.attnres.sizes import SIZES, plan_of
from theory.attnres import initial, typical
from theory.errors import BadInput, InvalidSize
from theory.plans.names import resolve
from theory.plans.plan import Residual


def test_bad_input():
    with pytest.raises(BadInput):
        initial.initial_outputs(replace(SIZES, norm="none"), plan_of(3, Residual()))
    with pytest.raises(BadInput):
        initial.initial_outputs(replace(SIZES, normed="head"), plan_of(3, Residual()))
    with pytest.raises(BadInput):
        initial.initial_outputs(SIZES, resolve("resformer", SIZES.shape))


@given(st.floats(1e-4, 1e3))
@settings(max_examples=20)
def test_gelu_s_closed_form_is_its_quadrature(q):
    assert typical.inner_square(q, "gelu") == pytest.approx(typical._inner_moment(q, "gelu", 2), rel=1e-7)


@pytest.mark.parametrize(
    "call",
    [
        lambda: typical.attention_square(0, 1, 1, 1.0, 1.0, 1.0),
        lambda: typical.attention_square(1, 1, 1, 1.0, 1.0, 1.5),
        lambda: typical.attention_square(1, 1, 1, 0.0, 1.0, 1.0),
        lambda: typical.feed_forward_square(1, 0, 1.0, 1.0),
        lambda: typical.feed_forward_spread(1, 1, std=math.inf),
        lambda: typical.inner_square(-1.0, "gelu"),
    ],
)
def test_bad_sizes_of_sublayers(call):
    with pytest.raises(InvalidSize):
        call()
