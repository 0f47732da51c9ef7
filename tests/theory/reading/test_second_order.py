"""Costs in nats against the cross-entropy itself, and sets of heads against all of them."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.reading.second_order import (
    additive,
    best_set,
    curvature,
    curved_bound,
    fisher_scores,
    gram,
    greedy,
    greedy_trap,
    overlap,
    overlap_bounds,
    predicted,
    remainder_bound,
    slopes,
    softmax,
    spread,
)

EXACT = 1e-9
sizes = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(2, 7))  # contexts, cells, symbols
seeds = st.integers(0, 2**16)


def drawn(size, seed, scale):
    contexts, _, symbols = size
    rng = np.random.default_rng(seed)
    scores = 2 * rng.standard_normal((contexts, symbols))
    return scores, scale * rng.standard_normal(size), rng.dirichlet(np.ones(symbols), contexts)


def loss(scores, labels):
    return (np.logaddexp.reduce(scores, axis=1) - (labels * scores).sum(1)).mean()


@given(sizes, seeds, st.floats(1e-3, 4))
def test_cost_keeps_within_its_bounds(size, seed, scale):
    scores, changes, labels = drawn(size, seed, scale)
    g, q = slopes(scores, changes, labels), gram(scores, changes)
    cost = loss(scores + changes.sum(1), labels) - loss(scores, labels)
    width = spread(changes, range(size[1]))
    least, most = curvature(width)
    assert least * q.sum() - EXACT <= cost - g.sum() <= most * q.sum() + EXACT
    assert abs(cost - predicted(g, q, range(size[1]))) <= remainder_bound(width) + EXACT


@given(sizes, seeds)
def test_labels_of_the_model_have_no_slope(size, seed):
    scores, changes, _ = drawn(size, seed, 1.0)
    labels = softmax(scores)
    assert labels.sum(1) == pytest.approx(np.ones(size[0]))
    assert slopes(scores, changes, labels) == pytest.approx(np.zeros(size[1]), abs=EXACT)
    phi = fisher_scores(scores, changes)
    assert np.einsum("cv,csv->cs", labels, phi) == pytest.approx(np.zeros(size[:2]), abs=EXACT)
    assert np.einsum("cv,csv,ctv->st", labels, phi, phi) / size[0] == pytest.approx(gram(scores, changes))


@given(st.floats(0, 20))
def test_curvature_is_about_a_half(width):
    least, most = curvature(width)
    assert 0 < least <= 0.5 <= most
    assert curved_bound(width) == width / 2
    if width < 1e-3:
        assert (least, most) == pytest.approx((0.5 - width / 6, 0.5 + width / 6), abs=1e-6)


@given(st.integers(1, 7), seeds)
def test_sets_keep_within_overlap_bounds(cells, seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((6, cells)) * rng.uniform(0.2, 2, cells)
    matrix, slope = scores.T @ scores, np.zeros(cells)
    least, most = overlap_bounds(cells, min(1.0, overlap(matrix)))
    single = additive(slope, matrix, range(cells))
    assert least * single - EXACT <= predicted(slope, matrix, range(cells)) <= most * single + EXACT
    assert predicted(slope, matrix, range(cells)) <= cells * single + EXACT


@given(st.integers(1, 6), seeds, st.floats(0, 2))
def test_greedy_is_best_for_equal_cross_terms(cells, seed, between):
    rng = np.random.default_rng(seed)
    matrix, slope = np.diag(rng.uniform(0, 2, cells)) + between, rng.standard_normal(cells)
    for count in range(cells + 1):
        least = min(predicted(slope, matrix, s) for s in combinations(range(cells), count))
        assert predicted(slope, matrix, greedy(slope, matrix, count)) == pytest.approx(least, abs=EXACT)
        assert predicted(slope, matrix, best_set(slope, matrix, count)) == pytest.approx(least, abs=EXACT)


def test_the_trap():
    matrix, slope = greedy_trap(0.5, 3.0), np.zeros(3)
    assert greedy(slope, matrix, 2) == (0, 2)
    assert best_set(slope, matrix, 2) == (1, 2)
    assert predicted(slope, matrix, (0, 2)) == pytest.approx(2.5**2 / 2)
    assert predicted(slope, matrix, (1, 2)) == pytest.approx(0)


def test_bad_input():
    for bad in (-0.1, 1.1):
        with pytest.raises(BadInput):
            overlap_bounds(3, bad)
    with pytest.raises(InvalidSize):
        overlap_bounds(0, 0.5)
    with pytest.raises(BadInput):
        greedy(np.zeros(2), np.eye(2), 3)
    with pytest.raises(InvalidSize):
        best_set(np.zeros(2), np.eye(2), -1)
