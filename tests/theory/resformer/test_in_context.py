"""The linear toy: what no weights pass, and ResFormer's one head, in exact numbers and in floats."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import whole_numbers
from theory.plans.heads import ORDINARY, Head
from theory.prompts.moments import PromptMoments
from theory.resformer.in_context import biased_one_head_weights
from theory.resformer.weights import ONE_HEAD, one_head_weights
from theory.skipv1.bias import skipv1_minimum
from theory.skipv1.gap import loss_gap
from theory.toy.population import PopulationLoss, Weights
from theory.toy.value_maps import explained_entries

SIGMAS = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(3)])


@settings(max_examples=25)
@given(st.data())
def test_one_head_attains_the_minimum_around_every_w0(data):
    d = data.draw(st.integers(1, 3))
    n, sigma, rank = data.draw(st.integers(1, 6)), data.draw(SIGMAS), data.draw(st.integers(0, d))
    w0 = whole_numbers(data.draw, d, d)
    loss = PopulationLoss(PromptMoments(d, n, sigma, w0, centred=True), ONE_HEAD)
    assert loss.value(biased_one_head_weights(d, n, sigma, rank, w0)) == skipv1_minimum(d, n, sigma, rank)


THEIRS = Head(copied=0, raw=1, key_copied=0, key_raw=1)
PLANS = {
    "cross-layer": ((ORDINARY, THEIRS, ORDINARY, THEIRS), lambda d, a: a * (d - a)),
    "block form": (ONE_HEAD, lambda d, a: a * d),
}


@cache
def population(d, n, sigma, name):
    return PopulationLoss(PromptMoments(d, n, sigma), PLANS[name][0])


@st.composite
def compressions_and_keys(draw):
    """Sizes, and any A, B and K of the plan; readouts are then the best there are."""
    d, n, sigma = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 8])), draw(st.sampled_from([0.0, 0.3, 2.0]))
    rank, name = draw(st.integers(0, d)), draw(st.sampled_from(sorted(PLANS)))
    rng, heads = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), PLANS[name][0]
    a, b, k = (rng.standard_normal(size) for size in ((rank, d), (d - rank, d), (len(heads), d, rank)))
    scale = 10 ** draw(st.floats(-1, 3))  # of B, whose growth brings MHA near its infimum
    return name, population(d, n, sigma, name), (d, n, sigma, rank), (a, scale * b, k[: 1 if name[0] == "b" else None])


def explains_no_more(case):
    name, loss, (d, n, sigma, rank), (a, b, k) = case
    best = loss.best_readout(Weights(a, b, np.zeros((len(PLANS[name][0]), d, d)), k))
    share = n / (n + d + 1 + sigma**2)
    explained = loss.zero_loss - loss.value(best)
    assert explained <= share * PLANS[name][1](d, rank) + 1e-9 * d**2


WEIGHTS = given(compressions_and_keys())
test_no_weights_explain_more = WEIGHTS(explains_no_more)
test_no_weights_explain_more_in_ten_thousand_draws = pytest.mark.slow(
    settings(max_examples=10_000, deadline=None)(WEIGHTS(explains_no_more))
)


@given(st.data())
def test_one_head_attains_the_closed_form_in_floats(data):
    d = data.draw(st.integers(1, 6))
    n, rank, sigma = data.draw(st.tuples(st.integers(1, 20), st.integers(0, d), st.floats(0, 3)))
    weights = one_head_weights(d, n, sigma, rank)
    assert all(x.dtype == np.float64 for x in weights.arrays())
    loss = PopulationLoss(PromptMoments(d, n, sigma), ONE_HEAD)
    rounding = 8 * np.finfo(float).eps * (2 * d) ** 4 * loss.zero_loss  # of (2d)^4 moments, none above the zero loss
    assert abs(loss.value(weights) - loss_gap(d, n, sigma, rank).skipv1) <= rounding
    assert explained_entries(ONE_HEAD, d, rank) == rank * d


def test_they_are_exact_for_a_fraction():
    exact, floats = one_head_weights(3, 4, Fraction(1, 2), 2), one_head_weights(3, 4, 0.5, 2)
    assert isinstance(exact.w[0, 0, 0], Fraction)
    for x, y in zip(exact.arrays(), floats.arrays(), strict=True):
        np.testing.assert_allclose(x.astype(float), y, rtol=1e-15)
