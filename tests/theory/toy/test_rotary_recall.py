"""Recall by shared keys under rotary positions: scores, margins and the layout of heads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.toy import recall, rotary_recall


def attention(n, query, asked, speed, match):
    """Head A's, from queries and keys that are turned: a pair of numbers for the asked key, another for all others."""
    t = 2 * n + query
    keys = np.zeros((t, 2))
    keys[[2 * asked - 2, t - 1], 0] = 1
    places = np.arange(1, t + 1)
    turn = np.exp(1j * speed * places)
    turned = (keys[:, 0] + 1j * keys[:, 1]) * turn
    scores = match * (turned[-1].conj() * turned).real
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


@given(st.integers(1, 6), st.data())
def test_scores_are_what_two_heads_and_the_readout_add_up_to(n, data):
    query, asked = (data.draw(st.integers(1, n)) for _ in range(2))
    speed, match = data.draw(st.floats(0, 3)), data.draw(st.floats(0, 50))
    t = 2 * n + query
    shares = np.array([[(j >= 2 * pair) / j for pair in range(1, n + 1)] for j in range(1, t + 1)])
    looked = -recall.strength(n) * attention(n, query, asked, speed, match) @ shares
    wanted = looked + shares.mean(0) + recall.strength(n) / 2 * shares[-1]
    np.testing.assert_allclose(rotary_recall.rotary_scores(n, query, asked, speed, match), wanted, atol=1e-9)


@given(st.integers(1, 7), st.data())
def test_without_turning_scores_are_those_without_positions(n, data):
    query, asked = (data.draw(st.integers(1, n)) for _ in range(2))
    exact = [float(score) for score in recall.shared_key_scores(n, query, asked)]
    np.testing.assert_allclose(rotary_recall.rotary_scores(n, query, asked, 0.0, 60.0), exact, atol=1e-9)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 8))
def test_wider_heads_compute_the_same_before_they_are_turned(keys, values, more):
    width = 2 * ((max(2 * keys, values) + 1) // 2 + more)
    narrow = recall.shared_key_weights(3, keys, values, 7.0)
    wide = rotary_recall.rotary_weights(3, keys, values, width, 7.0)
    assert narrow.keys() == wide.keys()
    assert wide["look"].shape == wide["gives"].shape == (2, width, keys + 2 * values)
    for one, other in zip(*([x["look"].transpose(0, 2, 1) @ x["keys"] for x in (narrow, wide)]), strict=True):
        np.testing.assert_allclose(one, other)
    for outer, inner in (("puts", "gives"), ("answers", "takes")):
        np.testing.assert_allclose(narrow[outer] @ narrow[inner], wide[outer] @ wide[inner])
    used = np.abs(wide["keys"][0]).sum(1) > 0
    assert used[width // 2 - keys : width // 2].all()
    assert used.sum() == keys


def test_sizes():
    np.testing.assert_allclose(rotary_recall.speeds(4, 100.0), [0.1, 1])
    with pytest.raises(BadInput, match="must be even, got 5"):
        rotary_recall.speeds(5)
    with pytest.raises(BadInput, match="a head needs 12 numbers or more, an even count, got 10"):
        rotary_recall.rotary_weights(2, 6, 3, 10)
