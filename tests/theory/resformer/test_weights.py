"""ResFormer's weights: their loss in exact numbers, in floats, and against what its one head can reach at all."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.prompts.moments import PromptMoments
from theory.resformer.weights import ONE_HEAD, one_head_weights
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
