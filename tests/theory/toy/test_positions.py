"""Toys that see positions: weights token by token, ranks of the bounds, and no answer that sees the sign of y."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.across.claims.trained_layer import turned
from theory.errors import InvalidSize
from theory.plans.architecture import Architecture, Vectors
from theory.plans.depth import Chain, DepthAttention
from theory.plans.heads import MHA, SKIP, SKIPV1
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.setting import signal_share
from theory.toy.content_scores import (
    additive_weights,
    best_kappa,
    positions_ceiling,
)
from theory.toy.parity import keeps_signs
from theory.toy.positions import copying_weights, explained_by_rotating, most_entries_with_positions, rotating_weights
from theory.toy.width import most_entries_at_width


def prompt(d, n, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((d, n)), rng.standard_normal((d, n)), rng.standard_normal(d)


def predict(weights, x, y, query):
    """MHA token by token: every token asks every other one, in plain loops."""
    tokens = [column for pair in zip(x.T, y.T, strict=True) for column in pair] + [query]
    read = [weights.read_in @ token for token in tokens]
    last = len(read) - 1
    first = [
        sum(
            bias[s, t] * value @ read[s]
            for bias, value in zip(weights.bias, weights.value, strict=True)
            for s in range(len(read))
            if s < last or t == last
        )
        for t in range(len(read))
    ]
    return sum(
        out @ first[t] * (first[t] @ match @ first[last])
        for out, match in zip(weights.readout, weights.key_query, strict=True)
        for t in range(last)
    )


@given(d=st.integers(1, 4), n=st.integers(1, 5), extra=st.integers(0, 4), seed=st.integers(0, 99))
def test_copying_mha_predicts_by_a_block_of_s_yx(d, n, extra, seed):
    width, sigma = d + min(extra, d), 0.5
    x, y, query = prompt(d, n, seed)
    block = y @ x.T
    upper = width // 2
    block[:, upper:] = 0
    block[: d - (width - upper)] = 0
    expected = signal_share(d, n, sigma) / n * block @ query
    prediction = predict(copying_weights(d, n, sigma, width), x, y, query)
    np.testing.assert_allclose(prediction, expected, rtol=0, atol=1e-14 * (1 + np.abs(block).sum()) * d * n)


@given(d=st.integers(1, 10), extra=st.integers(0, 12))
def test_no_construction_is_above_the_bound(d, extra):
    width = d + extra
    bound = most_entries_with_positions(MHA, d, width)
    assert most_entries_at_width(MHA, d, width) <= bound <= d * d
    assert most_entries_with_positions(SKIPV1, d, width) == most_entries_with_positions((SKIP,), d, width) == d * d
    if d % 2 == 0:
        share = explained_by_rotating(d, 5, Fraction(1)) / signal_share(d, 5, Fraction(1))
        assert most_entries_at_width(MHA, d, d) < share <= most_entries_with_positions(MHA, d, d)


def test_sizes():
    with pytest.raises(InvalidSize, match="even d, got 3"):
        rotating_weights(3, 4, 0.1)
    with pytest.raises(InvalidSize, match="even d, got 1"):
        explained_by_rotating(1, 4, 0.1)
    with pytest.raises(InvalidSize, match="width must be a whole number from 3, got 2"):
        most_entries_with_positions(MHA, 3, 2)
    with pytest.raises(InvalidSize, match="from width 2d = 4 on"):
        copying_weights(2, 4, 0.1, 5)


@pytest.mark.parametrize("refused", [lambda: best_kappa(0), lambda: positions_ceiling(0), lambda: additive_weights(3)])
def test_sizes_of_content_scores(refused):
    with pytest.raises(InvalidSize):
        refused()


PLAIN = Architecture(
    d_model=6, n_layers=2, n_heads=2, d_ff=0, context=9, stem=Vectors(3), head_dim=4, norm="none", score="linear"
)
VARIANTS = ("vanilla", "skipv1", "resformer", "svformer", "skipv0", "cla-v", "shared-keys", "denseformer")


@settings(max_examples=40)
@given(
    st.sampled_from(VARIANTS),
    st.integers(1, 5),
    st.integers(0, 4),
    st.integers(1, 3),
    st.sampled_from(("none", "rms", "layer")),
    st.sampled_from(("rope", "none")),
    st.integers(0, 9),
)
def test_no_answer_sees_the_sign_of_y(name, d, pairs, layers, norm, positions, seed):
    config = replace(
        PLAIN, stem=Vectors(d), n_layers=layers, context=2 * pairs + 1, norm=norm, positions=positions, d_model=d + 1
    )
    plan = resolve(name if layers > 1 else "vanilla", config.shape)
    assert keeps_signs(config, plan)
    assert turned(config, plan, seed) < 1e-9


def test_weights_over_depth_may_not_look():
    for depth, blind in ((DepthAttention(), False), (DepthAttention(query="static"), True), (Chain(), True)):
        plan = replace(resolve("vanilla", Shape(2, 2)), depth=depth)
        assert keeps_signs(PLAIN, plan) == blind
        assert (turned(PLAIN, plan) < 1e-9) == blind


def test_the_assumed_copy_and_dynamic_values_are_not_meant():
    vanilla = resolve("vanilla", Shape(2, 2))
    assert not keeps_signs(replace(PLAIN, stem=Vectors(6, read_in=False), copy_rank=2), vanilla)
    assert not keeps_signs(PLAIN, replace(vanilla, dynamic="revised"))
