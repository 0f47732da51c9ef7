"""The toy at every embedding width: `theory.toy.value_maps` where they meet, and constructions elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.plans.heads import TOYS
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.setting import signal_share
from theory.skipv1.gap import best_mha_rank
from theory.toy.value_maps import explained_entries
from theory.toy.width import explained_share_at_width, most_entries_at_width


@given(d=st.integers(1, 12))
def test_at_width_d_it_is_the_theorem_s_best_rank(d):
    assert most_entries_at_width(TOYS["mha"], d, d) == explained_entries(TOYS["mha"], d, best_mha_rank(d))
    assert most_entries_at_width(TOYS["skipv1"], d, d) == explained_entries(TOYS["skipv1"], d, d)


@given(d=st.integers(1, 12), extra=st.integers(0, 40))
def test_mha_gains_with_every_number_until_both_fit(d, extra):
    here, wider = (most_entries_at_width(TOYS["mha"], d, d + e) for e in (extra, extra + 1))
    assert here < wider <= d * d if d + extra < 2 * d else here == wider == d * d
    assert most_entries_at_width(TOYS["skipv1"], d, d + extra) == d * d


@given(d=st.integers(1, 6), extra=st.integers(0, 12))
def test_no_division_of_the_width_is_better(d, extra):
    width = d + extra
    divisions = [min(a, d) * min(width - a, d) for a in range(width + 1)]
    assert most_entries_at_width(TOYS["mha"], d, width) == max(divisions)


@pytest.mark.parametrize(
    ("variant", "narrow", "wide"), [("vanilla", 0.25, 1), ("skipv0", 0.25, 1), ("resformer", 1, 1), ("svformer", 1, 1)]
)
def test_named_plans(variant, narrow, wide):
    plan = resolve(variant, Shape(2, 2))
    rho = signal_share(4, 8, 0.1)
    assert explained_share_at_width(plan, 4, 8, 0.1, 4) == pytest.approx(rho * narrow)
    assert explained_share_at_width(plan, 4, 8, 0.1, 16) == pytest.approx(rho * wide)


def test_sizes():
    with pytest.raises(InvalidSize, match="width must be a whole number from d = 3, got 2"):
        most_entries_at_width(TOYS["mha"], 3, 2)
    assert explained_share_at_width(resolve("cla", Shape(2, 2)), 3, 4, 0.1, 3) == 0
