"""Values by token against a least-squares solver over positions, from one token up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.reading.token_values import (
    by_token,
    least_error,
    least_linear_error,
    linear_error,
    linear_loss,
    linear_map,
    map_error,
    offset_error,
    r_squared,
    raw_error,
    schur_complement,
    with_offset,
)

EXACT = 1e-8
sizes = st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))  # tokens, layer 1's numbers, later ones
seeds = st.integers(0, 2**16)


def drawn(size, seed):
    tokens, width, outputs = size
    rng = np.random.default_rng(seed)
    index = np.concatenate([np.arange(tokens), rng.integers(0, tokens, 2 * tokens)])
    first = rng.standard_normal((tokens, width))[index]
    later = rng.standard_normal((tokens, outputs))[index] + rng.standard_normal((len(index), outputs))
    chance = rng.uniform(0.2, 2, len(index))
    return index, first, later, chance / chance.sum()


def solved(later, first, chance):
    root = np.sqrt(chance)[:, None]
    found = np.linalg.lstsq(root * first, root * later, rcond=None)[0]
    return chance @ ((later - first @ found) ** 2).sum(1)


@given(sizes, seeds)
def test_linear_and_any_maps(size, seed):
    index, first, later, chance = drawn(size, seed)
    of = by_token(index, first, later, chance)
    assert of.chance.sum() == pytest.approx(1)
    assert linear_error(of) == pytest.approx(solved(later, first, chance), abs=EXACT)
    assert least_error(of) == pytest.approx(solved(later, np.eye(size[0])[index], chance), abs=EXACT)
    left = later - first @ linear_map(of).T
    assert schur_complement(of) == pytest.approx((left.T * chance) @ left, abs=EXACT)
    assert linear_error(of) == pytest.approx(least_error(of) + linear_loss(of), abs=EXACT)
    if size[0] <= size[1]:
        assert linear_loss(of) == pytest.approx(0, abs=EXACT)
    offset = np.column_stack([first, np.ones(len(first))])
    assert linear_error(with_offset(of)) == pytest.approx(solved(later, offset, chance), abs=EXACT)
    if offset_error(of) > 1e-6:
        assert r_squared(of) <= 1 + EXACT
    assert least_error(of) - EXACT <= least_linear_error(of, size[1]) <= linear_error(of) + EXACT


@given(sizes, seeds)
def test_maps_given_by_token(size, seed):
    index, _, later, chance = drawn(size, seed)
    table = np.random.default_rng(seed + 1).standard_normal((size[0], size[2]))
    of = by_token(index, table[index], later, chance)
    expected = chance @ ((later - table[index]) ** 2).sum(1)
    assert map_error(of, table) == pytest.approx(expected)
    assert raw_error(of) == pytest.approx(expected)


def test_tokens_that_do_not_occur_are_left_out():
    of = by_token(np.array([7, 3, 7]), np.array([[1.0], [2.0], [1.0]]), np.array([[0.0], [5.0], [2.0]]))
    assert of.chance == pytest.approx([1 / 3, 2 / 3])
    assert of.first[:, 0] == pytest.approx([2, 1])
    assert of.mean[:, 0] == pytest.approx([5, 1])
    assert of.scatter[:, 0, 0] == pytest.approx([0, 1])


def test_bad_input():
    one, two = np.ones((1, 1)), np.ones((2, 1))
    with pytest.raises(BadInput):
        by_token(np.array([0]), one, two)
    with pytest.raises(BadInput):
        r_squared(by_token(np.array([0]), one, one))
    with pytest.raises(BadInput):
        raw_error(by_token(np.array([0]), np.ones((1, 2)), one))
    with pytest.raises(InvalidSize):
        least_linear_error(by_token(np.array([0]), one, one), 0)
