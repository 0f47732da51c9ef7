"""Recall, plan by plan: scores and losses of shared keys, how keys are told apart beside values, and predictions."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.plans.heads import NotCovered
from theory.plans.mix import v
from theory.plans.names import resolve
from theory.plans.plan import Shape, plan
from theory.plans.recall import RecallSetting
from theory.toy import pairing, recall, rotary_recall
from theory.toy.lookup import circle, codes, least_width, told_apart
from theory.toy.paired_recall import arc, narrow_floor, ordinary_head
from theory.toy.pairing import Weights
from theory.toy.recall_prediction import predict_recall


@given(st.integers(1, 6), st.integers(6, 40), st.floats(0, 1e5))
def test_a_readout_leaves_at_most_this_loss(n, values, readout):
    """Of the query whose margin is least, with as many values elsewhere as there are."""
    worst = 0.0
    for query in range(1, n + 1):
        for asked in range(1, n + 1):
            scores = [*recall.shared_key_scores(n, query, asked), *[Fraction(0)] * (values - n)]
            apart = [readout * float(scores[asked - 1] - score) for score in scores]
            worst = max(worst, math.log(sum(math.exp(-x) for x in apart)))
    assert worst <= recall.most_loss(n, values, readout) + 1e-12


def test_settings():
    setting = RecallSetting(pairs=3, keys=4, values=5)
    assert (setting.told, setting.tokens, setting.width) == (6, 9, 9)
    assert (setting.blind, setting.unmatched) == (math.log(5), math.log(3))
    with pytest.raises(BadInput, match="keys must be at least as many as pairs"):
        RecallSetting(pairs=5, keys=4, values=5)


def turned_attention(n, query, asked, speed, match):
    """Head A's, from queries and keys that are turned: a pair of numbers for the asked key, another for all others."""
    t = 2 * n + query
    keys = np.zeros((t, 2))
    keys[[2 * asked - 2, t - 1], 0] = 1
    places = np.arange(1, t + 1)
    turn = np.exp(1j * speed * places)
    turned = (keys[:, 0] + 1j * keys[:, 1]) * turn
    scores = match * (turned[-1].conj() * turned).real
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


@given(st.integers(1, 6), st.data())
def test_rotary_scores_are_what_two_heads_and_the_readout_add_up_to(n, data):
    query, asked = (data.draw(st.integers(1, n)) for _ in range(2))
    speed, match = data.draw(st.floats(0, 3)), data.draw(st.floats(0, 50))
    t = 2 * n + query
    shares = np.array([[(j >= 2 * pair) / j for pair in range(1, n + 1)] for j in range(1, t + 1)])
    looked = -recall.strength(n) * turned_attention(n, query, asked, speed, match) @ shares
    wanted = looked + shares.mean(0) + recall.strength(n) / 2 * shares[-1]
    np.testing.assert_allclose(rotary_recall.rotary_scores(n, query, asked, speed, match), wanted, atol=1e-9)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 8))
def test_wider_rotary_heads_compute_the_same_before_they_are_turned(keys, values, more):
    width = 2 * ((max(2 * keys, values) + 1) // 2 + more)
    narrow = recall.shared_key_weights(3, keys, values, 7.0)
    wide = rotary_recall.rotary_weights(3, keys, values, width, 7.0)
    assert narrow.keys() == wide.keys()
    assert wide["look"].shape == wide["gives"].shape == (2, width, keys + 2 * values)
    for one, other in zip(*([x["look"].transpose(0, 2, 1) @ x["keys"] for x in (narrow, wide)]), strict=True):
        np.testing.assert_allclose(one, other)
    for outer, inner in (("puts", "gives"), ("answers", "takes")):
        np.testing.assert_allclose(narrow[outer] @ narrow[inner], wide[outer] @ wide[inner])
    used = np.abs(wide["keys"][0]).sum(1) > 0
    assert used[width // 2 - keys : width // 2].all()
    assert used.sum() == keys


def test_sizes_of_rotary_heads():
    np.testing.assert_allclose(rotary_recall.speeds(4, 100.0), [0.1, 1])
    with pytest.raises(BadInput, match="must be even, got 5"):
        rotary_recall.speeds(5)
    with pytest.raises(BadInput, match="a head needs 12 numbers or more, an even count, got 10"):
        rotary_recall.rotary_weights(2, 6, 3, 10)


SETTING = RecallSetting(pairs=4, keys=16, values=8)
SHAPE = Shape(2, 2)


@pytest.mark.parametrize(
    ("variant", "width"),
    [("vanilla", 4), ("skipv0", 4), ("svformer", 2), ("skipv1", 2), ("resformer", 2), ("shared-keys", None)],
)
def test_how_wide_a_token_has_to_be(variant, width):
    found = predict_recall(resolve(variant, SHAPE), SETTING)
    assert (found.least_width, found.vanilla_width, found.floor) == (width, 4, 0.0)
    assert (found.guess, found.plateau) == (math.log(8), math.log(4))


def test_keys_and_values_of_layer_1_alone_do_not_recall():
    found = predict_recall(resolve("shared-keys+svformer", SHAPE), SETTING)
    assert (found.floor, found.least_width) == (math.log(4), None)


def test_where_a_token_holds_both_no_plan_is_ahead():
    paired = RecallSetting(pairs=4, keys=16, values=8, form="paired")
    assert len({predict_recall(resolve(name, SHAPE), paired) for name in ("vanilla", "svformer", "shared-keys")}) == 1
    assert predict_recall(resolve("vanilla", SHAPE), paired).least_width == 2


def test_two_keys_or_values_need_a_number_less():
    few = RecallSetting(pairs=2, keys=2, values=8)
    assert [predict_recall(resolve(name, SHAPE), few).least_width for name in ("vanilla", "svformer")] == [3, 2]


def test_what_is_predicted_of_no_recall():
    with pytest.raises(NotCovered, match="three or more"):
        predict_recall(resolve("vanilla", SHAPE), RecallSetting(pairs=1, keys=1, values=8))
    with pytest.raises(NotCovered, match="three or more"):
        predict_recall(resolve("vanilla", SHAPE), RecallSetting(pairs=2, keys=4, values=2, form="paired"))
    with pytest.raises(BadInput):
        predict_recall(resolve("attnres", SHAPE), SETTING)


@given(st.integers(3, 20), st.integers(0, 10**6))
def test_no_scores_of_one_number_cost_less(values, seed):
    """Of any u_v x the mean loss over all values asked for, with an x of the best size and sign for each."""
    rng = np.random.default_rng(seed)
    readout = rng.normal(size=values) * 10.0 ** rng.uniform(-2, 2)
    scores = readout * np.concatenate([-np.geomspace(1e-3, 1e3, 40), [0], np.geomspace(1e-3, 1e3, 40)])[:, None]
    losses = np.logaddexp.reduce(scores, axis=1, keepdims=True) - scores
    assert losses.min(0).mean() >= narrow_floor(values) - 1e-12


def test_sizes_of_pairs():
    assert narrow_floor(4) == pytest.approx(math.log(2) / 2)
    with pytest.raises(BadInput, match="values must be a whole number from 3, got 2"):
        narrow_floor(2)
    with pytest.raises(BadInput, match="count must be a whole number from 1, got 0"):
        arc(0)


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (resolve("denseformer", Shape(2, 2)), "a residual stream"),
        (resolve("dva-initial-attention", Shape(2, 2)), "no dynamic values"),
        (plan(Shape(2, 2), values=lambda n, h: v(1, 3 - h) if n == 1 else v(n, h)), "an ordinary head in layer 1"),
        (plan(Shape(2, 2), beside=lambda n, h: v(n, h)), "an ordinary head in layer 1"),
    ],
)
def test_other_plans_are_refused_where_a_token_holds_both(refused, why):
    with pytest.raises(BadInput, match=why):
        ordinary_head(refused)


def test_a_later_head_may_be_the_ordinary_one():
    mixed = plan(Shape(1, 3), values=lambda n, h: v(1, 3) + v(1, 1) if h == 1 else v(n, h))
    assert ordinary_head(mixed) == 2


TWO = Shape(2, 2)


def drawn(seed, *, keys=2, values=3, d=4, width=2, heads=2):
    rng = np.random.default_rng(seed)
    maps = rng.normal(size=(3, 2, heads, width, d))
    codes = (rng.normal(size=(count, d)) for count in (keys, values, values))
    return Weights(*codes, *maps, output=rng.normal(size=(2, heads, d, width)))


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_head_on_the_first_values_reads_no_copy(seed):
    """So for it nothing depends on what layer 1 copies of values but through the scores."""
    weights = drawn(seed)
    shared = plan(TWO, values=lambda n, h: v(1, h))
    other = replace(weights, value=np.stack([weights.value[0], 0 * weights.value[1]]))
    assert pairing.leading_lead(shared, weights, 3, 2) == pairing.leading_lead(shared, other, 3, 2)
    nothing_copied = replace(weights, output=np.stack([0 * weights.output[0], weights.output[1]]))
    assert pairing.leading_lead(plan(TWO), nothing_copied, 3, 2) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("refused", "n", "query", "why"),
    [
        (plan(TWO), 1, 1, "n must be a whole number from 2, got 1"),
        (plan(TWO), 2, 3, "there are 2 queries, got number 3"),
        (plan(TWO), 2, 0, "query must be a whole number from 1, got 0"),
        (plan(Shape(3, 2)), 2, 1, "for two layers with a residual stream"),
        (plan(TWO, beside=lambda n, h: v(1, h)), 2, 1, "nothing beside the attention"),
    ],
)
def test_what_the_theorem_on_pairing_does_not_cover_is_refused(refused, n, query, why):
    with pytest.raises(BadInput, match=why):
        pairing.leading_lead(refused, drawn(0), n, query)


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
