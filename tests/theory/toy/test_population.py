"""The exact population loss: against rational pairing sums, and its gradient against differences."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.testing import head_tuples
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import MHA, SKIPV1, Head, shares
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import PromptMoments
from theory.toy.exact import prompt_map, rational
from theory.toy.population import PopulationLoss, Weights

MIXED_KEYS = Head(Fraction(1, 2), Fraction(-1, 3), key_copied=Fraction(2), key_raw=Fraction(-1, 2))
SHARED = (Head(1, 0, key="k"), Head(0, 1, key="k"), Head(0, 1, 0, 1, readout="w"), Head(1, 0, 0, 1, readout="w"))
HEADS = [MHA, SKIPV1, (Head(Fraction(1, 2), Fraction(-1, 3)),), (MIXED_KEYS,), SHARED]


weights = st.sampled_from([0.0, 1.0, 0.5, -2.0])
labels = st.sampled_from([None, "one", "two"])
shared_heads = st.lists(
    st.builds(Head, weights, weights, weights, weights, labels, labels), min_size=1, max_size=4
).map(tuple)


def shapes(d, rank, heads):
    readouts, keys = (shares(heads, label)[0] for label in ("readout", "key"))
    return ((rank, d), (d - rank, d), (readouts, d, d), (keys, d, rank))


def random_weights(rng, d, rank, heads):
    return Weights(*(rng.standard_normal(s) for s in shapes(d, rank, heads)))


def covariance(rng, d):
    """A covariance of whole numbers, of any rank."""
    factor = rng.integers(-2, 3, (d, d)).astype(object) + Fraction(0)
    return factor @ factor.T


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize(("d", "rank"), [(1, 0), (1, 1), (2, 1), (2, 2)])
def test_value_equals_the_sum_of_all_pairings(d, rank, heads, general):
    """E ||(P - W*) x||^2 + d sigma^2 with P expanded into entries of S: no formula of `moments` is used."""
    rng = np.random.default_rng(d + 10 * rank)
    n, sigma = 3, Fraction(1, 2)
    w0 = rng.integers(-2, 3, (d, d)).astype(object) + Fraction(0)
    fractions = (rng.integers(-3, 4, s).astype(object) + Fraction(0) for s in shapes(d, rank, heads))
    weights = Weights(*fractions)
    engine = engine_of(d, general)
    names = [("x", i) for i in range(d)] + [("y", i) for i in range(d)]
    cells = [(i, j) for i in range(d) for j in range(d)]
    matrices = [covariance(rng, d) if general else np.eye(d, dtype=object) + Fraction(0) for _ in range(3)]
    values = [n, sigma, *(w0[cell] for cell in cells), *[0 for _ in cells]]
    values += [m[i, j] for m in matrices for i, j in cells if i <= j]

    @cache
    def number(*factors):
        return rational(engine.expect(*factors), [(None, value) for value in values])

    coefficients, of_x = prompt_map(weights, heads), matrices[0]
    entries = {
        cell: [(c, (names[p][0] + names[q][0], names[p][1], names[q][1])) for (p, q), c in np.ndenumerate(m) if c]
        for cell, m in zip(cells, coefficients.reshape(-1, 2 * d, 2 * d), strict=True)
    }
    loss = d * sigma**2
    for i, j in cells:
        for k in range(d):
            mean = number(("w", i, j), ("w", i, k))
            mean -= 2 * sum(c * number(s, ("w", i, k)) for c, s in entries[i, j])
            mean += sum(c * e * number(s, t) for c, s in entries[i, j] for e, t in entries[i, k])
            loss += mean * of_x[j, k]
    arguments = dict(zip(("covariance", "prior_rows", "prior_columns"), matrices, strict=True)) if general else {}
    assert PopulationLoss(PromptMoments(d, n, sigma, w0, **arguments), heads).value(weights) == loss


@cache
def engine_of(d, general):
    return PromptEngine(d, general=general)


def general(rng, d):
    """Random covariances, of x and of the prior, and random kurtoses."""
    factors = rng.standard_normal((3, d, d))
    names = ("covariance", "prior_rows", "prior_columns")
    covariances = {name: (f @ f.T + (f @ f.T).T) / 2 for name, f in zip(names, factors, strict=True)}
    return {**covariances, "kurtosis": rng.uniform(-2, 3, d)}


@given(st.integers(1, 5), st.data(), st.integers(0, 999))
def test_gradient_against_differences(d, data, seed):
    """Along a line the loss is a polynomial, so that a few central differences give its slope exactly."""
    rank = data.draw(st.integers(0, d))
    heads = data.draw(st.one_of(head_tuples(), shared_heads))
    rng = np.random.default_rng(seed)
    moments = PromptMoments(d, 3, 0.5, rng.standard_normal((d, d)), **data.draw(st.sampled_from([{}, general(rng, d)])))
    loss = PopulationLoss(moments, heads)
    weights = random_weights(rng, d, rank, heads)
    value, gradient = loss.value_and_gradient(weights)
    assert value == pytest.approx(loss.value(weights), rel=1e-12)
    direction = random_weights(rng, d, rank, heads)
    slope = sum(float(np.sum(g * v)) for g, v in zip(gradient.arrays(), direction.arrays(), strict=True))

    def at(t):
        return loss.value(Weights(*(w + t * v for w, v in zip(weights.arrays(), direction.arrays(), strict=True))))

    # P has degree 5 in all weights (W U S U^T K A) and the loss 10, so five differences would do
    h = 0.05
    weights_of = np.linalg.solve(
        np.array([[2.0 * (k * h) ** (2 * p + 1) for k in range(1, 7)] for p in range(6)]), [1.0, 0, 0, 0, 0, 0]
    )
    difference = sum(c * (at(k * h) - at(-k * h)) for k, c in enumerate(weights_of, 1))
    assert slope == pytest.approx(difference, rel=1e-6, abs=1e-6 * max(1.0, value))


@given(st.integers(1, 4), st.data(), st.integers(0, 999))
def test_best_readout_is_stationary_and_no_worse(d, data, seed):
    rank = data.draw(st.integers(1, d))
    rng = np.random.default_rng(seed)
    loss = PopulationLoss(PromptMoments(d, 4, 0.5), SKIPV1)
    weights = random_weights(rng, d, rank, SKIPV1)
    best = loss.best_readout(weights)
    value, gradient = loss.value_and_gradient(best)
    assert value <= loss.value(weights)
    together, at_once = loss.value_and_gradient_at_best_readout(weights)
    assert together == value
    assert all(np.array_equal(x, y) for x, y in zip(at_once.arrays(), gradient.arrays(), strict=True))
    assert value <= loss.zero_loss * (1 + 1e-12)
    # Each W^h in units of its own size: where A is small they are of very different sizes, and so is their rounding.
    slopes, sizes = (np.linalg.norm(w, axis=(1, 2)) for w in (gradient.w, best.w))
    assert slopes @ sizes <= 1e-6 * loss.zero_loss


def test_weights_of_the_wrong_shape_are_refused():
    one, w, k = np.ones((1, 3)), np.ones((2, 3, 3)), np.ones((2, 3, 1))
    with pytest.raises(ValueError, match="must have shapes"):
        PopulationLoss(PromptMoments(3, 2, 0.1), SKIPV1).value(Weights(one, one, w, k))


def test_no_heads_are_refused():
    with pytest.raises(ValueError, match="at least one head"):
        PopulationLoss(PromptMoments(2, 2, 0.1), ())


def test_the_accurate_value_is_that_of_fractions():
    """At large weights, where float64 loses eight digits and more."""
    rng = np.random.default_rng(5)
    d, n, sigma = 2, 3, 0.5
    loss = PopulationLoss(PromptMoments(d, n, sigma, 1e3 * rng.standard_normal((d, d))), MHA)
    weights = Weights(*(1e4 * rng.standard_normal(shape) for shape in ((1, d), (1, d), (2, d, d), (2, d, 1))))
    weights = loss.best_readout(weights)
    fractions = [np.array([Fraction(float(v)) for v in x.ravel()], object).reshape(x.shape) for x in weights.arrays()]
    w0 = np.array([Fraction(float(v)) for v in loss.moments.w0.ravel()], object).reshape(d, d)
    exact = float(PopulationLoss(PromptMoments(d, n, Fraction(1, 2), w0), MHA).value(Weights(*fractions)))
    error, plain = abs(loss.accurate_value(weights) - exact), abs(loss.value(weights) - exact)
    if np.finfo(np.longdouble).eps < np.finfo(float).eps:
        assert error < plain / 100
    assert error <= plain


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, "half", None])
@pytest.mark.parametrize("name", ["copied", "raw", "key_copied", "key_raw"])
def test_a_head_of_weights_that_are_not_finite_is_refused(name, weight):
    with pytest.raises(BadInput, match="a head's weights must be finite numbers, got"):
        Head(**{"copied": 1, "raw": 0, name: weight})


def test_a_loss_beyond_memory_is_refused():
    with pytest.raises(InvalidSize, match="the exact loss of 4000 heads at d = 100 needs about"):
        PopulationLoss(PromptMoments(100, 3, 0.1), MHA * 2000)
