"""The vocabulary: sums of sources, what makes no sense and why, and what follows from a plan."""

import math
import pickle
import re
from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.attnres.variants import attnres
from theory.plans.combine import Clash, combine
from theory.plans.mix import Gated, Source
from theory.plans.plan import (
    NOTHING,
    DepthAttention,
    DepthAverage,
    Learned,
    Plan,
    Shape,
    built,
    k,
    learned,
    lifetimes,
    plan,
    problems,
    q,
    runs,
    total,
    v,
)
from theory.plans.variants import VARIANTS, vanilla
from theory.resformer.variants import cross_layer, neutreno, resformer, svformer
from theory.skipv1.variants import skipv0, skipv1

shapes = st.builds(Shape, layers=st.integers(2, 6), heads=st.integers(2, 6))


def variant_plans(shape: Shape) -> list[Plan]:
    return [variant.make(shape) for variant in VARIANTS.values()]


def test_equal_sources_are_one_term_and_zero_is_none():
    assert 0.5 * v(1, 1) + 0.5 * v(1, 1) == v(1, 1)
    assert v(1, 1) - v(1, 1) == NOTHING
    assert 0 * v(1, 1) == NOTHING
    assert total(1 / 4 * v(1, 1) for _ in range(4)) == v(1, 1)
    assert str(0.5 * v(2, 1) + Learned("mix", 0.1) * v(1, 1)) == "0.5 v(2, 1) + mix v(1, 1)"
    assert len((Learned("a", 1) * v(1, 1) + Learned("b", 1) * v(1, 1)).terms) == 2


def test_learned_weights_multiply_sources_once():
    a, b = Learned("a", 0.5), Learned("b", 0.5)
    for wrong in (lambda: a * (b * v(1, 1)), lambda: a * v(1, 1) + a * v(1, 1), lambda: a * b):
        with pytest.raises(TypeError):
            wrong()


@given(shapes)
@pytest.mark.long
def test_every_variant_makes_sense_at_every_shape(shape):
    for candidate in variant_plans(shape):
        assert problems(candidate) == []
        assert candidate.shape == shape


@given(shapes)
def test_limits_of_the_variants_are_each_other(shape):
    assert skipv1(shape, ratio=0) == skipv0(shape, ratio=0) == resformer(shape, own=1, first=0) == vanilla(shape)
    assert neutreno(shape, weight=0) == VARIANTS["cla"].make(shape, every=1) == vanilla(shape)
    assert skipv1(shape, ratio=1) == resformer(shape, own=0, first=1) == svformer(shape)
    assert svformer(shape, anchors=tuple(range(1, shape.layers + 1))) == vanilla(shape)
    assert VARIANTS["cla-v"].make(shape, every=shape.layers) == svformer(shape)
    assert skipv1(shape, source=shape.layers) == vanilla(shape)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"values": lambda n, h: v(n + 1, h)}, "layer 1, head 1: v(2, 1) is of a later layer"),
        ({"values": lambda n, h: v(n - 1, h)}, "v(0, 1) is of a layer before the first"),
        ({"values": lambda n, h: v(n, h + 1)}, "layer 1, head 3: v(1, 4) is of a head that is not there; there are 3"),
        ({"values": lambda n, h: k(n, h)}, "k(1, 1) cannot stand among values"),
        ({"keys": lambda n, h: q(n, h)}, "q(1, 1) cannot stand among keys"),
        ({"queries": lambda n, h: v(n, h)}, "v(1, 1) cannot stand among queries"),
        ({"beside": lambda n, h: k(n, h)}, "k(1, 1) cannot stand among values"),
        ({"queries": lambda n, h: NOTHING}, "layer 1, head 1: has values but no query"),
        ({"values": lambda n, h: (v(n, h), v(1, h))}, "1 lists of keys for 2 lists of values"),
        ({"values": lambda n, h: NOTHING}, "layer 1: no head has values"),
        ({"values": lambda n, h: math.inf * v(n, h)}, "the weight of v(1, 1) is not finite"),
        ({"values": lambda n, h: Learned("a b", 1) * v(n, h)}, "must be an identifier, got 'a b'"),
        ({"values": lambda n, h: Learned("a", h) * v(n, h)}, "the learned weight a has two starting values"),
        ({"values": lambda n, h: v(n / 2, h)}, "v(0.5, 1) must name a layer and a head by whole numbers"),
        ({"depth": DepthAttention(heads=1.5)}, "heads must be a whole number, got 1.5"),
        ({"depth": DepthAttention(score="hard")}, "score must be one of softmax, sigmoid, got hard"),
        ({"depth": DepthAttention}, "a depth rule is one of Residual(), Chain()"),
        ({"feed_forward": "no"}, "feed_forward must be true or false, got the text 'no'"),
        ({"values": lambda n, h: 3}, "layer 1, head 1: values must be sums of sources, one or a list, not 3"),
        ({"queries": lambda n, h: None}, "layer 1, head 1: queries must be a sum of sources, not None"),
        ({"depth": DepthAttention(block=0)}, "block must be a whole number from 1, got 0"),
        ({"depth": DepthAttention(window=0)}, "window must be a whole number from 1, got 0"),
        ({"dynamic": "often"}, "dynamic must be one of no, gate, initial, revised, got often"),
        (
            {"dynamic": "revised", "values": lambda n, h: NOTHING if h == 2 else v(n, h)},
            "layer 1: dynamic values need every head",
        ),
        (
            {"output_projection": False, "values": lambda n, h: NOTHING if h == 2 else v(n, h)},
            "layer 1: without an output projection every head must have values",
        ),
        (
            {
                "keys": lambda n, h: (k(n, h), k(1, h)) if h == 1 else k(n, h),
                "values": lambda n, h: (v(n, h), v(1, h)) if h == 1 else v(n, h),
            },
            "its heads must all attend over the same number",
        ),
    ],
)
def test_plans_without_meaning_say_why(changes, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        plan(Shape(2, 3), **changes)


@pytest.mark.parametrize(("layers", "heads"), [(0, 1), (1, 0), (1.5, 1), (True, 1)])
def test_shapes_without_meaning(layers, heads):
    with pytest.raises(ValueError, match="must be a whole number from 1"):
        Shape(layers, heads)


def test_lifetimes_tell_what_is_cached_from_what_a_token_needs():
    lives = {str(life.source): life for life in lifetimes(neutreno(Shape(3, 1)))}
    assert len(lives) == 9
    assert (lives["v(1, 1)"].last, lives["v(1, 1)"].cached) == (3, True)
    assert (lives["v(2, 1)"].last, lives["q(1, 1)"].last) == (2, 1)
    assert not any(life.cached for name, life in lives.items() if name.startswith("q"))
    beside_only = plan(Shape(2, 2), values=lambda n, h: v(n, 1), beside=lambda n, h: v(n, 2))
    assert {str(x.source) for x in lifetimes(beside_only) if x.cached and x.source.kind == "v"} == {
        "v(1, 1)",
        "v(2, 1)",
    }
    assert built(beside_only)["v", 2] == (1, 2)


def test_nobody_builds_what_nobody_reads():
    assert built(svformer(Shape(3, 2)))["v", 1] == (1, 2)
    assert ("v", 2) not in built(svformer(Shape(3, 2)))
    assert built(skipv1(Shape(3, 4)))["v", 2] == (1, 2)
    assert built(skipv0(Shape(3, 4)))["q", 2] == (1, 2)
    assert skipv0(Shape(3, 4)).live(2) == (1, 2)
    assert built(VARIANTS["shared-queries"].make(Shape(3, 2))).get(("q", 2)) is None


@pytest.mark.parametrize("copied", [deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])
def test_a_plan_that_was_asked_is_copied_as_it_is(copied):
    asked = skipv1(Shape(3, 4))
    of, lives = built(asked), lifetimes(asked)
    again = copied(asked)
    assert (again, built(again), lifetimes(again)) == (asked, of, lives)


@given(shapes, st.data())
@pytest.mark.long
def test_runs_say_what_every_head_reads(shape, data):
    candidate = data.draw(st.sampled_from(variant_plans(shape)))
    n = data.draw(st.integers(1, shape.layers))
    heads = candidate.live(n)
    mixes = tuple(candidate.head(n, h).values[0] for h in heads)
    reading = {}
    for run in runs(heads, mixes):
        for i in range(run.count):
            reading[run.first + i] = [
                (replace(weight, head=weight.head + i) if isinstance(weight, Gated) else weight, source)
                for weight, source in (
                    (weight, Source(kind, layer, start + i, *rest)) for weight, kind, layer, start, *rest in run.terms
                )
            ]
    sources = [[(t.weight, t.source) for t in mix.terms] for mix in mixes]
    assert reading == dict(zip(heads, sources, strict=True))


def test_runs_are_few():
    assert len(runs((1, 2, 3), (v(2, 1), v(2, 2), v(2, 3)))) == 1
    assert len(runs((1, 2, 3, 4), (v(2, 1), v(2, 2), v(1, 3), v(1, 4)))) == 2
    assert len(runs((1, 3), (v(2, 1), v(2, 3)))) == 2


def test_combined_plans_keep_what_each_changes():
    shape = Shape(4, 4)
    both = combine(skipv1(shape), neutreno(shape), attnres(shape))
    assert both.head(3, 4).values == skipv1(shape).head(3, 4).values
    assert both.head(3, 4).beside == neutreno(shape).head(3, 4).beside
    assert both.depth == DepthAttention()
    assert combine(vanilla(shape), skipv1(shape)) == skipv1(shape) == combine(skipv1(shape), skipv1(shape))
    assert combine(skipv0(shape), resformer(shape)).live(2) == (1, 2)


@pytest.mark.parametrize(
    ("pair", "what"),
    [
        ((skipv1, resformer), "value map"),
        ((cross_layer, VARIANTS["shared-keys"].make), "key map"),
        ((attnres, VARIANTS["denseformer"].make), "depth rule"),
        ((neutreno, VARIANTS["identity-mapping"].make), "terms beside the attention"),
        ((VARIANTS["residual-queries"].make, VARIANTS["shared-queries"].make), "query map"),
    ],
)
def test_two_changes_of_one_thing_clash(pair, what):
    with pytest.raises(Clash, match=what):
        combine(*(make(Shape(3, 2)) for make in pair))
    with pytest.raises(Clash, match="different shapes"):
        combine(vanilla(Shape(2, 2)), vanilla(Shape(3, 2)))


def test_plans_are_data():
    shape = Shape(3, 2)
    assert hash(skipv1(shape)) == hash(skipv1(shape))
    assert replace(vanilla(shape), depth=DepthAverage()) == VARIANTS["denseformer"].make(shape)
    assert learned(VARIANTS["resformer-learned"].make(shape)) == dict.fromkeys(
        ("own_2", "first_2", "own_3", "first_3"), 0.5
    )


def test_sums_can_be_written_either_way_round():
    assert v(1, 1) * 0.5 == 0.5 * v(1, 1) == v(1, 1) / 2 == -(-0.5 * v(1, 1))
    assert plan(Shape(2, 1), values=lambda n, h: [v(n, h)]) == vanilla(Shape(2, 1))


def test_a_table_of_another_size_is_a_problem():
    assert problems(replace(vanilla(Shape(2, 2)), table=())) == ["the table does not have 2 layers of 2 heads"]
