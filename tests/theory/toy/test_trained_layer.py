"""Bounds on what plans explain with a trained first layer, and tokens that mix x and y: order, monotony, limits."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.plans.depth import DepthAttention
from theory.plans.heads import NotCovered
from theory.plans.names import resolve
from theory.plans.plan import Shape, plan
from theory.toy.mixed_tokens import (
    best_of_one_head,
    best_square,
    mixed_entries,
    of_one_head,
)
from theory.toy.trained_layer import entry_bounds, worth_bounds
from theory.toy.worth import plan_entries, worth_at_width

FIRSTS = ("positions", "residual", "copy-residual")
NAMES = ("vanilla", "skipv1", "resformer", "svformer", "skipv0", "cla-v", "shared-keys", "residual-keys", "cla")
VANILLA = resolve("vanilla", Shape(2, 2))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    d=st.integers(1, 5),
    n=st.integers(1, 30),
    extra=st.integers(0, 6),
    first=st.sampled_from(FIRSTS),
    causal=st.booleans(),
)
def test_bounds_are_in_order_and_grow_with_width_and_heads(name, d, n, extra, first, causal):
    plan = resolve(name, Shape(2, 2))
    counted, enough = (entry_bounds(plan, d, n, 0.3, d + extra, first, causal=causal, counted=c) for c in (True, False))
    wider = entry_bounds(plan, d, n, 0.3, d + extra + 1, first, causal=causal)
    assert 0 <= counted.least <= enough.least <= enough.most <= d * d
    assert counted.most == enough.most
    assert enough.least <= wider.least
    assert enough.most <= wider.most


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(NAMES), d=st.integers(1, 4), extra=st.integers(0, 5), first=st.sampled_from(FIRSTS))
def test_worth_is_between_its_bounds_where_all_is_known(name, d, extra, first):
    least, most = worth_bounds(resolve(name, Shape(2, 2)), VANILLA, d, 8, 0.1, d + extra, first)
    assert 0 <= least <= most
    if name in ("skipv1", "resformer", "svformer", "cla-v"):
        assert least >= 1
        assert most == pytest.approx(max(1, 2 * d / (d + extra)))


@pytest.mark.parametrize("first", FIRSTS)
@pytest.mark.parametrize("name", ["skipv0", "skipkv1"])
def test_heads_that_a_plan_lacks_in_layer_2_are_not_counted(name, first):
    """Rotating takes two ordinary heads there: of two heads these plans have one, of four they have two."""
    one, two = (entry_bounds(resolve(name, Shape(2, h)), 2, 8, 0.1, 2, first, counted=True).least for h in (2, 4))
    copying, mixing = (
        1,
        best_of_one_head(2, 8, 0.1, 2, tau=4 * (first == "copy-residual"), constant=first != "positions"),
    )
    assert one == pytest.approx(max(copying, mixing))
    assert two >= entry_bounds(VANILLA, 2, 8, 0.1, 2, first, counted=True).least >= one
    assert (two > one) == (first == "positions")


def test_the_assumed_copy_is_the_toy_s_own():
    for name in NAMES:
        plan = resolve(name, Shape(2, 2))
        assert entry_bounds(plan, 3, 8, 0.1, 4, "assumed") == plan_entries(plan, 3, 4)
    plan = resolve("skipv1", Shape(2, 2))
    assert worth_bounds(plan, VANILLA, 3, 8, 0.1, 4, "assumed") == pytest.approx(worth_at_width(plan, 3, 4))


def test_attention_over_depth_needs_a_residual_stream():
    learned = plan(Shape(2, 2), depth=DepthAttention())
    with pytest.raises(NotCovered, match="reads the embedding"):
        entry_bounds(learned, 2, 8, 0.5, 2, "positions")


def test_sizes():
    with pytest.raises(InvalidSize, match="width"):
        entry_bounds(VANILLA, 3, 8, 0.1, 2)
    with pytest.raises(InvalidSize, match="one of assumed, positions, residual, copy-residual, got 'stream'"):
        entry_bounds(VANILLA, 3, 8, 0.1, 3, "stream")


@st.composite
def sizes(draw):
    d = draw(st.integers(1, 4))
    return d, draw(st.integers(d, 2 * d)), draw(st.integers(1, 9)), draw(st.floats(0, 2))


@given(size=sizes(), tau=st.sampled_from([0.0, 4.0]), constant=st.booleans())
def test_one_head_explains_no_more_than_many_and_none_more_than_all(size, tau, constant):
    d, width, n, sigma = size
    square = best_square(d, n, sigma, tau)
    for scale in (0.5, 1, 2):
        how = {"square": square * scale, "tau": tau, "constant": constant}
        many = mixed_entries(d, n, sigma, width, **how)
        assert max(of_one_head(d, n, sigma, width, beta / 20, **how) for beta in range(1, 25)) <= many + 1e-9
        assert 0 <= many <= min(d * d, width * (width + 1) / 2) + 1e-9
        assert many <= mixed_entries(d, n, sigma, width, **{**how, "constant": True}) + 1e-9


@settings(max_examples=20)
@given(size=sizes())
def test_the_search_ends_no_lower_than_a_grid(size):
    d, width, n, sigma = size
    grid = max(
        of_one_head(d, n, sigma, width, beta / 20, square=best_square(d, n, sigma) * scale)
        for beta in range(1, 21)
        for scale in (0.25, 0.5, 1, 2, 4)
    )
    assert best_of_one_head(d, n, sigma, width) >= grid - 1e-6


def test_exact_numbers_stay_exact():
    for width in (2, 3, 4):
        assert isinstance(mixed_entries(2, 3, Fraction(1, 2), width, square=Fraction(1, 9)), int | Fraction)


@pytest.mark.parametrize("width", [1, 5])
def test_widths_of_mixed_tokens(width):
    with pytest.raises(InvalidSize):
        mixed_entries(2, 3, 0.1, width)
