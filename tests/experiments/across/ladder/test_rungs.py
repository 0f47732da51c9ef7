"""Rungs are data: each adds one thing, and makes a model for every variant, task and width."""

from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.across.ladder.experiment import EVERY
from experiments.across.ladder.points import VARIANTS, Point, arm, key, model, points, rungs, widths
from experiments.across.ladder.rungs import INGREDIENTS, OF_OUR_OWN, ROTARY, cell, cells, in_order, ladder, plan_of
from icl.models.decoder import Decoder
from theory.plans.accounting import total_parameters
from theory.plans.depth import Chain, DepthAttention, Residual
from theory.plans.heads import toy_heads
from theory.plans.plan import Shape
from theory.plans.setting import Setting
from theory.toy.width import most_entries_at_width

from .made_up import CONFIG, EXPERIMENT, RUNGS

TASK = Setting(2, 3, 0.1)


def changed(before, after):
    a, b = (asdict(rung.architecture(TASK, 8)) for rung in (before, after))
    return {name for name in a if a[name] != b[name]}


def test_every_rung_adds_one_thing():
    second, third, fourth, fifth, sixth = ladder()
    assert changed(second, third) == set()
    assert (second.plan(plan_of("vanilla", Shape(2, 2))).depth, third.plan(plan_of("vanilla", Shape(2, 2))).depth) == (
        Chain(),
        Residual(),
    )
    assert changed(third, fourth) == {"score"}
    assert changed(fourth, fifth) == {"norm"}
    assert changed(fifth, sixth) == {"d_ff"}
    first = second.architecture(TASK, 5)
    assert (first.d_ff, first.norm, first.score, first.head_dim) == (0, "none", "linear", 5)


def test_orders():
    assert [rung.key for rung in ladder()] == list(RUNGS) == list("23456")
    assert [rung.key for rung in in_order(INGREDIENTS)] == list("23456")
    backwards = [rung.key for rung in in_order(INGREDIENTS[::-1])]
    assert backwards == ["2", "feed-forward", "norms+feed-forward", "softmax+norms+feed-forward", "6"]
    assert len({rung.key for rung in cells()}) == len({rung.ingredients for rung in cells()}) == 16
    passed = {rung.key for order in EVERY for rung in in_order(order)} | set("23456")
    assert passed == {rung.key for rung in cells()}
    assert cell(["softmax", "residual"]).key == "4"
    keys = [rung.key for rung in rungs(replace(CONFIG, orders=EVERY))]
    assert keys[:5] == list("23456")
    assert len(set(keys)) == len(keys) == 16


def test_rotary_positions_come_to_any_set():
    plain, turned = (cell(("softmax", "residual", *more)) for more in ((), (ROTARY,)))
    assert (turned.key, turned.plan(plan_of("vanilla", Shape(2, 2))).depth) == ("4+rotary", Residual())
    assert changed(plain, turned) == {"positions"}
    odd = turned.architecture(Setting(3, 2, 0.1), 3)
    assert (odd.positions, odd.width, plain.architecture(Setting(3, 2, 0.1), 3).width) == ("rope", 4, 3)


def test_a_depth_rule_of_its_own_stays_where_there_is_no_residual_stream():
    bare = cell(())
    assert isinstance(bare.plan(plan_of("attnres", Shape(2, 2))).depth, DepthAttention)
    assert isinstance(bare.plan(plan_of("skipv1", Shape(2, 2))).depth, Chain)


def test_our_own_variant_is_in_the_toy():
    (name,) = OF_OUR_OWN
    assert most_entries_at_width(toy_heads(plan_of(name, Shape(2, 2))), 3, 3) == 9
    assert plan_of(name, Shape(4, 4)) != plan_of("vanilla", Shape(4, 4))


@settings(max_examples=12)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 5), st.sampled_from(VARIANTS), st.data())
def test_every_point_is_a_model(d, n, more, variant, data):
    rung = data.draw(st.sampled_from([*cells(), cell((*INGREDIENTS, ROTARY))]))
    point = Point(rung, Setting(d, n, 0.1), variant, d + more)
    sizes, made = model(point, CONFIG)
    plan = plan_of(made, sizes.shape) if isinstance(made, str) else made
    decoder = Decoder(sizes, plan, std=0.1)
    assert sum(p.numel() for p in decoder.parameters()) == total_parameters(sizes, plan)
    assert decoder(torch.ones(2, 2 * n + 1, d)).shape == (2, 2 * n + 1, d)
    assert sizes.width == point.width + (ROTARY in rung.ingredients and point.width % 2)


def test_points_are_named_apart():
    every = points(CONFIG)
    assert len({p.key for p in every}) == len(every)
    assert key("4", TASK.key, "skipv1", 3) == Point(cell(INGREDIENTS[:2]), TASK, "skipv1", 3).key
    at_the_top = [p for p in every if p.width == 8]
    assert {p.variant for p in at_the_top} == {"vanilla"}
    assert widths(Setting(3, 4, 0.1), (1.0, 1.5, 2.0, 2.0)) == [3, 5, 6]
    reordered = [p for p in every if p.rung.key == "norms+feed-forward"]
    assert {(p.variant, p.width) for p in reordered} == {("vanilla", 2), ("svformer", 2), ("twin", 2)}


@pytest.mark.parametrize("rung", ladder(), ids=lambda rung: rung.key)
def test_arms(rung):
    """The same initial deviation on all rungs; the last answer alone is scored; a twin is vanilla."""
    vanilla, twin = (arm(Point(rung, TASK, v, 3), CONFIG, 5, 8000, 0.02) for v in ("vanilla", "twin"))
    assert vanilla.std == pytest.approx(CONFIG.gain / 3**0.5)
    assert vanilla.source.scored == "last"
    assert (vanilla.recipe.steps, vanilla.recipe.learning_rate, vanilla.seed) == (8000, 0.02, 5)
    assert twin == replace(vanilla, twin=True)
    assert vanilla.name == "vanilla"
    assert arm(Point(rung, TASK, "first-added", 3), CONFIG, 5, 8000).name == "first-added"


KEYS = {  # frozen: a change orphans finished trainings (`tests/experiments/test_identities.py`)
    "2": "21379fd0433b998d",
    "4": "f42704fa9fd9d556",
    "6": "6996c3a13e132c45",
    "3+rotary": "2560bb652378fc23",
}


@pytest.mark.parametrize("rung", KEYS)
def test_keys_of_trainings(rung):
    config = EXPERIMENT.profiles["long"].config
    point = next(p for p in points(config) if p.rung.key == rung and p.variant == "svformer")
    assert arm(point, config, 3, 16_000, 0.01).key("cpu") == KEYS[rung]
