"""How wide MHA has to be: bounds, descents in the tokens, and tokens that hold a pair in no particular way."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.prompts.setting import signal_share
from theory.toy.generic_tokens import (
    _rank,
    generic_width,
    small_y,
    whole_tokens,
)
from theory.toy.least_width import (
    explained_by_hiding,
    hidden_entries,
    hidden_tokens,
    hiding_weights,
    least_width_bound,
    sufficient_width,
)
from theory.toy.token_pairs import _objective, best_entries

SIZES = [(2, 1), (3, 1), (4, 1), (4, 2), (5, 1), (6, 2), (6, 3), (7, 1)]


@given(size=st.sampled_from(SIZES), n=st.integers(1, 9))
def test_closed_forms_approach_their_limit_from_below(size, n):
    d, hidden = size
    limit = signal_share(d, n, Fraction(1, 2)) * hidden_entries(d, hidden)
    values = [explained_by_hiding(d, n, Fraction(1, 2), Fraction(1, 10**k), hidden) for k in range(4)]
    assert values == sorted(values)
    assert values[-1] < limit < values[-1] + Fraction(1, 10**4)
    assert limit <= signal_share(d, n, Fraction(1, 2)) * min(d**2, (2 * d - hidden) * (2 * d - hidden + 1) // 2)


@given(d=st.integers(1, 40), n=st.integers(1, 50))
def test_the_bound_is_below_the_sufficient_width(d, n):
    least = least_width_bound(d, n)
    assert least_width_bound(d, 10**6) <= least <= sufficient_width(d) <= 2 * d
    assert least * (least + 1) // 2 > d**2
    if n == 1:
        assert (least - 1) ** 2 < 2 * d**2 <= least**2


@pytest.mark.parametrize(("d", "hidden"), SIZES[:4])
def test_the_best_map_of_the_hiding_tokens_approaches_what_the_weights_do(d, hidden):
    for eps in (0.1, 0.01):
        at_least = explained_by_hiding(d, 4, 0.3, eps, hidden) / signal_share(d, 4, 0.3)
        best = best_entries(d, 4, 0.3, hidden_tokens(d, eps, hidden))
        assert at_least - 1e-9 < best < hidden_entries(d, hidden) + 1e-9


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
