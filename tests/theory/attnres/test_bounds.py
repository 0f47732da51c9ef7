"""Bounds under depth rules against reads written out in numpy, and against inputs that make wrong bounds fail."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.attnres.written_out import config_of, largest, plan_of, sigma, softmax, unit
from theory.attnres import bounds as attnres
from theory.plans.depth import Chain, DepthAttention, DepthAverage, Residual

SLACK = 1 + 1e-12
seeds = st.integers(0, 2**16)


RULES = [
    Residual(),
    Chain(),
    DepthAttention(),
    DepthAttention(block=3),
    DepthAttention(block=2, window=2),
    DepthAttention(score="sigmoid"),
    DepthAttention(heads=2),
    DepthAttention(heads=4, block=3),
]


def read(depth, outputs, rng):
    """What `depth` reads from outputs (sublayers so far + 1, T, d), under random logits; written out here."""
    first, rest = outputs[:1], outputs[1:]
    match depth:
        case Residual():
            return outputs.sum(0)
        case Chain():
            return outputs[-1]
        case DepthAttention(block=block, window=window, heads=heads, score=score):
            blocks = [rest[i : i + block].sum(0) for i in range(0, len(rest), block)]
            sources = np.stack([*first, *(blocks if window is None else blocks[-window:])])
            logits = 4 * rng.standard_normal((heads, len(sources)))
            weights = softmax(logits) if score == "softmax" else sigma(logits)
            parts = np.split(sources, heads, axis=-1)
            return np.concatenate([np.tensordot(w, part, 1) for w, part in zip(weights, parts, strict=True)], -1)


@given(st.sampled_from(RULES), st.integers(1, 4), seeds)
def test_reads_are_bounded(depth, layers, seed):
    rng = np.random.default_rng(seed)
    outputs = rng.standard_normal((2 * layers + 1, 5, 4)) * rng.exponential(1, (2 * layers + 1, 1, 1))
    sizes = [largest(x) for x in outputs]
    bounds = attnres.read_bounds(config_of(layers), plan_of(layers, depth), sizes[0], sizes[1:])
    assert len(bounds) == len(outputs)
    for i, bound in enumerate(bounds):
        assert largest(read(depth, outputs[: i + 1], rng)) <= bound * SLACK


@given(st.integers(1, 6), st.integers(1, 5), st.floats(0, 3), st.sampled_from([0.0, 1e-5, 1.0]), seeds)
def test_no_weight_falls_below_the_floor(sources, d, size, eps, seed):
    rng = np.random.default_rng(seed)
    query = rng.standard_normal(d)
    query *= size / np.linalg.norm(query)
    weights = softmax(unit(rng.standard_normal((sources, d)), eps) @ query)
    assert weights.min() >= attnres.weight_floor(sources, size, d) / SLACK


@given(st.integers(1, 6), st.integers(1, 5), st.floats(0.1, 3), seeds)
def test_the_floor_is_attained(sources, d, size, seed):
    """So the floor with exp(z) for exp(2 z), or without sqrt d, is false."""
    query = np.random.default_rng(seed).standard_normal(d)
    query *= size / np.linalg.norm(query)
    v = np.concatenate([-query[None], np.tile(query, (sources - 1, 1))])
    weight, floor = softmax(unit(v) @ query)[0], attnres.weight_floor(sources, size, d)
    assert weight == pytest.approx(floor, rel=1e-12)
    if sources > 1:
        assert weight < attnres.weight_floor(sources, size / 2, d) * (1 - 1e-6)
        assert d == 1 or weight < attnres.weight_floor(sources, size / math.sqrt(d), d) * (1 - 1e-6)


def test_the_floor_of_huge_queries_is_zero_and_of_one_source_one():
    assert attnres.weight_floor(5, 1e6, 100) == 0
    assert attnres.weight_floor(1, 1e6, 100) == 1
    assert attnres.weight_floor(5, 0.0, 100) == pytest.approx(0.2)


def test_averages_and_a_window_over_everything_start_as_others_do():
    config = config_of(3)

    def scale(depth):
        return attnres.start_scale(config, plan_of(3, depth))

    assert scale(Residual()) == scale(DepthAverage()) == [1.0] * 7
    assert scale(DepthAttention(window=6)) == scale(DepthAttention())
