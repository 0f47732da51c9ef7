"""Losses of estimators on the regression task: their order, and exact bounds on ridge."""

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from theory.errors import InvalidSize
from theory.prompts import regression, setting, spectral
from theory.skipv1 import gap as skipv1

d_values, k_values, sigma_values = st.integers(1, 7), st.integers(0, 12), st.sampled_from([0.0, 0.3, 1.0, 4.0])


@cache
def ridge(d, k, sigma):
    return regression.ridge(d, k, sigma, samples=500)


@given(d_values, k_values, sigma_values)
def test_order_of_the_estimators(d, k, sigma):
    """Bayes at most all others; more steps at most fewer; all at most zero but the least-norm solution."""
    bayes = ridge(d, k, sigma)
    zero, tiny = regression.zero(d, sigma), 1e-12 * regression.zero(d, sigma)
    several = [regression.steps(d, k, sigma, count).value for count in range(4)]
    lowest = bayes.value - 5 * bayes.stderr - tiny
    assert all(lowest <= loss for loss in (*several, regression.minimum_norm(d, k, sigma), zero))
    assert all(later <= sooner + tiny for sooner, later in pairwise(several))
    assert several[0] == zero
    assert several[1] == pytest.approx(regression.one_step(d, k, sigma), rel=1e-14)
    assert sigma or bayes.value == regression.minimum_norm(d, k, sigma)


@given(d_values, k_values, sigma_values)
def test_one_step_is_the_best_single_step(d, k, sigma):
    sigma = Fraction(sigma).limit_denominator(10)
    rate = 1 / (k + d + 1 + sigma**2)
    assert regression.after_steps(d, k, sigma, 1, rate) == regression.one_step(d, k, sigma)
    assert k == 0 or regression.best_step(d, k, sigma, 1) == pytest.approx(float(rate), rel=1e-6)
    if k:
        assert regression.one_step(d, k, sigma) == skipv1.loss_gap(d, k, sigma, d).skipv1
        assert regression.zero(d, sigma) == setting.zero_loss(d, k, sigma)


def test_many_steps_keep_a_distance_from_ridge():
    """They tend to a descent of bounded length c, set by the spectrum's tail, which leaves E exp(-2 c z^2)."""
    limit = minimize_scalar(lambda y: y / (4 * math.log(y - 1)), bounds=(2.1, 20), method="bounded").fun
    counts = (1, 2, 4, 8, 16, 32)
    lengths = [count * regression.best_step(1, 1, 0.0, count) for count in counts]
    losses = [regression.steps(1, 1, 0.0, count).value for count in counts]
    assert lengths == sorted(lengths)
    assert 0.9 * limit < lengths[-1] < limit == pytest.approx(0.898, abs=1e-3)
    assert losses == sorted(losses, reverse=True)
    assert (1 + 4 * limit) ** -0.5 < losses[-1] < 1.05 * (1 + 4 * limit) ** -0.5


@given(st.integers(1, 9), st.integers(0, 9))
def test_moments_of_the_spectrum(d, k):
    n, moments = k, regression.trace_moments(d, k, 8)
    assert moments[:3] == (d, n * d, n * d * (n + d + 1))
    assert moments[3] == n * d * (n**2 + d**2 + 3 * n * d + 3 * n + 3 * d + 4)
    assert moments[1:] == regression.trace_moments(k, d, 8)[1:]  # X X^T and X^T X have the same traces
    if d == 1:  # of chi-squared numbers
        assert list(moments) == [math.prod(k + 2 * i for i in range(j)) for j in range(9)]


@given(st.integers(1, 40), st.sampled_from([0.1, 1.0]))
def test_least_norm_diverges_next_to_the_peak_only(d, sigma):
    for k in range(2 * d + 4):
        infinite = abs(k - d) <= 1 and k > 0
        assert math.isinf(regression.minimum_norm(d, k, sigma)) == infinite
        assert regression.minimum_norm(d, k, 0.0) == d * max(d - k, 0)
    peak = [regression.minimum_norm(d, k, sigma) for k in (d + 2, d + 3, 100 * d)]
    assert peak == sorted(peak, reverse=True)


def test_nothing_to_learn_from():
    for loss in (regression.ridge(3, 0, 0.5), regression.steps(3, 0, 0.5, 4), regression.steps(3, 9, 0.5, 0)):
        assert (loss.value, loss.stderr) == (9.75, 0.0)
    assert regression.minimum_norm(1, 0, 0.5) == 1.25
    assert regression.best_step(3, 0, 0.5, 4) == 0.0


def test_ridge_is_deterministic_and_its_error_is_honest():
    assert regression.ridge(3, 4, 0.5, samples=200) == regression.ridge(3, 4, 0.5, samples=200)
    few, many = regression.ridge(3, 4, 0.5, samples=200), regression.ridge(3, 4, 0.5)
    assert many.stderr < few.stderr < 0.1
    assert abs(few.value - many.value) <= 4 * few.stderr


@pytest.mark.parametrize(("d", "k"), [(1, 5), (1, 6), (5, 1), (2, 6), (3, 12), (2, 10)])
@pytest.mark.parametrize("samples", [300, 2000])
def test_ridge_by_sampling_lies_between_the_exact_bounds(d, k, samples):
    """Few samples and heavy tails: where 1/s has no fourth moment it must not be a control variate."""
    low, high = spectral.ridge_bounds(d, k, 1.0, 24)
    estimate = regression.ridge(d, k, 1.0, samples=samples)
    assert low - 4 * estimate.stderr <= estimate.value <= high + 4 * estimate.stderr
    assert high - low < 0.02 * high


@pytest.mark.parametrize(
    "call",
    [
        lambda: regression.zero(0, 0.5),
        lambda: regression.one_step(2, -1, 0.5),
        lambda: regression.minimum_norm(2, 1.5, 0.5),
        lambda: regression.ridge(2, 3, -0.1),
        lambda: regression.ridge(2000, 2000, 0.1),
        lambda: regression.ridge(2, 3, 0.1, samples=3),
        lambda: regression.steps(2, 3, 0.1, -1),
        lambda: regression.steps(2, 3, 0.1, regression.LARGEST_COUNT + 1),
        lambda: regression.best_step(2, 3, math.nan, 1),
    ],
)
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()
