"""Recall where a token holds a key and its value: the loss of one layer, and who is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.plans.mix import v
from theory.plans.names import resolve
from theory.plans.plan import Shape, plan
from theory.toy.paired_recall import arc, narrow_floor, ordinary_head


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
