"""Typical norms against sampled weights, to standard errors, and against quadrature."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.attnres import typical
from theory.errors import InvalidSize


def test_the_spread_shrinks_with_width():
    """To that of the d numbers, 2/d, for many inner numbers; large for few."""
    assert typical.feed_forward_spread(10, 10**9, "gelu", std=0.3) == pytest.approx(math.sqrt(2 / 10), rel=1e-6)
    assert typical.feed_forward_spread(10, 1, "gelu", std=0.3) > 1
    # For small q an inner number is a/2, or ab/2: fourth moments 3 and 9.
    assert typical.feed_forward_spread(1, 1, "silu", std=1e-5) == pytest.approx(math.sqrt(3 * 3 - 1), rel=1e-4)
    assert typical.feed_forward_spread(1, 1, "swiglu", std=1e-5) == pytest.approx(math.sqrt(3 * 9 - 1), rel=1e-4)


@given(st.floats(1e-4, 1e3))
@settings(max_examples=20)
def test_gelu_s_closed_form_is_its_quadrature(q):
    assert typical.inner_square(q, "gelu") == pytest.approx(typical._inner_moment(q, "gelu", 2), rel=1e-7)


def test_inner_squares_at_both_ends():
    """a/2 for small q; max(a, 0) for large q, half the variance."""
    for kind, power in (("gelu", 1), ("silu", 1), ("swiglu", 2)):
        assert typical.inner_square(1e-6, kind) == pytest.approx(1e-6**power / 4, rel=1e-5)
        assert typical.inner_square(1e8, kind) == pytest.approx(1e8**power / 2, rel=1e-3)


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
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()
