"""Moments of a Wishart matrix against the pairing engine, known cases and sampling."""

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.laws import LAWS, LIKE_NORMAL, excess, moment
from theory.errors import BadInput, InvalidSize
from theory.prompts.isserlis import PromptEngine
from theory.prompts.regression import trace_moments
from theory.prompts.wishart import (
    LARGEST_POWER,
    independent_sandwich,
    inverse_sandwich,
    mean_inverse,
    mean_power,
    mean_traces,
    power_sums,
    wishart_sandwich,
)


@cache
def general(d):
    engine = PromptEngine(d, general=True)
    return engine, np.array(engine.covariance, dtype=object)


def word(engine, powers):
    """E of the product of tr S_xx^m over the powers, entry by entry."""
    total = 0
    for indices in product(range(engine.d), repeat=sum(powers)):
        factors, rest = [], list(indices)
        for m in powers:
            cycle, rest = rest[:m], rest[m:]
            factors += [("xx", cycle[i], cycle[(i + 1) % m]) for i in range(m)]
        total += engine.expect(*factors)
    return total


@pytest.mark.parametrize("powers", [(1,), (2,), (3,), (4,), (1, 1), (2, 1), (1, 3), (2, 2), (1, 2, 1)])
def test_traces_are_the_sum_of_all_pairings(powers):
    """For a covariance of symbols, at d = 2: a polynomial in n and its three entries."""
    engine, covariance = general(2)
    assert mean_traces(powers, power_sums(covariance, sum(powers)), engine.n) == word(engine, powers)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_powers_are_the_sum_of_all_pairings(power):
    engine, covariance = general(2)
    result = mean_power(power, covariance, engine.n)
    for i, j in product(range(2), repeat=2):
        paths = (((i, *inner), (*inner, j)) for inner in product(range(2), repeat=power - 1))
        assert result[i, j] == sum(engine.expect(*(("xx", p, q) for p, q in zip(*path, strict=True))) for path in paths)


def test_a_power_beside_a_trace():
    engine, covariance = general(2)
    result = mean_power(1, covariance, engine.n, times=(2,))
    for i, j in product(range(2), repeat=2):
        pairs = product(range(2), repeat=2)
        assert result[i, j] == sum(engine.expect(("xx", i, j), ("xx", p, q), ("xx", q, p)) for p, q in pairs)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, LARGEST_POWER))
def test_traces_are_those_of_the_isotropic_recursion(d, n, power):
    assert mean_traces((power,), [d] * power, n) == trace_moments(d, n, power)[power]


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_trace_of_the_mean_power(d, n, power, seed):
    """With a covariance of any rank, in whole numbers."""
    rng = np.random.default_rng(seed)
    factor = rng.integers(-2, 3, (d, rng.integers(1, d + 1))).astype(object)
    covariance = factor @ factor.T
    assert mean_power(power, covariance, n).trace() == mean_traces((power,), power_sums(covariance, power), n)


def at(polynomial, engine, n, covariance):
    """The polynomial at this n and covariance; it has no other symbols."""
    values = [(engine.n, n)]
    values += [(engine.covariance[i][j], covariance[i, j]) for i in range(engine.d) for j in range(i, engine.d)]
    numbers = {str(symbol): value for symbol, value in values}
    total = Fraction(0)
    for exponents, coefficient in polynomial.terms():
        term = Fraction(int(coefficient))
        for symbol, power in zip(engine.ring.gens, exponents, strict=True):
            term *= numbers[str(symbol)] ** power if power else 1
        total += term
    return total


@pytest.mark.parametrize("n", [6, 7, 12])
def test_inverse_moments_follow_from_shifted_polynomials(n):
    """W has density prop. to det(W)^((n - d - 1) / 2) e^..., and W^-1 = adj(W) / det(W): so E_n[g / det^2] is
    E_{n-4}[g] / E_{n-4}[det^2], and the like with n - 2 for one inverse.  At d = 2 all are polynomials in W."""
    engine, _ = general(2)
    covariance = np.array([[Fraction(2), Fraction(1, 2)], [Fraction(1, 2), Fraction(3)]])
    xx = [[("xx", i, j) for j in range(2)] for i in range(2)]
    adjugate = {(0, 0): (1, xx[1][1]), (0, 1): (-1, xx[0][1]), (1, 0): (-1, xx[1][0]), (1, 1): (1, xx[0][0])}
    det = [(1, (xx[0][0], xx[1][1])), (-1, (xx[0][1], xx[1][0]))]
    one = sum(sign * engine.expect(*pair) for sign, pair in det)
    two = sum(s * t * engine.expect(*p, *q) for (s, p), (t, q) in product(det, repeat=2))
    scale = covariance[0, 0] * covariance[1, 1] - covariance[0, 1] ** 2
    precision = np.array([[covariance[1, 1], -covariance[0, 1]], [-covariance[1, 0], covariance[0, 0]]]) / scale
    of_one, of_two = at(one, engine, n - 2, covariance), at(two, engine, n - 4, covariance)
    inverse = mean_inverse(precision, n)
    for cell, (sign, entry) in adjugate.items():
        assert inverse[cell] == sign * at(engine.expect(entry), engine, n - 2, covariance) / of_one
    for k, m in product(range(2), repeat=2):
        unit = np.full((2, 2), Fraction(0))
        unit[k, m] = Fraction(1)
        closed = inverse_sandwich(unit, precision, n)
        for i, j in product(range(2), repeat=2):
            (s, p), (t, q) = adjugate[i, k], adjugate[m, j]
            assert closed[i, j] == s * t * at(engine.expect(p, q), engine, n - 4, covariance) / of_two


def test_inverse_moments_by_sampling():
    """d = 3, within 5 standard errors; n is so large that the squares have variances."""
    rng = np.random.default_rng(0)
    d, n, samples = 3, 16, 100_000
    root, m = rng.standard_normal((2, d, d))
    x = root @ rng.standard_normal((samples, d, n))
    inverse = np.linalg.inv(x @ x.mT)
    precision = np.linalg.inv(root @ root.T)
    for sample, exact in (
        (inverse, mean_inverse(precision, n)),
        (inverse @ m @ inverse, inverse_sandwich(m, precision, n)),
        (inverse @ inverse, inverse_sandwich(np.eye(d), precision, n)),
    ):
        assert (abs(sample.mean(0) - exact) <= 5 * sample.std(0) / samples**0.5).all()
        assert not (abs(sample.mean(0) - 1.05 * exact) <= 5 * sample.std(0) / samples**0.5).all()


@pytest.mark.parametrize(("function", "least"), [(mean_inverse, 2), (lambda p, n: inverse_sandwich(p, p, n), 4)])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_inverse_moments_exist_from(function, least, d):
    function(np.eye(d), d + least)
    for n in (0, 1, d + least - 1):
        with pytest.raises(InvalidSize):
            function(np.eye(d), n)


def test_laws_are_standardised():
    assert [[moment(law, order) for order in (0, 1, 2)] for law in LAWS] == [[1, 0, 1]] * len(LAWS)
    assert [excess(law) for law in LAWS] == [-2, Fraction(-3, 4), Fraction(1, 4), 1, 0]
    assert [moment(LIKE_NORMAL, order) for order in (3, 4, 5)] == [0, 3, 0]


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 99))
def test_normal_inputs_have_no_excess(d, n, seed):
    rng = np.random.default_rng(seed)
    root, m = rng.integers(-3, 4, (2, d, d)).astype(object)
    zero = independent_sandwich(m, root, np.zeros(d, dtype=object), n)
    assert (zero == wishart_sandwich(m, root @ root.T, n)).all()


def test_bad_powers_are_refused():
    with pytest.raises(InvalidSize, match="a power must be a whole number from 1"):
        mean_traces((0,), [1], 2)
    with pytest.raises(InvalidSize, match="at most 12, got 13"):
        mean_traces((6, 7), [1] * 13, 2)
    with pytest.raises(BadInput, match="need p_1 to p_3, got 2 sums"):
        mean_traces((2, 1), [1, 1], 2)
    assert mean_traces((), [], 3) == 1
