"""Tables of values by token against layer 1's values, at every size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.toy.value_embeddings import covered, least_missed, missed, nearest

CLOSE = 1e-8
sizes = st.tuples(st.integers(1, 7), st.integers(1, 5), st.integers(1, 4))  # tokens, width, numbers of a value
seeds = st.integers(0, 2**16)


@given(sizes, seeds)
def test_values_of_layer_1_are_missed_by_nothing(size, seed):
    n, d, m = size
    rng = np.random.default_rng(seed)
    embedding, maps = rng.standard_normal((n, d)), rng.standard_normal((d, m))
    table = embedding @ maps
    assert missed(embedding, table) <= CLOSE
    assert least_missed(table, d) <= CLOSE
    assert np.allclose(embedding @ nearest(embedding, table), table, atol=CLOSE)


@given(sizes, seeds)
def test_no_map_and_no_embedding_come_nearer(size, seed):
    n, d, m = size
    rng = np.random.default_rng(seed)
    embedding, table = rng.standard_normal((n, d)), rng.standard_normal((n, m))
    near = nearest(embedding, table)
    other = near + 0.1 * rng.standard_normal((d, m))
    assert missed(embedding, table) <= ((table - embedding @ other) ** 2).sum() + CLOSE
    assert least_missed(table, d) <= missed(embedding, table) + CLOSE
    left, values, right = np.linalg.svd(table, full_matrices=False)
    best = (left[:, :d] * values[:d], right[:d])
    assert ((table - best[0] @ best[1]) ** 2).sum() == pytest.approx(least_missed(table, d), abs=CLOSE)


@given(sizes, seeds)
def test_all_tables_are_values_where_embeddings_are_independent(size, seed):
    n, d, m = size
    rng = np.random.default_rng(seed)
    embedding, table = rng.standard_normal((n, d)), rng.standard_normal((n, m))
    assert covered(embedding, m) == min(n, d) * m
    if n <= d:
        assert missed(np.eye(n, d), table) <= CLOSE
    else:
        assert missed(embedding, table) > CLOSE


def test_a_repeated_token_costs_a_dimension():
    embedding = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert covered(embedding, 2) == 4
    assert missed(embedding, np.array([[1.0], [-1.0], [5.0]])) == pytest.approx(2.0)
    assert nearest(embedding, np.array([[1.0], [3.0], [5.0]])).ravel().tolist() == pytest.approx([2.0, 5.0, 0.0])


def test_bad_input():
    with pytest.raises(BadInput):
        nearest(np.ones((2, 1)), np.ones((3, 1)))
    with pytest.raises(InvalidSize):
        covered(np.ones((2, 1)), 0)
    with pytest.raises(InvalidSize):
        least_missed(np.ones((2, 1)), 0)
