"""Recall where a token holds a key and its value: one layer's scores, its loss, and who is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.plans.mix import v
from theory.plans.names import resolve
from theory.plans.plan import Shape, plan
from theory.toy.paired_recall import arc, least_margin, narrow_floor, ordinary_head, paired_codes


@given(st.integers(1, 6), st.integers(1, 12), st.integers(3, 12), st.integers(0, 10**6))
def test_one_layer_answers_every_query(n, keys, values, seed):
    """The layer of the proof, written out: scores, a softmax, minus the mean, a linear readout."""
    rng = np.random.default_rng(seed)
    n = min(n, keys, values)
    chosen, answers = rng.permutation(keys)[:n], rng.permutation(values)[:n]
    codes = paired_codes(keys, values)
    assert codes.shape == (keys + values, 2)
    of_keys, of_values = codes[:keys], codes[keys:]
    pairs = of_keys[chosen] + of_values[answers]
    for count, pair in enumerate(rng.permutation(n), 1):
        query = of_keys[chosen[pair]]
        tokens = np.concatenate([pairs, of_keys[chosen[rng.permutation(n)[: count - 1]]], [query]])
        scores = tokens @ query
        others = np.delete(scores, pair)
        assert scores[pair] - others.max() >= least_margin(keys) - 1e-9 * scores[pair]
        attention = np.exp(80 * (scores - scores.max()) / least_margin(keys))
        state = query - attention @ tokens / attention.sum()
        assert (-of_values @ state).argmax() == answers[pair]
        np.testing.assert_allclose(state, -of_values[answers[pair]], atol=1e-9)


@given(st.integers(1, 40))
def test_points_of_the_arc_are_told_apart_by_their_own_directions(count):
    points = arc(count)
    assert points.shape == (count, 2)
    np.testing.assert_allclose((points**2).sum(1), 1)
    products = points @ points.T
    assert (products.argmax(1) == np.arange(count)).all()
    assert products.min() >= 0.5 - 1e-12


@given(st.integers(3, 20), st.integers(0, 10**6))
def test_no_scores_of_one_number_cost_less(values, seed):
    """Of any u_v x the mean loss over all values asked for, with an x of the best size and sign for each."""
    rng = np.random.default_rng(seed)
    readout = rng.normal(size=values) * 10.0 ** rng.uniform(-2, 2)
    scores = readout * np.concatenate([-np.geomspace(1e-3, 1e3, 40), [0], np.geomspace(1e-3, 1e3, 40)])[:, None]
    losses = np.logaddexp.reduce(scores, axis=1, keepdims=True) - scores
    assert losses.min(0).mean() >= narrow_floor(values) - 1e-12


def test_sizes():
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
def test_other_plans_are_refused(refused, why):
    with pytest.raises(BadInput, match=why):
        ordinary_head(refused)


def test_a_later_head_may_be_the_ordinary_one():
    mixed = plan(Shape(1, 3), values=lambda n, h: v(1, 3) + v(1, 1) if h == 1 else v(n, h))
    assert ordinary_head(mixed) == 2
