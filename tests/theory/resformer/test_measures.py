"""Entropy, spectra and similarity against their definitions, and where their values are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.resformer import measures

SEEDS = st.integers(0, 2**32 - 1)


@given(st.integers(1, 60))
def test_uniform_causal_attention(tokens):
    attention = np.tril(np.ones((tokens, tokens))) / np.arange(1, tokens + 1)[:, None]
    assert np.allclose(measures.token_importance(attention), measures.uniform_causal_importance(tokens), atol=1e-15)


def test_its_entropy_stays_below_the_largest_by_one_less_eulers_constant():
    gaps = [np.log(n) - measures.entropy(measures.uniform_causal_importance(n)) for n in (1_000, 100_000)]
    assert gaps[1] == pytest.approx(1 - np.euler_gamma, abs=1e-3)
    assert abs(gaps[0] - (1 - np.euler_gamma)) > abs(gaps[1] - (1 - np.euler_gamma))


@given(st.integers(1, 40))
def test_attention_to_oneself_has_the_largest_entropy_and_to_one_token_none(tokens):
    assert measures.entropy(measures.token_importance(np.eye(tokens))) == pytest.approx(np.log(tokens))
    one = np.zeros((tokens, tokens))
    one[:, 0] = 1
    assert measures.entropy(measures.token_importance(one)) == 0


@given(SEEDS, st.integers(1, 6), st.integers(1, 6))
def test_spectrum(seed, tokens, width):
    values = np.random.default_rng(seed).standard_normal((tokens, width))
    expected = np.linalg.eigvalsh(values.T @ values / tokens)[::-1]
    assert np.allclose(measures.value_spectrum(values), expected, atol=1e-12)


@given(SEEDS, st.integers(2, 8), st.integers(1, 6))
def test_similarity_is_the_double_sum(seed, tokens, width):
    states = np.random.default_rng(seed).standard_normal((tokens, width))
    cosines = [
        a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        for i, a in enumerate(states)
        for j, b in enumerate(states)
        if i != j
    ]
    assert measures.token_similarity(states) == pytest.approx(np.mean(cosines), abs=1e-13)


@pytest.mark.parametrize(
    "call",
    [
        lambda: measures.entropy(np.zeros(3)),
        lambda: measures.entropy(np.array([1.0, -0.1])),
        lambda: measures.token_similarity(np.ones((1, 2))),
        lambda: measures.token_similarity(np.zeros((3, 2))),
        lambda: measures.uniform_causal_importance(0),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()
