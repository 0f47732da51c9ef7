"""Windows over shards, in the order of a seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.data.shards import Tokens
from icl.data.windows import Windows
from theory.errors import BadInput


@st.composite
def cut_arrays(draw):
    """An array and the same one in pieces, some of them possibly empty."""
    length = draw(st.integers(1, 80))
    cuts = sorted(draw(st.lists(st.integers(0, length), max_size=6)))
    whole = np.random.default_rng(length).integers(0, 2**16, length).astype("<u2")
    return whole, Tokens(np.split(whole, cuts))


@given(cut_arrays(), st.integers(-90, 90), st.integers(-90, 90))
def test_slices_over_shards_are_those_of_one_array(arrays, start, stop):
    whole, tokens = arrays
    assert len(tokens) == len(whole)
    found = tokens[start:stop]
    np.testing.assert_array_equal(found, whole[start:stop])
    assert found.dtype == whole.dtype
    np.testing.assert_array_equal(tokens[:], whole)


@given(cut_arrays(), st.integers(1, 9), st.integers(1, 7), st.integers(0, 20), st.integers(0, 2**32))
def test_windows_over_shards_are_those_of_one_array(arrays, context, size, step, seed):
    whole, tokens = arrays
    if len(whole) <= context:
        for array in arrays:
            with pytest.raises(BadInput, match="tokens"):
                Windows(array, context, seed)
        return
    one, other = Windows(whole, context, seed), Windows(tokens, context, seed)
    batch = one.batch(step, size)
    assert batch.shape == (size, context + 1)
    assert batch.dtype == np.int64
    np.testing.assert_array_equal(batch, other.batch(step, size))
    np.testing.assert_array_equal(one.in_order(), other.in_order())


@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 7), st.integers(0, 9))
def test_every_epoch_visits_every_window_once(length, context, size, seed):
    if length <= context:
        return
    windows = Windows(np.arange(length), context, seed)
    count = windows.count
    steps = -(-3 * count // size)
    starts = np.concatenate([windows.batch(step, size)[:, 0] for step in range(steps)])[: 3 * count]
    for epoch in starts.reshape(3, count):
        assert sorted(epoch.tolist()) == [index * context for index in range(count)]
    predicted = windows.in_order()[:, 1:].ravel()
    np.testing.assert_array_equal(predicted, np.arange(1, windows.tokens_an_epoch + 1))
    assert length - 1 - windows.tokens_an_epoch < context
    assert windows.epochs(count, 3) == 3
    assert windows.epochs(0, size) == 0


@settings(max_examples=10)
@given(st.permutations(range(12)))
def test_a_batch_depends_on_seed_and_step_alone(order):
    tokens, fresh = np.arange(200), {}
    for step in range(12):
        fresh[step] = Windows(tokens, 7, 3).batch(step, 5)
    windows = Windows(tokens, 7, 3)
    for step in order:
        np.testing.assert_array_equal(windows.batch(step, 5), fresh[step])


def test_orders_differ_between_epochs_and_seeds():
    tokens = np.arange(1001)
    orders = [Windows(tokens, 10, seed).batch(epoch, 100)[:, 0].tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert not any(order == sorted(order) for order in orders)


def test_windows_in_order_can_be_limited():
    windows = Windows(np.arange(10), 3, 0)
    np.testing.assert_array_equal(windows.in_order(2), [[0, 1, 2, 3], [3, 4, 5, 6]])
    assert len(windows.in_order(99)) == windows.count == 3


@pytest.mark.parametrize("ask", [
    lambda: Windows(np.arange(9), 0, 0), lambda: Windows(np.arange(9), 2, -1), lambda: Windows(np.arange(9), 9, 0),
    lambda: Windows(np.arange(9), 2, 0).batch(-1, 1), lambda: Windows(np.arange(9), 2, 0).batch(0, 0),
    lambda: Windows(np.arange(9), 2, 0).in_order(0),
])  # fmt: skip
def test_windows_that_make_no_sense(ask):
    with pytest.raises(BadInput):
        ask()
