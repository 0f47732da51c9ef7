"""The linear toy: the distance of cross-layer attention from its block form in exact moments, and which does better."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import whole_numbers
from theory.errors import InvalidSize
from theory.plans.heads import ORDINARY, Head
from theory.prompts.moments import PromptMoments
from theory.resformer.in_context import biased_one_head_weights, block_distance
from theory.resformer.weights import ONE_HEAD, one_head_weights
from theory.skipv1.bias import skipv1_minimum
from theory.skipv1.gap_weights import mha_weights
from theory.toy.population import PopulationLoss, Weights

SIGMAS = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(3)])


def test_distance_is_quadratic_in_the_distance_of_the_keys():
    rng = np.random.default_rng(2)
    readout, x, y, of_x = (rng.standard_normal((3, 3)) for _ in range(4))
    whole = block_distance(3, 5, 0.5, readout, x, y, of_x)
    assert block_distance(3, 5, 0.5, readout, x / 7, y / 7, of_x / 7) == pytest.approx(whole / 49, rel=1e-12)
    assert block_distance(3, 5, 0.5, readout, 0 * x, 0 * y, 0 * of_x) == 0


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


@pytest.mark.parametrize("name", sorted(PLANS))
def test_what_can_be_explained_made_one_per_cent_less_is_broken(name):
    """One ordinary head with B = 100 of cross-layer attention; Eqn. (7)'s one head, which attains its bound."""
    d, n, sigma, rank = 3, 8, 0.3, 2
    loss, entries = population(d, n, sigma, name), PLANS[name][1](d, rank)
    weights = one_head_weights(d, n, sigma, rank)
    if name == "cross-layer":
        near = mha_weights(d, n, sigma, rank, 100.0)
        weights = Weights(near.a, near.b, *(np.stack([x[0], 0 * x[0], 0 * x[0], 0 * x[0]]) for x in (near.w, near.k)))
    share = n / (n + d + 1 + sigma**2)
    assert loss.zero_loss - loss.value(weights) > 0.99 * share * entries


@pytest.mark.parametrize(
    "call",
    [
        lambda: block_distance(2, 0, 0.1, *[np.eye(2)] * 4),
        lambda: block_distance(2, 3, 0.1, np.eye(2), np.eye(3), np.eye(2), np.eye(2)),
        lambda: biased_one_head_weights(2, 3, 0.1, 1, np.eye(3)),
        lambda: biased_one_head_weights(2, 3, 0.1, 3, np.eye(2)),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidSize):
        call()
