"""Laws of growth with and without norms: bounds, decoders that attain them, and what falls without each hypothesis."""

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments import catalogue
from experiments.attnres.networks import growing, read_norms
from icl.models.decoder import Decoder
from tests.theory.attnres.written_out import ATTAINED, EXACT, RULES, SIZES, plan_of
from theory.attnres import growth, unnormed
from theory.attnres.bounds import read_bounds, start_scale
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.attnres.hypotheses import ROWS, table
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention, Residual


def network(name, config=SIZES, seed=0, query=1e4):
    chosen = resolve(name, config.shape)
    sizes = np.random.default_rng(seed).exponential(1, 2 * config.n_layers + 1)
    made = growth.extremal(config, chosen, sizes[0], sizes[1:])
    return made, growing(config, chosen, made, query)


@given(st.sampled_from(RULES), st.integers(1, 5), st.fractions(0, 5), st.fractions(0, 5))
def test_largest_read_is_the_last_bound(depth, layers, embedding, output):
    config = replace(SIZES, n_layers=layers)
    expected = read_bounds(config, plan_of(layers, depth), float(embedding), [float(output)] * 2 * layers)[-1]
    assert float(growth.largest_read(depth, 2 * layers, embedding, output)) == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("query", [0.0, 3.0, 30.0])
def test_the_picked_weight_says_how_near_a_query_comes(query):
    made, model = network("attnres", query=query)
    for i, (norm, bound) in enumerate(zip(read_norms(model), made.reads, strict=True)):
        weight = growth.picked_weight(i + 1, max(made.directions, i + 1), query, SIZES.d_model)
        assert norm >= (2 * weight - 1) * bound
    assert (read_norms(model)[-1] < 0.9 * made.reads[-1]) == (query < 30)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 2**16))
def test_typical_range(members, seed):
    """Orthogonal outputs, summed by source: any weights keep within it, and both ends are attained."""
    low, high = growth.typical_range(members, 2.0)
    blocks = np.repeat(np.eye(len(members)), members, axis=1) * 2.0  # a source a row, an output a column
    alone = np.eye(len(members))[int(np.argmax(members))]
    even = 1 / np.array(members)
    ends = [float(np.linalg.norm(w @ blocks)) for w in (even / even.sum(), alone)]
    assert (low, high) == pytest.approx(tuple(ends))
    read = np.linalg.norm(np.random.default_rng(seed).dirichlet(np.ones(len(members))) @ blocks)
    assert low * (1 - EXACT) <= read <= high * (1 + EXACT)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**16))
def test_sources_that_do_not_oppose_each_other_do_not_cancel(k, d, seed):
    rng = np.random.default_rng(seed)
    v, weights = abs(rng.standard_normal((k, d))), rng.dirichlet(np.ones(k))
    assert np.linalg.norm(weights @ v) >= np.linalg.norm(v, axis=1).min() / sqrt(k) * (1 - EXACT)


@given(st.floats(0.01, 5), st.integers(1, 5), st.integers(1, 7), st.integers(0, 2**16))
def test_postnorm_keeps_within_its_range(scale, d, layers, seed):
    """Written out; without the norm after the sum the same sublayers leave it."""
    rng = np.random.default_rng(seed)
    gain, x = rng.standard_normal(d), rng.standard_normal(d)
    low, high = growth.postnorm_range(gain)
    for _ in range(layers):
        x = x + scale * rng.standard_normal((d, d)) @ x
        x = gain * x / sqrt((x**2).mean())
        assert low * (1 - EXACT) <= np.linalg.norm(x) <= high * (1 + EXACT)


@given(st.integers(1, 6), st.integers(1, 2), st.floats(0.1, 2), st.floats(0, 20), st.integers(0, 2**16))
def test_averages_keep_below_their_law(layers, per_layer, row, embedding, seed):
    """With any weights whose absolute values add up to the row, of which some are on one result alone."""
    rng = np.random.default_rng(seed)
    weights = [row * rng.dirichlet(np.full(n + 1, 0.1)) * rng.choice([-1, 1], n + 1) for n in range(1, layers + 1)]
    last = average_matrix(weights, per_layer)[-1]
    largest = abs(last[0]) * embedding + sum(map(abs, last[1:]))
    assert largest <= growth.largest_average(row, layers, per_layer, embedding, 1.0) * (1 + EXACT)


@given(st.integers(1, 4), st.integers(1, 2), st.integers(0, 2**16))
def test_averages_are_what_a_decoder_reads(layers, per_layer, seed):
    config = replace(SIZES, n_layers=layers, d_ff=2 * (per_layer - 1))
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal(n + 1) for n in range(1, layers + 1)]
    depth = Decoder(config, resolve("denseformer", config.shape)).double().depth
    with torch.no_grad():
        for parameter, values in zip(depth.weights, weights, strict=True):
            parameter.copy_(torch.from_numpy(values))
    outputs = rng.standard_normal((layers * per_layer + 1, 1, 1, 4))
    state = depth.start(torch.from_numpy(outputs[0]))
    for i, row in enumerate(average_matrix(weights, per_layer)):
        expected = sum(a * v for a, v in zip(row, outputs, strict=False))
        size = abs(expected).max() + sum(np.abs(w).sum() for w in weights) ** layers
        assert np.allclose(depth.read(i, state).detach().numpy(), expected, rtol=0, atol=1e-12 * size)
        if i < len(outputs) - 1:
            state = depth.write(i, state, torch.from_numpy(outputs[i + 1]))


@given(st.sampled_from([*RULES, DepthAttention(score="sigmoid"), DepthAttention(block=2, window=2)]), st.integers(1, 4))
def test_start_matrix_is_what_a_decoder_reads(depth, layers):
    config = replace(SIZES, n_layers=layers, d_model=2 * layers + 1, positions="none", n_heads=1)
    chosen = plan_of(layers, depth)
    rule, state = Decoder(config, chosen).double().depth, None
    for i, row in enumerate(start_matrix(config, chosen)):
        output = torch.eye(2 * layers + 1, dtype=torch.float64)[i][None, None]
        state = rule.start(output) if state is None else rule.write(i - 1, state, output)
        assert rule.read(i, state)[0, 0].tolist()[: i + 1] == pytest.approx([float(a) for a in row])
    if depth != DepthAttention(block=2, window=2):
        assert [float(row[0]) for row in start_matrix(config, chosen)] == start_scale(config, chosen)


@pytest.mark.parametrize("depth", [*RULES, DepthAttention(score="sigmoid")])
def test_typical_read(depth):
    """Uncorrelated outputs at zero queries, from the matrix; growth like the square root for a residual stream only."""
    for layers in (1, 3):
        config = replace(SIZES, n_layers=layers)
        last = start_matrix(config, plan_of(layers, depth))[-1]
        squares = sum(float(a) ** 2 * size for a, size in zip(last, [4.0] + [9.0] * 2 * layers, strict=True))
        assert growth.typical_read(depth, 2 * layers, 2.0, 3.0) == pytest.approx(sqrt(squares))
    assert growth.typical_read(Residual(), 400, 0, 1) == 20
    assert growth.typical_read(DepthAttention(), 399, 1, 1) == pytest.approx(1 / 20)


def test_every_row_is_backed_by_a_check_of_the_ledger():
    for row in ROWS:
        assert row.check in {evidence.holds.__name__ for evidence in catalogue.claim(row.entry).evidence}


def test_the_table_has_all_of_them():
    assert table().count("falls:") == len(ROWS) >= 4
    assert {"norm", "eps", "head", "zero"} <= set(table().replace(":", " ").split())


factors = st.fractions(0, 3, max_denominator=8)


@given(st.sampled_from(RULES), st.integers(1, 4), factors)
def test_unnormed_law_is_the_last_bound(depth, layers, factor):
    config, chosen = replace(SIZES, n_layers=layers, norm="none"), plan_of(layers, depth)
    outputs = unnormed.unnormed_outputs(config, chosen, 1.0, [float(factor)] * 2 * layers)
    last = read_bounds(config, chosen, 1.0, outputs)[-1]
    assert last == pytest.approx(float(unnormed.unnormed_law(depth, 2 * layers, factor)), rel=1e-9)


@given(st.integers(1, 6), st.integers(0, 2**16), st.sampled_from(ATTAINED))
def test_random_unnormed_decoders_keep_below_the_bounds(layers, seed, name):
    config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
    model = Decoder(config, resolve(name, config.shape), seed=seed, std=0.7).double()
    maps = [layer.attention.output.weight @ layer.attention.projections.value.weight for layer in model.layers]
    factors = [float(torch.linalg.matrix_norm(m.detach(), 2)) for m in maps]
    with torch.no_grad():
        if name != "vanilla":
            model.depth.query.normal_(0, 3)
    found = read_norms(model)
    outputs = unnormed.unnormed_outputs(config, model.plan, found[0], factors)
    allowed = read_bounds(config, model.plan, found[0], outputs)
    assert all(norm <= bound * (1 + EXACT) for norm, bound in zip(found, allowed, strict=True))


@given(st.sampled_from(RULES), st.integers(1, 4), st.fractions(Fraction(1, 8), 3, max_denominator=8))
def test_aligned_outputs_at_zero_queries(depth, layers, factor):
    """A decoder of factors of the identity, exactly a product; with any query if keys are normed and eps = 0."""
    config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
    chosen = plan_of(layers, depth)
    made = growth.extremal(replace(config, norm="rms"), resolve("vanilla", config.shape), 1.0, [1.0] * layers)
    model = growing(config, chosen, made, 7.0, [float(factor)] * layers)
    expected = unnormed.start_growth(config, chosen, factor)
    assert read_norms(model)[-1] == pytest.approx(float(expected), rel=1e-9)
