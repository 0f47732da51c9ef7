"""Theorem 6: at d = 2 one ordinary and one skip head pass below MHA's floor at rank 1, and so below MHA."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.plans.heads import SKIPV1
from theory.prompts import setting
from theory.prompts.moments import PromptMoments
from theory.skipv1.w0 import constant_share, mha_floor
from theory.skipv1.w0_d2 import rank_one_loss, rank_one_weights
from theory.toy.population import PopulationLoss, Weights

SIGMAS = st.sampled_from([0.3, 1.0, 2.0, 5.0])
ANGLES = st.sampled_from([0.0, 0.1, 0.8, np.pi / 2, 2.0])


def turned(s_1, s_2, left, right):
    one, two = (np.array([[np.cos(x), -np.sin(x)], [np.sin(x), np.cos(x)]]) for x in (left, right))
    return one @ np.diag([s_1, s_2]) @ two.T


def first_weights(n, sigma, w0):
    """The weights at the largest alpha, of one sign or the other, from 1 down."""
    for size in 0.5 ** np.arange(40):
        for alpha in (size, -size):
            try:
                return alpha, rank_one_weights(n, sigma, w0, alpha)
            except BadInput:
                continue
    raise AssertionError("Theorem 6 promises weights")


@settings(max_examples=40)
@given(st.integers(1, 6), SIGMAS, st.floats(0, 3), st.floats(1.01, 50), ANGLES, ANGLES)
def test_weights_pass_below_mha_s_floor(n, sigma, s_2, ratio, left, right):
    """Evaluated in fractions, as the readouts cancel large numbers; wherever Theorem 5 leaves MHA ahead at a = 1."""
    least = setting.signal_share(2, n, sigma) + (1 - constant_share(2, n, sigma, 0)) * s_2**2
    s_1 = ratio * (least / (constant_share(2, n, sigma, 0) - constant_share(2, n, sigma, 1))) ** 0.5
    w0 = turned(s_1, s_2, left, right)
    alpha, weights = first_weights(n, sigma, w0)
    moments = PromptMoments(2, n, Fraction(sigma), exact_floats(w0))
    loss = PopulationLoss(moments, SKIPV1).value(Weights(*(exact_floats(x) for x in weights.arrays())))
    expected = rank_one_loss(n, sigma, w0, alpha)
    floor = mha_floor(2, n, sigma, [s_1**2, s_2**2], 1)
    rounding = 1e3 * np.finfo(float).eps * float(moments.prior_power)
    assert abs(float(loss) - expected) <= rounding
    assert expected < floor + rounding
    assert floor <= min(mha_floor(2, n, sigma, [s_1**2, s_2**2], a) for a in (0, 2)) + rounding


def exact_floats(array):
    return np.array([Fraction(float(x)) for x in np.ravel(array)], dtype=object).reshape(np.shape(array))


@given(st.integers(1, 400), st.floats(0.01, 60), st.floats(0, 5))
def test_the_theorem_s_conditions_hold_where_it_is_needed(n, sigma, s_2):
    """Step (4) at the least s_1 it speaks of: lambda / kappa < 1 + r s_1^2, and 2 r s_1^2 is more if s_2 is large."""
    spread = 2 * n + 6 + 4 * sigma**2 + sigma**4
    r, tau = sigma**2 / (spread - sigma**2), [constant_share(2, n, sigma, k) for k in (0, 1)]
    kappa = tau[1] * (1 - sigma**2 / spread) / 2
    ratio = setting.signal_share(2, n, sigma) / n / kappa
    for small in (s_2, (8**0.5 + s_2) * sigma):
        least = (setting.signal_share(2, n, sigma) + (1 - tau[0]) * small**2) / (tau[0] - tau[1])
        assert ratio < 1 + r * least
        if small > 8**0.5 * sigma:
            assert 2 * r * least > ratio


def test_bad_input():
    w0 = turned(30.0, 1.0, 0.3, 0.4)
    for n, sigma, matrix, alpha in ((2, 0.0, w0, 0.1), (2, 1.0, 0 * w0, 0.1), (2, 1.0, w0, 0.0)):
        with pytest.raises(InvalidSize, match="must not be zero"):
            rank_one_weights(n, sigma, matrix, alpha)
    with pytest.raises(BadInput, match="try the other sign, or a smaller one"):
        rank_one_weights(2, 1.0, w0, 1e6)
    with pytest.raises(InvalidSize, match="n must be"):
        rank_one_loss(0, 1.0, w0, 0.1)
