"""A term C x in the prediction: no weights go below the closed forms, with any number of heads."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import whole_numbers
from theory.errors import InvalidSize
from theory.plans.heads import ORDINARY, SKIP
from theory.prompts.moments import PromptMoments
from theory.skipv1.bias import mha_infimum, mha_weights, skipv1_minimum, skipv1_weights
from theory.toy.enough_heads import EnoughHeads

SIGMAS = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(3)])


@st.composite
def tasks(draw, d_max=4):
    """d, n, sigma, rank, W0 in whole numbers."""
    d = draw(st.integers(1, d_max))
    return d, draw(st.integers(1, 6)), draw(SIGMAS), draw(st.integers(0, d)), whole_numbers(draw, d, d)


@settings(max_examples=30)
@given(tasks(3), st.integers(0, 999))
def test_no_weights_go_below_with_any_number_of_heads(task, seed):
    d, n, sigma, rank, w0 = task
    if rank == 0:
        return
    rng = np.random.default_rng(seed)
    moments = PromptMoments(d, n, float(sigma), w0.astype(float), centred=True)
    a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
    floors = {(ORDINARY,): mha_infimum, (ORDINARY, SKIP): skipv1_minimum}
    for kinds, floor in floors.items():
        value = EnoughHeads(moments, kinds).value(a, b)
        assert value >= float(floor(d, n, sigma, rank)) - 1e-9 * moments.zero_loss
        if kinds != (ORDINARY,):  # and at generic A and B skip heads reach theirs
            assert value <= float(floor(d, n, sigma, rank)) + 1e-5 * moments.zero_loss


def test_bad_sizes_are_refused():
    for weights in (skipv1_weights, mha_weights):
        with pytest.raises(InvalidSize, match="W0 must be 2 x 2"):
            weights(2, 3, 0.1, 1, np.zeros((3, 3)))
    for value in (skipv1_minimum, mha_infimum):
        with pytest.raises(InvalidSize):
            value(2, 3, 0.1, 3)
