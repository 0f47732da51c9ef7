"""Tokens that hold a pair in no particular way: exact ranks, and what they explain in exact moments."""

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.toy.generic_tokens import (
    _rank,
    generic_width,
    independent_tokens,
    small_y,
    whole_tokens,
)
from theory.toy.least_width import least_width_bound, sufficient_width
from theory.toy.token_pairs import best_entries


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 5), st.integers(0, 999))
def test_rank_is_that_of_the_rationals(rows, columns, rank, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-9, 10, (rows, rank)) @ rng.integers(-9, 10, (rank, columns))
    assert _rank(matrix.astype(np.int64)) == sympy.Matrix(matrix).rank()


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 12])
def test_there_are_independent_tokens_at_the_least_width_and_not_below(d):
    width = generic_width(d)
    assert independent_tokens(whole_tokens(d, width))
    assert not independent_tokens(whole_tokens(d, width - 1))


def test_widths():
    assert [generic_width(d) for d in (1, 2, 3, 6, 7, 16)] == [2, 4, 5, 11, 12, 28]
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
