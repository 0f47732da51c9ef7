"""The best polynomial against linear algebra and integrals; its roots against the theorem of Sturm."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chi2

from theory.errors import BadInput, InvalidSize
from theory.prompts import regression, spectral

EPS = np.finfo(float).eps
HALF = Fraction(1, 2)
SIGMAS = [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)]

d_values, n_values, degrees = st.integers(1, 6), st.integers(1, 9), st.integers(1, 6)
sigmas, steep = st.sampled_from(SIGMAS), st.integers(2, 7)


def by_linear_algebra(d, n, sigma, degree):
    """The normal equations of the coefficients of q, from the moments."""
    moments = regression.trace_moments(d, n, 2 * degree)
    form = sympy.Matrix(degree, degree, lambda i, j: moments[i + j + 2] + sigma**2 * moments[i + j + 1])
    right = sympy.Matrix(degree, 1, lambda i, _: moments[i + 1])
    q = form.LUsolve(right)
    return d * (d - (right.T * q)[0]) + d * sigma**2, (1, *(-q))


@given(d_values, n_values, sigmas, degrees)
def test_best_polynomial_by_linear_algebra(d, n, sigma, degree):
    best = spectral.best_polynomial(d, n, sigma, degree)
    loss, residual = by_linear_algebra(d, n, sympy.Rational(sigma.numerator, sigma.denominator), degree)
    assert best.residual == tuple(Fraction(int(c.p), int(c.q)) for c in map(sympy.Rational, residual))
    assert best.loss == Fraction(int(loss.p), int(loss.q)) == spectral.polynomial_loss(d, n, sigma, best.residual)


@given(d_values, n_values, sigmas, st.integers(1, 4), st.fractions(-1, 1, max_denominator=50))
def test_polynomial_loss_of_equal_steps(d, n, sigma, count, eta):
    residual = [(-eta) ** j * math.comb(count, j) for j in range(count + 1)]
    assert spectral.polynomial_loss(d, n, sigma, residual) == regression.after_steps(d, n, sigma, count, eta)
    assert spectral.best_polynomial(d, n, sigma, 1).loss == regression.one_step(d, n, sigma)


@given(d_values, n_values, st.integers(1, 8))
def test_orthogonal_polynomial_is_orthogonal_and_its_roots_are_the_nodes(d, n, degree):
    pi = spectral.orthogonal(d, n, degree)
    moments = regression.trace_moments(d, n, 2 * degree)
    assert pi[-1] == 1
    for power in range(degree):
        assert sum(c * moments[j + power + 1] for j, c in enumerate(pi)) == 0
    nodes, weights = spectral.gauss_radau(d, n, degree)
    assert nodes[0] == 0 < nodes[1]
    assert all(weights > -EPS * d)
    value = np.polyval([float(c) for c in reversed(pi)], nodes[1:])
    size = np.polyval([abs(float(c)) for c in reversed(pi)], nodes[1:])
    assert np.all(abs(value) <= 8 * degree**2 * EPS * size)
    for power in range(2 * degree + 1):  # exact for every polynomial of degree 2 k
        rule = float(weights @ nodes**power)
        exact = float(regression.trace_moments(d, n, 2 * degree)[power])
        assert abs(rule - exact) <= 8 * (power + 1) * degree * EPS * exact


@given(d_values, n_values, st.sampled_from(SIGMAS[1:]), degrees)
def test_best_polynomial_is_ridge_at_the_nodes(d, n, sigma, degree):
    residual = spectral.best_polynomial(d, n, sigma, degree).residual
    for node in spectral.gauss_radau(d, n, degree)[0]:
        s = Fraction(float(node))
        slope = sum(j * abs(c) * s ** max(j - 1, 0) for j, c in enumerate(residual))  # the node is rounded
        off = sum(c * s**j for j, c in enumerate(residual)) - sigma**2 / (s + sigma**2)
        assert abs(off) <= 8 * degree**2 * EPS * (1 + slope * s)


@given(d_values, n_values, sigmas, st.integers(1, 12))
def test_quadrature_is_the_exact_loss(d, n, sigma, degree):
    exact = spectral.best_polynomial(d, n, sigma, degree).loss
    assert abs(spectral.best_loss(d, n, float(sigma), degree) - exact) <= 8 * degree * EPS * regression.zero(d, sigma)


@given(d_values, n_values, st.sampled_from([0.3, 1.0, 2.5]))
def test_bounds_on_ridge_close_in(d, n, sigma):
    tiny = 1e-12 * regression.zero(d, sigma)
    bounds = [spectral.ridge_bounds(d, n, sigma, degree) for degree in (1, 2, 4, 8, 16)]
    for (lower, upper), (later_lower, later_upper) in pairwise(bounds):
        assert lower - tiny <= later_lower <= later_upper + tiny <= upper + 2 * tiny
    if sigma == 2.5:
        assert bounds[-1][1] - bounds[-1][0] <= 1e-4 * bounds[-1][1]


@pytest.mark.parametrize(("n", "sigma"), [(1, 1.0), (2, 0.5), (9, 2.0)])
def test_ridge_in_one_dimension_lies_between(n, sigma):
    exact = quad(lambda root: 2 * root * sigma**2 / (root**2 + sigma**2) * chi2.pdf(root**2, n), 0, 12)[0] + sigma**2
    for degree in (1, 3, 32):
        lower, upper = spectral.ridge_bounds(1, n, sigma, degree)
        assert lower < exact < upper
    assert not any(lower < wrong * exact < upper for wrong in (0.98, 1.02))


@given(d_values, n_values)
def test_without_noise_it_comes_down_to_the_minimum_norm_solution(d, n):
    losses = [spectral.best_loss(d, n, 0.0, degree) for degree in (2, 6, 18)]
    assert losses == sorted(losses, reverse=True)
    least = regression.minimum_norm(d, n, 0)
    assert -1e-12 <= losses[-1] - least <= 0.5 * (losses[0] - least)


@given(d_values, n_values)
def test_threshold_of_two_layers_in_closed_form(d, n):
    e2, minus_e1, _ = (float(c) for c in spectral.orthogonal(d, n, 2))
    noise = (minus_e1 + math.sqrt(minus_e1**2 + 3 * (minus_e1**2 - 4 * e2))) / 3
    assert spectral.noise_threshold(d, n, 2) ** 2 == pytest.approx(noise, rel=1e-9)
    assert math.isinf(spectral.noise_threshold(d, n, 1))


def test_threshold_of_two_layers_for_long_prompts():
    """v / (d + 1) tends to 1 like 1 / n, with the moments as polynomials in n."""
    n, grid = sympy.Symbol("n"), range(1, 7)
    for d in (1, 2, 5):
        rows = [regression.trace_moments(d, k, 4) for k in grid]
        t = [sympy.interpolate([(k, row[j]) for k, row in zip(grid, rows, strict=True)], n) for j in range(5)]
        below = t[1] * t[3] - t[2] ** 2
        e1 = sympy.cancel((t[1] * t[4] - t[2] * t[3]) / below)
        e2 = sympy.cancel((t[2] * t[4] - t[3] ** 2) / below)
        assert sympy.limit((e1**2 - 4 * e2) / (2 * e1), n, sympy.oo) == d + 1
        assert sympy.limit(e1 / n, n, sympy.oo) == 2  # so 3 v^2 is negligible beside 2 e1 v
        assert spectral.noise_threshold(d, 10**6, 2) ** 2 == pytest.approx(d + 1, rel=1e-4)


def test_threshold_falls_towards_zero():
    for d, n in ((1, 1), (3, 8), (2, 30)):
        thresholds = [spectral.noise_threshold(d, n, degree) for degree in (2, 4, 8, 16, 32)]
        assert thresholds == sorted(thresholds, reverse=True)
        assert thresholds[-1] < 0.3 * thresholds[0]


@settings(max_examples=15)
@given(d_values, n_values, st.integers(1, 5), st.sampled_from([0.5, 0.97, 1.05, 2.0]))
@pytest.mark.long
def test_step_sizes_reach_the_best_polynomial_up_to_the_threshold(d, n, count, times):
    threshold = spectral.noise_threshold(d, n, count) if count > 1 else 1.0
    sigma = threshold * times
    steps, best = spectral.best_steps(d, n, sigma, count), spectral.best_loss(d, n, sigma, count)
    residual = np.poly1d([1.0])
    for eta in steps.steps:
        residual *= np.poly1d([-eta, 1.0])
    exact = spectral.polynomial_loss(d, n, Fraction(sigma), [Fraction(1), *map(Fraction, residual.coeffs[::-1][1:])])
    assert steps.loss == pytest.approx(float(exact), rel=1e-9)
    rounding = 1e-10 * best
    if times < 1 or count == 1:
        assert abs(steps.loss - best) <= rounding
    else:
        assert steps.loss > best + rounding
        assert min(np.diff(steps.steps)) <= 1e-3 * max(steps.steps)
    assert steps.loss <= regression.steps(d, n, sigma, count).value + rounding


@settings(max_examples=15)
@given(d_values, n_values, st.sampled_from([1.01, 1.5, 4.0]))
@pytest.mark.long
def test_two_steps_above_the_threshold_are_equal(d, n, times):
    sigma = spectral.noise_threshold(d, n, 2) * times
    equal = regression.steps(d, n, sigma, 2).value
    assert spectral.best_steps(d, n, sigma, 2).loss == pytest.approx(equal, rel=1e-9)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=4), st.lists(st.integers(1, 4), max_size=2))
def test_real_roots_are_counted_with_multiplicity(roots, complex_parts):
    s = sympy.Symbol("s")
    real = sympy.prod(s - z for z in roots)
    polynomial = sympy.Poly(real * sympy.prod(s**2 + c for c in complex_parts), s)
    coefficients = [Fraction(int(c)) for c in reversed(polynomial.all_coeffs())]
    assert spectral.is_real_rooted(coefficients) is (not complex_parts)


@given(n_values, sigmas, degrees)
def test_losses_of_one_output(n, sigma, degree):
    assert spectral.best_output_loss(0, n, sigma**2, degree) == sigma**2
    for d in (1, 3):
        assert (
            d * spectral.best_output_loss(d, n, sigma**2, degree) == spectral.best_polynomial(d, n, sigma, degree).loss
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda: spectral.best_polynomial(0, 3, HALF, 2),
        lambda: spectral.best_polynomial(2, 0, HALF, 2),
        lambda: spectral.best_polynomial(2, 3, -1, 2),
        lambda: spectral.best_polynomial(2, 3, HALF, 0),
        lambda: spectral.best_loss(2, 3, 0.5, spectral.LARGEST_DEGREE + 1),
        lambda: spectral.noise_threshold(2, 3, 0),
        lambda: spectral.best_steps(2, 3, 0.5, 2, starts=0),
        lambda: spectral.best_output_loss(2, 3, Fraction(-1), 2),
        lambda: spectral.ridge_bounds(2, 3, math.nan, 2),
    ],
)
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()


def test_a_residual_polynomial_is_one_at_zero():
    with pytest.raises(BadInput, match="is 1 at 0"):
        spectral.polynomial_loss(2, 3, HALF, [Fraction(2), Fraction(1)])
