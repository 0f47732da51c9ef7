"""Descents on the exact loss: many begun and the lowest of them finished, and gradient flow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.plans.heads import MHA, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.prompts.setting import zero_loss
from theory.skipv1 import gap
from theory.toy.flow import gradient_flow
from theory.toy.minimise import SCREENING, minimise
from theory.toy.population import PopulationLoss, Weights

AROUND = PopulationLoss(PromptMoments(4, 2, 0.1, 4 * np.eye(4)), SKIPV1)
LOWEST = 33.1199


@pytest.mark.long
def test_screening_finds_a_minimum_that_one_start_in_ten_leads_to():
    found = minimise(AROUND, 4, starts=16, finished=3)
    assert found.value == pytest.approx(LOWEST, abs=1e-3)
    assert (found.starts, found.finished) == (16, 3)
    assert 1 <= found.agreeing <= 3
    few = minimise(AROUND, 4, starts=3)
    assert few.value > LOWEST + 2  # the three descents that this project once took for it


@pytest.mark.long
def test_those_that_were_lowest_are_finished():
    """Screened alone, none of the starts is at its end; finishing one takes the lowest of them."""
    screened = minimise(AROUND, 2, starts=6, finished=6, max_iterations=SCREENING)
    one, all_of_them = (minimise(AROUND, 2, starts=6, finished=k) for k in (1, 6))
    assert all_of_them.value <= one.value < screened.value - 1e-5
    assert one.evaluations < all_of_them.evaluations
    assert one.agreeing == 1


@settings(max_examples=7, deadline=None)
@given(
    d=st.integers(1, 4),
    n=st.integers(1, 9),
    sigma=st.sampled_from((0.0, 0.3, 1.0)),
    heads=st.sampled_from((MHA, SKIPV1)),
    data=st.data(),
)
@pytest.mark.long
def test_at_no_prior_mean_it_ends_on_the_closed_forms(d, n, sigma, heads, data):
    rank = data.draw(st.integers(0, d))
    closed = (gap.mha_explained if heads == MHA else gap.skipv1_explained)(d, n, sigma, rank)
    loss = PopulationLoss(PromptMoments(d, n, sigma), heads)
    explained = zero_loss(d, n, sigma) - minimise(loss, rank, starts=6, finished=2).value
    assert -2e-3 * closed <= explained - closed <= 1e-9 * loss.zero_loss


def test_what_is_low_enough_ends_the_search():
    enough = 0.9 * AROUND.zero_loss
    assert minimise(AROUND, 4, starts=9, finished=2, until=lambda value: value < enough).starts == 1


@pytest.mark.parametrize("wrong", [{"starts": 0}, {"finished": 0}])
def test_no_descents_is_an_error(wrong):
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        minimise(AROUND, 4, **wrong)


def start(d, rank, heads, seed):
    rng = np.random.default_rng(seed)
    shapes = ((rank, d), (d - rank, d), (heads, d, d), (heads, d, rank))
    return Weights(*(0.4 * rng.standard_normal(shape) for shape in shapes))


@pytest.mark.parametrize(("heads", "d", "rank"), [(MHA, 3, 1), (SKIPV1, 2, 2), (SKIPV1, 1, 0)])
def test_small_steps_of_descent_follow_it(heads, d, rank):
    """Readouts are n W: their gradient is that of W over n, and W moves by that over n once more."""
    n = 5
    loss = PopulationLoss(PromptMoments(d, n, 0.5), heads)
    weights = start(d, rank, 2, 1)
    flow = gradient_flow(loss, weights, [0.1, 0.2])
    steps, losses = 500, []
    for step in range(steps):
        _, g = loss.value_and_gradient(weights)
        rate = 0.2 / steps
        a, b, w, k = (x - rate * y for x, y in zip(weights.arrays(), (g.a, g.b, g.w / n**2, g.k), strict=True))
        weights = Weights(a, b, w, k)
        if step + 1 in (steps // 2, steps):
            losses.append(loss.value(weights))
    np.testing.assert_allclose(flow.losses, losses, rtol=4e-3)
    for x, y in zip(flow.end.arrays(), weights.arrays(), strict=True):
        np.testing.assert_allclose(x, y, atol=5e-3)
