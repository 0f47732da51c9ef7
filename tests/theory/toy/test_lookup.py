"""Telling keys apart beside values: what the linear program says, and how narrow it can be."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.toy.lookup import circle, codes, least_width, told_apart


@given(st.integers(2, 12), st.integers(2, 12))
@settings(max_examples=20, deadline=None)
def test_codes_are_as_narrow_as_can_be(keys, values):
    a, b = codes(keys, values, skip=False)
    assert a.shape[1] == b.shape[1] == least_width(keys, values, skip=False)
    assert told_apart(a, b)
    assert told_apart(b, a)
    a, b = codes(keys, values, skip=True)
    assert a.shape[1] == b.shape[1] == least_width(keys, values, skip=True)
    assert told_apart(a, b)
    assert not told_apart(b, a)


@given(st.integers(3, 8), st.floats(0.1, 10))
@settings(max_examples=20, deadline=None)
def test_a_circle_is_told_apart_beside_a_narrow_disk(count, size):
    """Along a point's own direction the next lies 1 - cos(2 pi / count) below: so much may others be wide."""
    sagitta = 1 - np.cos(2 * np.pi / count)
    turns = np.linspace(0, 2 * np.pi, 361)
    disk = np.stack([np.cos(turns), np.sin(turns)], axis=1) / 2  # one wide
    assert told_apart(size * circle(count), 0.9 * sagitta * size * disk)
    assert not told_apart(size * circle(count), 1.1 * sagitta * size * disk)


@given(st.integers(0, 10**6), st.integers(3, 5), st.integers(3, 5))
@settings(max_examples=30, deadline=None)
def test_three_dimensions_are_too_few(seed, keys, values):
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=(count, 3)) * 10.0 ** rng.uniform(-3, 3, 3) for count in (keys, values))
    assert not (told_apart(a, b) and told_apart(b, a))
