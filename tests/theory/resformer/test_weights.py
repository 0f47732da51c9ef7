"""ResFormer's weights: their loss in exact numbers, in floats, and against what its one head can reach at all."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.prompts.moments import PromptMoments
from theory.resformer.weights import ONE_HEAD, one_head_weights, value_factors
from theory.skipv1.gap import loss_gap
from theory.toy.population import PopulationLoss
from theory.toy.value_maps import explained_entries


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


@pytest.mark.parametrize("rank", [-1, 4])
def test_impossible_ranks_are_refused(rank):
    with pytest.raises(InvalidSize):
        one_head_weights(3, 4, 0.5, rank)


@given(st.tuples(*[st.fractions(min_value=Fraction(1, 8), max_value=8)] * 4), st.booleans())
def test_factors_lead_there_and_back(weights, negative):
    """own V_n + first V_1 and what layer 1's heads write stay as they are; and the way back undoes the way there."""
    mix, other = weights[:2], (weights[2], -weights[3] if negative else weights[3])
    by, back = value_factors(mix, other), value_factors(other, mix)
    assert (other[0] * by.later_values, other[1] * by.first_values) == mix
    assert by.first_values * by.first_output == 1
    assert by.later_values * back.later_values == by.first_values * back.first_values == 1


@pytest.mark.parametrize("mix", [(0, 1), (1, 0)])
def test_a_layer_left_out_is_not_made_up_for(mix):
    for pair in ((mix, (1, 1)), ((1, 1), mix)):
        with pytest.raises(BadInput, match="zero"):
            value_factors(*pair)
