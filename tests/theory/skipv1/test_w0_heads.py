"""Theorems 4 to 9: few heads around W0 != 0, one of each kind at d = 2, and how many are needed, in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import exact, whole_numbers
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import ORDINARY, SKIP, SKIPV1
from theory.prompts import setting
from theory.prompts.moments import PromptMoments
from theory.skipv1.w0 import constant_share, mha_floor, skipv1_floor
from theory.skipv1.w0_composition import (
    is_too_few,
    lead,
    losing_square,
    mha_weights,
    skipv1_weights,
    sufficient_heads,
    three_heads_gain,
    three_heads_weights,
)
from theory.skipv1.w0_d2 import rank_one_loss, rank_one_weights
from theory.skipv1.w0_heads import (
    d2_best_beta,
    d2_loss,
    d2_weights,
    large_prior,
    mha_loss_around,
    mha_weights_around,
    skipv1_few_heads_floor,
    threshold,
)
from theory.toy.composition import composition_excess
from theory.toy.exact import exact_loss, prompt_map
from theory.toy.few_terms import quaternions, spreads, terms_loss
from theory.toy.population import PopulationLoss, Weights

SIGMAS = [Fraction(0), Fraction(1, 3), Fraction(5)]


def eye(d):
    return exact(np.eye(d, dtype=int))


# Theorem 4


def test_the_reader_of_three_dimensions_is_scaled_at_its_best():
    """And it is better than the quaternion family with its remainder."""
    for n in (1, 4):
        weights = mha_weights_around(3, n, Fraction(1))
        right = weights.k @ weights.a
        left = np.concatenate([weights.w, weights.w @ weights.a])
        right = np.concatenate([right, weights.a.T @ right])
        loss = terms_loss(left, right, n, eye(3))
        assert loss == large_prior(3, n, Fraction(1)).mha
        for row in range(3):  # each row's scale is the best one
            for step in (Fraction(99, 100), Fraction(101, 100)):
                moved = left.copy()
                moved[:, row] = moved[:, row] * step
                assert terms_loss(moved, right, n, eye(3)) > loss
        family = quaternions(3)
        assert loss < sum(k / (n + k) for k in spreads(family))


@pytest.mark.parametrize(("d", "n", "sigma"), [(10, 1, Fraction(1)), (8, 2, Fraction(5)), (6, 1, Fraction(0))])
def test_ranks_below_d_set_the_floor_for_short_contexts(d, n, sigma):
    """There three products are worse than a lower rank with as many heads as one likes: Theorem 2's floors."""
    for c in (Fraction(9), Fraction(30)):
        below = [skipv1_floor(d, n, sigma, [c**2] * d, a) for a in range(d)]
        assert skipv1_few_heads_floor(d, n, sigma, c) == min(below)
        rho = setting.signal_share(d, n, sigma)
        shares = [x - d * sigma**2 - d**2 + rho * a * d for a, x in enumerate(below)]
        assert large_prior(d, n, sigma).small_ranks == min(shares) / c**2 < large_prior(d, n, sigma).skipv1


# Theorem 5


@settings(max_examples=20)
@given(
    st.integers(1, 9),
    st.sampled_from(SIGMAS),
    st.sampled_from([Fraction(11, 10), Fraction(3), Fraction(50)]),
    st.data(),
)
def test_two_dimensions_loss_and_map(n, sigma, beta, data):
    """The weights' loss, and P = nu tr(S) W0 + mu Z + mu S A^{-T}, in fractions."""
    w0 = whole_numbers(data.draw, 2, 2)
    weights = d2_weights(n, w0, beta)
    loss = exact_loss(SKIPV1, 2, n, sigma, w0)
    assert loss.value(weights) == d2_loss(n, sigma, (w0 * w0).sum(), beta)
    rng = np.random.default_rng(n)
    x, eta = exact(rng.integers(-5, 6, (2, 3))), exact(rng.integers(-5, 6, (2, 3)))
    y = w0 @ x + eta
    both = np.concatenate([x, y])
    p = (prompt_map(weights, SKIPV1) * (both @ both.T)).sum(axis=(2, 3))
    nu = Fraction(1, 2 * n + 2)
    mu, s = nu * (1 - 1 / beta**2), x @ x.T
    back = np.array([[0, 1], [-1, 0]]) / beta  # A^{-1}
    assert (back @ weights.a == eye(2)).all()
    assert (p == nu * np.trace(s) * w0 + mu * eta @ x.T + mu * s @ back.T).all()


@given(st.integers(1, 40), st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(6)]))
def test_two_dimensions_bound(n, sigma):
    """The stated choice of beta, rounded, comes to the bound and strictly below it: in fractions."""
    best = d2_best_beta(n, float(sigma))
    beta = Fraction(10**4) if best == float("inf") else Fraction(best).limit_denominator(10**4)
    rho = setting.signal_share(2, n, sigma)
    for power in (Fraction(0), Fraction(50)):
        bound = skipv1_floor(2, n, sigma, [power, 0], 2) + 2 * rho  # at a = 2 the floor is 4 rho below tau_0 w^2
        assert d2_loss(n, sigma, power, beta) < bound


@settings(max_examples=60)
@given(st.integers(1, 9), st.sampled_from([Fraction(0), Fraction(1), Fraction(3)]), st.data())
def test_two_dimensions_gap(n, sigma, data):
    """With the singular values' ratio up to the bracket, the gap to MHA's floors is at least rho; beyond, it is not."""
    small = Fraction(data.draw(st.integers(1, 20)))
    rho = setting.signal_share(2, n, sigma)
    bracket = 3 * n + 2 + 4 * (n + 1) * (n + 3 + 2 * sigma**2) / sigma**4 if sigma else Fraction(10**6)
    for ratio, holds in ((Fraction(1), True), (bracket, True), (bracket + 1, False)):
        squares = [max(ratio, Fraction(1)) * small, small]
        bound = skipv1_floor(2, n, sigma, squares, 2) + 2 * rho
        gap = min(mha_floor(2, n, sigma, squares, a) for a in range(3)) - bound
        assert gap >= rho or not holds
        if ratio == bracket and sigma:
            assert gap == rho
        if not holds and sigma:
            assert gap < rho


def test_no_threshold_where_mha_never_wins():
    assert threshold(2, 5, 0.1) is None
    assert threshold(20, 1, 0.1) is None


def test_bad_input():
    with pytest.raises(InvalidSize, match="of 2 heads at most 2 are skip heads, got 3"):
        large_prior(4, 2, 0.1, 2, 3)
    with pytest.raises(InvalidSize, match="heads must be a whole number from 1"):
        mha_weights_around(4, 2, 1.0, 0)
    with pytest.raises(InvalidSize, match="no way to read a trace with 3 heads is known here for d = 10 < 11"):
        mha_loss_around(10, 2, 0.1, 1.0, 3)
    assert skipv1_few_heads_floor(10, 2, 0.1, 1.0, 3, 1) > 0
    with pytest.raises(InvalidSize, match="d must be"):
        skipv1_few_heads_floor(0, 2, 0.1, 1.0)
    with pytest.raises(InvalidSize, match="sigma must be"):
        threshold(4, 2, -0.1)
    for call in (d2_loss, lambda n, sigma, *_: d2_best_beta(n, sigma)):
        with pytest.raises(InvalidSize, match="n must be"):
            call(0, 0.1, 1, 2)


ANY_SIGMA = st.sampled_from(SIGMAS)


@given(st.integers(1, 12), st.integers(1, 60), st.fractions(0, 50, max_denominator=5))
def test_lower_ranks_lose_more_than_too_few_heads_do(d, n, sigma):
    """Step (2) of Theorem 7, and what it is for: from `losing_square` on MHA is ahead, and just from there."""
    excess = composition_excess(d, n)
    full = d * constant_share(d, n, sigma, 0)
    for a in range(d):
        assert d - a + a * constant_share(d, n, sigma, d - a) - full >= excess
    square, rho = losing_square(d, n, sigma), setting.signal_share(d, n, sigma)
    assert square * (full + excess) - rho * d**2 == square * full


@given(st.data(), st.integers(1, 8), st.integers(1, 20), st.fractions(0, 50, max_denominator=5))
def test_lead_where_w0_is_not_lopsided(data, d, n, sigma):
    least = data.draw(st.fractions(Fraction(1, 9), 9, max_denominator=9))
    factors = st.fractions(1, 1 + Fraction(n * d, 2), max_denominator=9)
    squares = [least] + [least * data.draw(factors) for _ in range(d - 1)]
    rho = setting.signal_share(d, n, sigma)
    assert lead(d, n, sigma, squares) >= rho * (d**2 - d**2 // 4)
    singular = [*squares[: d // 2], *[Fraction(0)] * (d - d // 2)]
    assert lead(d, n, Fraction(0), singular) >= setting.signal_share(d, n, Fraction(0)) * (d**2 - d**2 // 4)


def test_lead_of_a_lopsided_w0_can_be_negative():
    """Why the condition is there: MHA at a = 1 sees a row of y y^T."""
    assert lead(2, 2, Fraction(3), [Fraction(10**6), Fraction(1)]) < 0


@settings(max_examples=4)
@given(st.integers(1, 6), ANY_SIGMA, st.fractions(-9, 9, max_denominator=5))
def test_three_heads_at_four_in_fractions(n, sigma, c):
    loss = exact_loss((ORDINARY, SKIP, SKIP), 4, n, sigma, c * exact(np.eye(4, dtype=int)))
    mha = setting.zero_loss(4, n, sigma) + 4 * c**2 * constant_share(4, n, sigma, 0)
    gain = three_heads_gain(4, n, sigma)
    assert mha - loss.value(three_heads_weights(4, n, c)) == gain * c**2 / (c**2 + 1)
    assert (gain > 0) == (3 * (n - 1) > sigma**2)


def test_impossible_sizes():
    with pytest.raises(InvalidSize):
        is_too_few(4, 1, 2)
    with pytest.raises(InvalidSize):
        three_heads_gain(5, 1, 0.0)
    with pytest.raises(InvalidSize):
        three_heads_weights(2, 1, 1.0)
    with pytest.raises(InvalidSize):
        skipv1_weights(2, 0, np.zeros((2, 3)))
    with pytest.raises(InvalidSize):
        mha_weights(0, 1, 1.0)
    with pytest.raises(InvalidSize):
        losing_square(2, 1, -1)


def test_random_w0_in_whole_numbers_needs_no_invertible_one():
    w0 = exact(np.array([[1, 2], [2, 4]]))
    n, sigma = 3, Fraction(0)
    loss = exact_loss(sufficient_heads(2), 2, n, sigma, w0).value(skipv1_weights(n, sigma, w0))
    assert loss == skipv1_floor(2, n, sigma, [Fraction(25), Fraction(0)], 2)


SOME_NOISE = st.sampled_from([0.3, 1.0, 2.0, 5.0])
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
@given(st.integers(1, 6), SOME_NOISE, st.floats(0, 3), st.floats(1.01, 50), ANGLES, ANGLES)
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


def test_two_dimensions_bad_input():
    w0 = turned(30.0, 1.0, 0.3, 0.4)
    for n, sigma, matrix, alpha in ((2, 0.0, w0, 0.1), (2, 1.0, 0 * w0, 0.1), (2, 1.0, w0, 0.0)):
        with pytest.raises(InvalidSize, match="must not be zero"):
            rank_one_weights(n, sigma, matrix, alpha)
    with pytest.raises(BadInput, match="try the other sign, or a smaller one"):
        rank_one_weights(2, 1.0, w0, 1e6)
    with pytest.raises(InvalidSize, match="n must be"):
        rank_one_loss(0, 1.0, w0, 0.1)
