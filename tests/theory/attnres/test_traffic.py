"""Schedules of depth attention: what they hand to sublayers against direct softmaxes, and single counts."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from theory.attnres import traffic, two_phase
from theory.attnres.traffic import SCHEDULES
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture, Vectors
from theory.plans.depth import DepthAttention, Residual
from theory.plans.plan import Shape, plan

EPS = np.finfo(float).eps


def sublayers_of(count, d, seed):
    rng = np.random.default_rng(seed)
    matrices = rng.standard_normal((count, d, d))
    return [lambda h, m=m: np.tanh(m @ h / (1 + np.linalg.norm(h))) for m in matrices]


def direct(depth, embedding, sublayers, queries, given=None):
    """What sublayers read, by the sources that the plan names and one softmax each; outputs of `given` inputs."""
    layers, d = -(-len(sublayers) // 2), embedding.size
    config = Architecture(d_model=d, n_layers=layers, n_heads=1, d_ff=1, context=1, stem=Vectors(d), positions="none")
    reads = depth_reads(config, plan(Shape(layers, 1), depth=depth))[: len(sublayers)]
    outputs, inputs = [embedding], []
    for i, (sources, sublayer, query) in enumerate(zip(reads, sublayers, queries, strict=True)):
        values = np.array([np.sum([outputs[i] for i in source], axis=0) for source in sources])
        if isinstance(depth, Residual):
            inputs.append(values[0])
        else:
            logits = values / np.sqrt((values**2).mean(axis=1, keepdims=True)) @ query
            shares = np.exp(logits - logits.max())
            inputs.append(shares @ values / shares.sum())
        outputs.append(sublayer(inputs[-1] if given is None else given[i]))
    return inputs


@given(
    st.sampled_from(list(SCHEDULES)),
    st.sampled_from([1, 2, 3, 7, 40]),
    st.integers(1, 9),
    st.integers(1, 5),
    st.sampled_from([0.0, 1.0, 1e3]),
    st.integers(0, 2**16),
)
def test_every_schedule_hands_over_what_a_direct_softmax_does(name, count, block, d, scale, seed):
    """More than 32 sources, one, odd numbers, logits in the thousands; a block may be longer than all sublayers."""
    rng = np.random.default_rng(seed)
    embedding, queries = rng.standard_normal(d), scale * rng.standard_normal((count, d))
    depth = {"residual": Residual(), "naive Full": DepthAttention(), "two-phase Full": DepthAttention()}
    sublayers = sublayers_of(count, d, seed)
    found = traffic.traffic(name, embedding, sublayers, queries, block).inputs
    expected = direct(depth.get(name, DepthAttention(block=block)), embedding, sublayers, queries, found)
    logits = d * (1 + np.abs(queries).max())  # rounded by eps times that and their keys' d terms, as are weights
    slack = 16 * EPS * (d + count) * logits * count
    assert np.allclose(found, expected, rtol=0, atol=slack * (1 + np.abs(embedding).max()))


@given(st.integers(1, 45), st.integers(1, 5), st.sampled_from([0.0, 1.0, 1e3, 1e6]), st.integers(0, 2**16), st.data())
def test_parts_merge_to_the_whole(count, d, scale, seed, data):
    """Any split, in any order, logits up to millions; the same keys, so only the merging rounds."""
    rng = np.random.default_rng(seed)
    sources, query = rng.standard_normal((count, d)), scale * rng.standard_normal((3, d))
    whole = two_phase.attend(query, sources)
    cuts = sorted(data.draw(st.lists(st.integers(1, max(1, count - 1)), max_size=4, unique=True)) if count > 1 else [])
    parts = [two_phase.attend(query, piece) for piece in np.split(sources, cuts)]
    rng.shuffle(parts)
    merged = parts[0]
    for part in parts[1:]:
        merged = two_phase.merge(merged, part)
    size = 1 + np.abs(whole.log_mass).max()  # a log mass is rounded by eps times its size, and so are weights
    slack = 16 * EPS * count * size
    assert np.allclose(merged.mean, whole.mean, rtol=0, atol=slack * np.abs(sources).max())
    assert np.allclose(merged.log_mass, whole.log_mass, rtol=0, atol=slack)


@given(st.integers(0, 40), st.integers(1, 4), st.integers(0, 2**16))
def test_half_of_the_vectors_are_enough(count, d, seed):
    rng = np.random.default_rng(seed)
    embedding, queries = rng.standard_normal(d), rng.standard_normal((count + 1, d))
    sublayers = sublayers_of(count, d, seed)
    reads, kept = two_phase.reads_from_half(embedding, sublayers, queries)
    assert kept == (count + 2) // 2
    expected = direct(DepthAttention(), embedding, [*sublayers, lambda h: h], queries)
    assert np.allclose(reads, expected, rtol=0, atol=1e-9)


def counted(name, blocks, size, d=2):
    rng = np.random.default_rng(0)
    count = blocks * size
    embedding, queries = rng.standard_normal(d), rng.standard_normal((count, d))
    return traffic.traffic(name, embedding, sublayers_of(count, d, 0), queries, size)


@given(st.integers(1, 6), st.integers(2, 8))
def test_counts_of_single_sublayers(blocks, size):
    full, block = (counted(f"two-phase {form}", blocks, size).counts for form in ("Full", "Block"))
    for i in range(blocks * size):
        b, j = divmod(i, size)
        assert full[i] == Fraction(b * size + 1, size) + 2 + j
        phase_2 = {0: 2, 1: 3}.get(j, 5) + 3 * (j == size - 1)
        assert block[i] == Fraction(b + 1, size) + phase_2
