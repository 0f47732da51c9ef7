"""Entries of W* at every width, worth in width under the assumed copy, and how wide MHA has to be."""

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.plans.heads import TOYS, NotCovered
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.skipv1.gap import best_mha_rank
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
from theory.toy.value_maps import explained_entries
from theory.toy.width import explained_share_at_width, most_entries_at_width
from theory.toy.worth import Bounds, equal_width, vanilla_entries, worth_at_width, worth_of_entries

DIMENSIONS = st.integers(1, 12)


@given(d=DIMENSIONS, extra=st.integers(0, 30))
def test_from_width_d_on_vanilla_is_the_toy_s(d, extra):
    assert vanilla_entries(d, d + extra) == most_entries_at_width(TOYS["mha"], d, d + extra)


@given(d=DIMENSIONS, parts=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_more_entries_take_more_width(d, parts):
    low, high = sorted(part * d * d for part in parts)
    assert equal_width(d, low) <= equal_width(d, high) + 1e-12 <= 2 * d + 1e-9
    assert low == 0 or equal_width(d, low) > 1 - 1e-12


@given(d=DIMENSIONS, extra=st.integers(0, 30), heads=st.integers(1, 12))
def test_keys_of_layer_1_are_worth_less_than_1_just_where_vanilla_explains_more(d, extra, heads):
    worth = worth_at_width(resolve("shared-keys", Shape(2, heads)), d, d + extra).most
    assert (worth < 1) == (vanilla_entries(d, d + extra) > min(heads, d * d))
    if heads >= d * d:
        assert worth == pytest.approx(max(1, 2 * d / (d + extra)))


def test_keys_of_layer_1_beside_ordinary_ones_lie_between():
    plan = resolve("residual-keys", Shape(2, 2))
    for d in (2, 3, 4, 5):
        for m in range(d, 2 * d):
            least, most = worth_at_width(plan, d, m)
            assert 1 < least <= most <= 2 * d / m


def test_nothing_is_worth_nothing_unless_vanilla_explains_nothing():
    assert worth_of_entries(1, 1, 0) == 1
    assert worth_of_entries(2, 2, 0) == 0
    assert worth_at_width(resolve("cla", Shape(2, 2)), 2, 3) == Bounds(0, 0)


def test_bad_input():
    with pytest.raises(BadInput, match="none can explain 5"):
        equal_width(2, 5)
    with pytest.raises(InvalidSize, match="width must be a whole number from"):
        worth_at_width(resolve("vanilla", Shape(2, 2)), 3, 2)
    with pytest.raises(InvalidSize, match="width"):
        vanilla_entries(3, 0)
    with pytest.raises(NotCovered):
        worth_at_width(resolve("attnres", Shape(2, 2)), 2, 2)


@given(d=st.integers(1, 12))
def test_at_width_d_it_is_the_theorem_s_best_rank(d):
    assert most_entries_at_width(TOYS["mha"], d, d) == explained_entries(TOYS["mha"], d, best_mha_rank(d))
    assert most_entries_at_width(TOYS["skipv1"], d, d) == explained_entries(TOYS["skipv1"], d, d)


@given(d=st.integers(1, 6), extra=st.integers(0, 12))
def test_no_division_of_the_width_is_better(d, extra):
    width = d + extra
    divisions = [min(a, d) * min(width - a, d) for a in range(width + 1)]
    assert most_entries_at_width(TOYS["mha"], d, width) == max(divisions)


def test_sizes_of_widths():
    with pytest.raises(InvalidSize, match="width must be a whole number from d = 3, got 2"):
        most_entries_at_width(TOYS["mha"], 3, 2)
    assert explained_share_at_width(resolve("cla", Shape(2, 2)), 3, 4, 0.1, 3) == 0


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
