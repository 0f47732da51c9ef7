"""The refitted projection against a least-squares solver, over sizes from 1, odd ones, and singular moments."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.reading.refit import excess, least_error, moments, refit, ridge_bound, shift_bound, squared_error

EXACT = 1e-8
sizes = st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 7), st.integers(1, 7))
seeds = st.integers(0, 2**16)


def drawn(size, seed):
    """Outputs, reads of a rank, and probabilities of some contexts."""
    contexts, outputs, reads, rank = size
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((contexts, rank)) @ rng.standard_normal((rank, reads))
    chance = rng.uniform(0.2, 2, contexts)
    return rng.standard_normal((contexts, outputs)), z, chance / chance.sum()


def error(y, z, chance, projection):
    return chance @ ((y - z @ projection.T) ** 2).sum(1)


@given(sizes, seeds)
def test_refit_has_the_least_error(size, seed):
    y, z, chance = drawn(size, seed)
    of = moments(y, z, chance)
    root = np.sqrt(chance)[:, None]
    best = np.linalg.lstsq(root * z, root * y, rcond=None)[0].T
    least = error(y, z, chance, best)
    assert error(y, z, chance, refit(of)) == pytest.approx(least, abs=EXACT)
    assert least_error(of) == pytest.approx(least, abs=EXACT)
    other = np.random.default_rng(seed + 1).standard_normal(best.shape)
    assert squared_error(of, other) == pytest.approx(error(y, z, chance, other), rel=EXACT)
    assert excess(of, other) == pytest.approx(error(y, z, chance, other) - least, rel=1e-6, abs=EXACT)


@given(sizes, seeds, st.floats(1e-3, 1e3), st.booleans())
def test_ridge_costs_no_more_than_its_bound(size, seed, ridge, pulled):
    y, z, chance = drawn(size, seed)
    of = moments(y, z, chance)
    toward = np.random.default_rng(seed + 1).standard_normal((size[1], size[2])) if pulled else None
    start = np.zeros((size[1], size[2])) if toward is None else toward
    found = refit(of, ridge, toward)
    cost = error(y, z, chance, found) - least_error(of)
    assert cost <= ridge_bound(of, ridge, toward) * (1 + EXACT) + EXACT
    assert cost <= error(y, z, chance, start) - least_error(of) + EXACT

    def penalised(w):
        return error(y, z, chance, w) + ridge * ((w - start) ** 2).sum()

    nearby = found + 1e-3 * np.random.default_rng(seed + 2).standard_normal(found.shape)
    assert penalised(found) <= penalised(nearby)


@given(st.integers(2, 9), st.integers(1, 3), st.integers(1, 4), seeds)
def test_another_distribution(contexts, outputs, reads, seed):
    y, z, _ = drawn((contexts, outputs, reads, reads), seed)
    rng = np.random.default_rng(seed + 1)
    density = rng.uniform(0.3, 3, contexts)
    density /= density.mean()
    chance = density / contexts
    root = np.sqrt(chance)[:, None]
    best = np.linalg.lstsq(root * z, root * y, rcond=None)[0].T
    there = error(y, z, chance, refit(moments(y, z)))
    bound = shift_bound(float(density.min()), float(density.max()))
    assert there <= bound * error(y, z, chance, best) * (1 + EXACT) + EXACT


def test_errors_are_exact_in_fractions():
    y, z = (np.vectorize(Fraction, otypes=[object])(np.array(x)) for x in ([[1], [3]], [[1, 2], [0, 1]]))
    of = moments(y, z, np.array([Fraction(1, 3), Fraction(2, 3)]))
    w = np.vectorize(Fraction, otypes=[object])(np.array([[1, 1]]))
    assert squared_error(of, w) == Fraction(1, 3) * 4 + Fraction(2, 3) * 4
    assert shift_bound(Fraction(1, 2), Fraction(3, 2)) == Fraction(4, 3)


def test_bad_input():
    with pytest.raises(BadInput):
        moments(np.ones((2, 1)), np.ones((3, 1)))
    with pytest.raises(BadInput):
        moments(np.ones((2, 1)), np.ones((2, 1)), np.ones(3))
    with pytest.raises(BadInput):
        refit(moments(np.ones((2, 1)), np.ones((2, 1))), -0.1)
    for bounds in ((0, 2), (0.5, 0.9), (1.5, 2)):
        with pytest.raises(BadInput):
            shift_bound(*bounds)
