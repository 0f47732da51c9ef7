"""Screening: many descents begun, the lowest of them finished."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.plans.heads import MHA, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.prompts.setting import zero_loss
from theory.skipv1 import gap
from theory.toy.minimise import SCREENING, minimise
from theory.toy.population import PopulationLoss

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
