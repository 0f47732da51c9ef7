"""Entries of W* at every width, and worth in width under the assumed copy: vanilla's curve, its inverse, and plans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.plans.heads import TOYS, NotCovered
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.skipv1.gap import best_mha_rank
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
