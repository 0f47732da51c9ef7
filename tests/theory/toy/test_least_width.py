"""How wide MHA has to be: bounds, descents in the tokens, and tokens that hold a pair in no particular way."""

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.toy.generic_tokens import (
    _rank,
    generic_width,
    small_y,
    whole_tokens,
)
from theory.toy.least_width import (
    hiding_weights,
    least_width_bound,
    sufficient_width,
)
from theory.toy.token_pairs import _objective, best_entries


@given(d=st.integers(1, 40), n=st.integers(1, 50))
def test_the_bound_is_below_the_sufficient_width(d, n):
    least = least_width_bound(d, n)
    assert least_width_bound(d, 10**6) <= least <= sufficient_width(d) <= 2 * d
    assert least * (least + 1) // 2 > d**2
    if n == 1:
        assert (least - 1) ** 2 < 2 * d**2 <= least**2


@given(d=st.integers(1, 2), extra=st.integers(0, 1), kinds=st.integers(1, 3), seed=st.integers(0, 99))
def test_gradient_in_the_tokens(d, extra, kinds, seed):
    rng, objective = np.random.default_rng(seed), _objective(d, 3, 0.5)
    tokens, step = rng.standard_normal((2, kinds, d + extra, 2 * d))
    h = 1e-6
    slope = (objective(tokens + h * step)[0] - objective(tokens - h * step)[0]) / (2 * h)
    assert (objective(tokens)[1] * step).sum() == pytest.approx(slope, rel=1e-3, abs=1e-5)


def test_sizes():
    for d, hidden in ((1, 1), (3, 2), (4, 3), (4, 0)):
        with pytest.raises(InvalidSize, match=f"can be hidden at d = {d}, got {hidden}"):
            hiding_weights(d, 4, 0.1, 0.1, hidden)
    with pytest.raises(InvalidSize):
        least_width_bound(2, 0)


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 5), st.integers(0, 999))
def test_rank_is_that_of_the_rationals(rows, columns, rank, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-9, 10, (rows, rank)) @ rng.integers(-9, 10, (rank, columns))
    assert _rank(matrix.astype(np.int64)) == sympy.Matrix(matrix).rank()


def test_generic_widths():
    assert all(generic_width(d) < sufficient_width(d) for d in range(7, 60))
    assert all(least_width_bound(d, n) <= generic_width(d) for d in range(1, 20) for n in (1, 9))
    with pytest.raises(InvalidSize):
        generic_width(0)


@settings(max_examples=6)
@given(st.integers(1, 3), st.integers(1, 9), st.floats(0, 2))
def test_what_is_missing_falls_with_the_square_of_eta(d, n, sigma):
    tokens = whole_tokens(d, generic_width(d)) / 99
    far, near = (d**2 - best_entries(d, n, sigma, small_y(tokens, eta)) for eta in (1e-3, 1e-4))
    assert near + 1e-9 >= 0
    assert near <= 0.02 * far + 1e-7
