"""Softmax skip heads: closed forms, quadrature, sampling and the proved bound against each other and against tokens."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.skipv1.claims.softmax import losses
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import MHA
from theory.prompts import setting
from theory.prompts.moments import PromptMoments
from theory.skipv1 import gap
from theory.skipv1.compressed import any_depth_floor, any_model_floor, best_model_loss
from theory.skipv1.softmax import (
    FOUR,
    THREE,
    TWO,
    gap_at_rank,
    gap_of_optima,
    own_token_share,
    small_logits_gain,
    softmax_weights,
)
from theory.skipv1.softmax_bound import certified
from theory.skipv1.softmax_moments import quadrature, sampled, sampled_loss
from theory.toy.population import PopulationLoss

SIGMAS = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(3)])


@pytest.mark.parametrize(
    ("d", "n", "sigma", "rank", "heads"),
    [(1, 1, 0.0, 1, THREE), (2, 3, 0.5, 1, FOUR), (3, 2, 0.2, 3, TWO), (4, 1, 1.0, 2, TWO)],
)
def test_quadrature_sampling_and_tokens_agree(d, n, sigma, rank, heads):
    moments = quadrature(d, n, sigma, rank, 0.8, nodes=22)
    step = moments.step(heads)
    exact = d * d + d * sigma**2 - moments.explained(d, heads)
    assert losses(softmax_weights(d, n, rank, heads, 0.8, step), heads, d, n, sigma).agrees(exact)
    estimate = sampled_loss(d, n, sigma, rank, heads, 0.8, step)
    assert abs(estimate.value - exact) <= 5 * estimate.stderr
    assert estimate.stderr < 0.01 * d * d
    drawn = sampled(d, n, sigma, rank, 0.8)
    for name in ("signal", "square", "even"):
        assert getattr(drawn, name) == pytest.approx(getattr(moments, name), rel=0.05)


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 2), SIGMAS, st.integers(1, 4), st.floats(0.005, 0.24))
def test_proved_moments_are_on_the_safe_side(d, n, sigma, rank, eps):
    rank = min(rank, d)
    exact, proved = quadrature(d, n, sigma, rank, eps, nodes=24), certified(d, n, sigma, rank, eps)
    assert proved.signal <= exact.signal * (1 + 1e-9)
    assert proved.square >= exact.square * (1 - 1e-9)
    assert proved.even >= exact.even * (1 - 1e-9)


def test_where_the_bound_on_the_signal_is_negative_nothing_is_proved():
    proved = certified(8, 2, 0.5, 8, 0.24)
    assert proved.signal == 0 < proved.square
    assert proved.explained(8, THREE) == 0


@given(st.integers(1, 6), st.integers(1, 10**6), SIGMAS)
def test_proved_bounds_tend_to_linear_heads_from_above(d, n, sigma):
    """Small logits are proved to explain more than linear heads can, by what the closed form says."""
    for rank in range(1, d + 1):
        linear = gap.skipv1_explained(d, n, sigma, rank)
        gain = float(small_logits_gain(d, n, sigma, rank))
        eps = 0.02 / (1 + d) ** 0.5
        assert gain > 0
        if n <= 5:  # for longer prompts the fourth power of eps is no smaller than the gain
            assert certified(d, n, sigma, rank, eps).explained(d, THREE) > float(linear) + 0.5 * gain * eps**2
        near = certified(d, n, sigma, rank, 1e-3).explained(d, THREE)
        assert near == pytest.approx(float(linear), rel=1e-4)


@given(st.integers(1, 12), st.integers(1, 300), SIGMAS)
def test_the_gap_of_the_optima_is_positive_and_tends_to_three_quarters(d, n, sigma):
    here = gap_of_optima(d, n, sigma)
    assert 0 < here <= setting.signal_share(d, n, sigma) * d * d
    assert here == max(
        gap_at_rank(d, n, sigma, a)
        + any_model_floor(d, n, sigma, d // 2)
        - any_model_floor(d, n, sigma, a)
        + gap.skipv1_explained(d, n, sigma, d)
        - gap.skipv1_explained(d, n, sigma, a)
        for a in range(d + 1)
    )
    endless = gap_of_optima(d, 10**9, sigma)
    assert abs(endless - (d * d - d * d // 4)) < Fraction(1, 1000)


@settings(max_examples=5)
@given(st.integers(1, 5), st.integers(1, 12), SIGMAS)
@pytest.mark.long
def test_no_linear_heads_lie_below_the_floor(d, n, sigma):
    """The floor of any model, the posterior mean of squeezed tokens, and MHA's infimum, in this order."""
    for rank in {0, d // 2, d}:
        floor = any_model_floor(d, n, sigma, rank)
        assert any_depth_floor(d, sigma, rank) <= floor <= gap.loss_gap(d, n, sigma, rank).mha
        best = best_model_loss(d, n, float(sigma), rank)
        assert float(floor) <= best.value + 6 * best.stderr + 1e-9
        assert best.value <= float(gap.loss_gap(d, n, sigma, rank).mha) + 6 * best.stderr + 1e-9


@given(st.integers(1, 5), SIGMAS)
def test_the_query_s_own_token_costs_less_the_longer_the_prompt(d, sigma):
    rho = [setting.signal_share(d, n, sigma) for n in (1, 10, 10**6)]
    shares = [own_token_share(d, n, sigma) for n in (1, 10, 10**6)]
    assert all(0 < share < without for share, without in zip(shares, rho, strict=True))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > Fraction(999, 1000)


def test_linear_attention_with_these_weights_is_the_optimum_too():
    """The same A, and K without the small scale, in linear heads: at rank d one of each kind has the least loss."""
    d, n, sigma = 3, 4, 0.5
    step = float(setting.signal_share(d, n, sigma)) / n
    weights = softmax_weights(d, n, d, TWO, 1.0, step)
    # linear scores have no denominator 2 n, and W of the ordinary head cancels S_xx alone
    linear = type(weights)(weights.a, weights.b, weights.w / (2 * n), weights.k)
    assert PopulationLoss(PromptMoments(d, n, sigma), TWO).value(linear) == pytest.approx(
        gap.loss_gap(d, n, sigma, d).skipv1
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: softmax_weights(2, 3, 3, TWO, 0.1, 1.0),
        lambda: quadrature(2, 3, 0.5, 0, 0.1),
        lambda: quadrature(2, 6, 0.5, 1, 0.1),
        lambda: sampled(2, 3, 0.5, 1, 0.1, samples=2),
        lambda: any_model_floor(2, 0, 0.5, 1),
        lambda: best_model_loss(2, 3, 0.5, -1),
        lambda: own_token_share(2, 0, 0.5),
        lambda: small_logits_gain(0, 1, 0.5, 0),
    ],
)
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: softmax_weights(2, 3, 1, THREE, 0.1, 1.0),
        lambda: softmax_weights(2, 3, 1, MHA, 0.1, 1.0),
        lambda: certified(2, 3, 0.5, 1, 0.25),
        lambda: certified(2, 3, 0.5, 0, 0.1),
        lambda: quadrature(2, 3, 0.5, 1, 0.0),
    ],
)
def test_what_the_theorem_does_not_cover(call):
    with pytest.raises(BadInput):
        call()
