"""Finite Sinkhorn iterations: their excess, what it does over depth, and matrices on which laws are sharp."""

from fractions import Fraction
from itertools import accumulate
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.hyper.sinkhorn import (
    column_excess,
    crowded,
    drift,
    excess_bound,
    gain_bound,
    sinkhorn,
    slowest,
    steepest,
    two_stream_excess,
)

EXACT = 1e-10
seeds = st.integers(0, 2**16)


@given(st.integers(1, 5), st.integers(1, 30), st.floats(0, 5), seeds)
def test_rows_are_exact_and_columns_within_the_bound(n, t, b, seed):
    rng = np.random.default_rng(seed)
    matrix = sinkhorn(np.exp(rng.uniform(-b, b, (n, n))), t)
    assert matrix.sum(1) == pytest.approx(np.ones(n))
    assert -EXACT <= column_excess(matrix) <= excess_bound(b, t) + EXACT


@given(st.integers(1, 4), st.integers(1, 4), seeds)
def test_iterations_scale_rows_and_columns_in_fractions(n, t, seed):
    entries = np.random.default_rng(seed).integers(1, 9, (n, n))
    matrix = np.vectorize(Fraction, otypes=[object])(entries)
    found = sinkhorn(matrix, t)
    assert (found.sum(1) == 1).all()
    for i in range(n):  # the same cross ratios
        assert (found[0, 0] * found[i, i] * entries[0, i] * entries[i, 0]) == (
            found[0, i] * found[i, 0] * entries[0, 0] * entries[i, i]
        )


@given(st.integers(2, 4), seeds)
def test_many_matrices_at_once(n, seed):
    matrices = np.exp(np.random.default_rng(seed).standard_normal((3, n, n)))
    found = sinkhorn(matrices, 2)
    for one, alone in zip(found, matrices, strict=True):
        assert np.allclose(one, sinkhorn(alone, 2), rtol=EXACT)
    assert column_excess(found) == pytest.approx([column_excess(one) for one in found])


def test_no_iterations_change_nothing():
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert sinkhorn(matrix, 0) is matrix


@given(st.integers(1, 25), st.floats(0, 30), seeds)
def test_two_streams_keep_below_their_law(t, spread, seed):
    logits = spread * np.random.default_rng(seed).standard_normal((2, 2))
    assert column_excess(sinkhorn(np.exp(logits), t)) < two_stream_excess(t)


@pytest.mark.parametrize("t", [1, 2, 7])
def test_two_streams_attain_their_law_in_the_limit(t):
    for power in (6, 12):
        below = two_stream_excess(t) - float(column_excess(sinkhorn(slowest(Fraction(1, 10**power)), t)))
        assert 0 < below < t * 100 / 10**power


@given(st.integers(2, 6), st.fractions(0, 1, max_denominator=20))
def test_steepest_matrices_compound(n, share):
    excess = share / (n - 1)
    matrices = steepest(n, excess)
    assert len(matrices) == n - 1
    for matrix in matrices:
        assert (matrix >= 0).all()
        assert (matrix.sum(1) == 1).all()
        assert column_excess(matrix) == excess
    gains = [column_excess(p) + 1 for p in accumulate(matrices, np.matmul)]
    assert gains == [(1 + excess) ** k for k in range(1, n)]
    assert all(gain <= gain_bound(n, k, excess) for k, gain in enumerate(gains, 1))


@given(st.integers(2, 5), st.floats(0.01, 0.5), st.integers(1, 400))
def test_drift_tends_to_the_number_of_streams(n, excess, count):
    matrix = drift(n, excess)
    assert column_excess(matrix) == pytest.approx(excess)
    gain = column_excess(np.linalg.matrix_power(matrix, count)) + 1
    assert gain == pytest.approx(n - (n - 1) * (1 - excess / (n - 1)) ** count)
    assert gain <= gain_bound(n, count, excess) * (1 + EXACT)


@given(st.integers(1, 5), st.integers(1, 12), seeds)
def test_products_gain_no_more_than_the_streams(n, count, seed):
    logits = 4 * np.random.default_rng(seed).standard_normal((count, n, n))
    matrices = sinkhorn(np.exp(logits), 1)
    (product,) = list(accumulate(matrices, np.matmul))[-1:]
    worst = max(0.0, float(column_excess(matrices).max()))
    assert column_excess(product) + 1 <= gain_bound(n, count, worst) * (1 + EXACT)


def test_gains_too_large_for_floats():
    assert gain_bound(4, 100_000, 0.5) == 4


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("t", [1, 5, 20])
def test_crowded_matrices_stay_off(n, t):
    assert n - 2 - EXACT <= column_excess(sinkhorn(crowded(n, 1e-60), t)) <= n - 1
    assert column_excess(sinkhorn(crowded(n, 0.5), t)) < n - 2


def test_bad_input():
    for matrix in ([[0.0, 1.0], [1.0, 1.0]], [[-1.0, 1.0], [1.0, 1.0]], [[np.nan, 1.0], [1.0, 1.0]]):
        with pytest.raises(BadInput):
            sinkhorn(np.array(matrix), 1)
    with pytest.raises(InvalidSize):
        sinkhorn(np.ones((2, 2)), -1)
    for function in (two_stream_excess, lambda t: excess_bound(1.0, t)):
        with pytest.raises(InvalidSize):
            function(0)
    for logit in (-1.0, float("nan")):
        with pytest.raises(BadInput):
            excess_bound(logit, 1)
    for function in (steepest, drift, crowded):
        with pytest.raises(InvalidSize):
            function(1, 0.1)
    for excess in (-0.1, 0.51, inf):
        with pytest.raises(BadInput):
            steepest(3, excess)
    with pytest.raises(InvalidSize):
        gain_bound(0, 1, 0.1)
    with pytest.raises(InvalidSize):
        gain_bound(1, -1, 0.1)
