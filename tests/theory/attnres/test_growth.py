"""Laws of growth against bounds, against decoders that attain them, and without each hypothesis."""

from dataclasses import replace
from fractions import Fraction
from math import ceil, comb, inf, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.attnres.networks import growing, reads
from experiments.training.magnitude_probe import bounds
from icl.models.decoder import Decoder
from theory.attnres import growth, initial, unnormed
from theory.attnres.bounds import read_bounds, start_scale
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.errors import BadInput, InvalidSize
from theory.plans.names import resolve
from theory.plans.plan import Chain, DepthAttention, DepthAverage, Residual, Shape, plan
from theory.plans.presets import llama

EXACT = 1e-12
TOKEN = torch.zeros(1, 1, dtype=torch.long)
SIZES = replace(llama(d_model=4, n_heads=1, n_layers=3, d_ff=2, vocab=2, context=4), norm_eps=0.0)
ATTAINED = ["vanilla", "attnres", "attnres-block:size=1", "attnres-block:size=3", "attnres-window:window=2"]
RULES = [Residual(), DepthAttention(), DepthAttention(block=2), DepthAttention(block=5)]
factors = st.fractions(0, 3, max_denominator=8)


def plan_of(layers, depth):
    return plan(Shape(layers, 1), depth=depth)


def norms(model):
    return [float(h.norm()) for h in reads(model, TOKEN)]


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


def test_laws_in_depth():
    """Linear for PreNorm and for a fixed number of blocks; nothing for Full and for blocks of one size."""
    depths = (8, 16, 32)

    def law(depth_of):
        return [growth.largest_read(depth_of(m), m, 1, 1) for m in depths]

    assert law(lambda _: Residual()) == [9, 17, 33]
    assert law(lambda _: DepthAttention()) == [1, 1, 1]
    assert law(lambda _: DepthAttention(block=4)) == [4, 4, 4]
    assert law(lambda m: DepthAttention(block=ceil(m / 4))) == [2, 4, 8]


@pytest.mark.parametrize("name", ATTAINED)
@pytest.mark.parametrize("d", [2, 4])
def test_decoders_attain_every_bound(name, d):
    """Of the outputs' sizes, and of the decoder's own weights, at every read at once."""
    made, model = network(name, replace(SIZES, d_model=d))
    assert norms(model) == pytest.approx(made.reads, rel=EXACT)
    assert norms(model) == pytest.approx(bounds(model, made.outputs[0]), rel=EXACT)
    assert len(set(made.reads)) > 1


@pytest.mark.parametrize("query", [0.0, 3.0, 30.0])
def test_the_picked_weight_says_how_near_a_query_comes(query):
    made, model = network("attnres", query=query)
    for i, (norm, bound) in enumerate(zip(norms(model), made.reads, strict=True)):
        weight = growth.picked_weight(i + 1, max(made.directions, i + 1), query, SIZES.d_model)
        assert norm >= (2 * weight - 1) * bound
    assert (norms(model)[-1] < 0.9 * made.reads[-1]) == (query < 30)


def test_at_zero_queries_the_bound_is_not_attained():
    """The hypothesis that queries have moved, dropped: what is read is the mean."""
    made, model = network("attnres", query=0.0)
    assert norms(model)[-1] < 0.6 * made.reads[-1]


def test_with_eps_no_bound_is_attained():
    made, _ = network("attnres")
    config = replace(SIZES, norm_eps=0.1)
    model = growing(config, resolve("attnres", config.shape), made, 1e4)
    assert all(norm < 0.999 * bound for norm, bound in zip(norms(model)[1:], made.reads[1:], strict=True))


def test_several_heads_over_depth_exceed_the_largest_source():
    """The hypothesis of one head, dropped: each half of the width takes another source."""
    config = replace(SIZES, d_model=2, n_layers=1, d_ff=0)
    chosen = resolve("attnres-heads:heads=2,blocks=2", config.shape)
    model = Decoder(config, chosen).double()
    with torch.no_grad():
        model.stem.embedding.weight[:] = torch.tensor([1.0, 0.0])
        model.layers[0].attention.projections.value.weight.copy_(torch.eye(2))
        model.layers[0].attention.output.weight.copy_(torch.tensor([[0, 0], [1 / sqrt(2), 0]], dtype=torch.float64))
        model.depth.query[-1] = 1e3  # each half looks for a source with a positive entry
    assert norms(model)[-1] == pytest.approx(sqrt(2), rel=EXACT)
    assert read_bounds(config, chosen, 1.0, [1.0])[-1] == pytest.approx(sqrt(2))


def test_values_cancel():
    """So no read is bounded from below: the second one is nothing, under a residual stream and at zero queries."""
    for name in ("vanilla", "attnres"):
        config = replace(SIZES, n_layers=1, d_ff=0, norm_eps=1e-20)
        chosen = resolve(name, config.shape)
        made = growth.extremal(config, resolve("vanilla", config.shape), 1.0, [1.0])
        model = growing(config, chosen, made, 0.0)
        with torch.no_grad():
            model.layers[0].attention.output.weight.neg_()
        assert norms(model) == pytest.approx([1.0, 0.0], abs=EXACT)


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


def test_postnorm_range_is_attained():
    gain = np.array([3.0, -1.0])
    ends = [np.linalg.norm(gain * sqrt(2) * axis) for axis in np.eye(2)]
    assert tuple(sorted(ends)) == pytest.approx(growth.postnorm_range(gain))


@given(st.integers(0, 6), st.integers(1, 2), st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3)]))
def test_averages_attain_their_law(layers, per_layer, row):
    """Aligned outputs, all of the row on the newest result: geometric beyond 1, linear at 1, bounded below."""
    weights = [[0] * n + [row] for n in range(1, layers + 1)]
    last = average_matrix(weights, per_layer)[-1]
    assert last[0] * 2 + sum(last[1:]) * 5 == growth.largest_average(row, layers, per_layer, 2, 5)


def test_a_mean_over_depth_grows_like_the_logarithm():
    layers = 40
    last = average_matrix([[Fraction(1, n + 1)] * (n + 1) for n in range(1, layers + 1)], 1)[-1]
    assert sum(last) == sum(Fraction(1, n) for n in range(1, layers + 2))
    assert sum(last) < growth.largest_average(1, layers, 1, 1, 1)


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


# Without norms


@pytest.mark.parametrize("name", ATTAINED[:4])
@pytest.mark.parametrize("factor", [0.4, 1.0, 1.7])
def test_without_norms_decoders_attain_the_geometric_law(name, factor):
    """The hypothesis of norms before sublayers, dropped: Full grows geometrically too."""
    config = replace(SIZES, n_layers=7, d_ff=0, norm="none")
    chosen = resolve(name, config.shape)
    outputs = unnormed.unnormed_outputs(config, chosen, 1.0, [factor] * 7)
    made = growth.extremal(config, chosen, 1.0, outputs)
    found = norms(growing(config, chosen, made, 1e4, [factor] * 7))
    assert found == pytest.approx(made.reads, rel=EXACT)
    assert found[-1] == pytest.approx(float(unnormed.unnormed_law(chosen.depth, 7, factor)), rel=EXACT)
    assert (found[-1] > 1.01) == (factor > {"vanilla": 0, "attnres-block:size=3": 1 / 3}.get(name, 1))


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
    found = norms(model)
    outputs = unnormed.unnormed_outputs(config, model.plan, found[0], factors)
    allowed = read_bounds(config, model.plan, found[0], outputs)
    assert all(norm <= bound * (1 + EXACT) for norm, bound in zip(found, allowed, strict=True))


def test_linear_attention_grows_doubly_exponentially():
    """Three factors of what is read: with all weight on the newest output, its norm is cubed by every layer."""
    config = replace(SIZES, n_layers=4, d_ff=0, norm="none", score="linear", positions="none")
    for name in ("attnres", "attnres-block:size=3", "vanilla"):
        chosen = resolve(name, config.shape)
        outputs = unnormed.unnormed_outputs(config, chosen, 2.0, [1.0] * 4, power=3)
        made = growth.extremal(config, chosen, 2.0, outputs)
        model = growing(config, chosen, made, 1e4, [1.0] * 4)
        with torch.no_grad():
            for layer in model.layers:
                for kind in ("query", "key"):
                    layer.attention.projections.get_parameter(f"{kind}.weight").copy_(torch.eye(4))
        assert norms(model) == pytest.approx(made.reads, rel=1e-9)
        assert norms(model)[-1] >= 2.0**81 * (1 - 1e-9)


@given(st.sampled_from(RULES), st.integers(1, 4), st.fractions(Fraction(1, 8), 3, max_denominator=8))
def test_aligned_outputs_at_zero_queries(depth, layers, factor):
    """A decoder of factors of the identity, exactly a product; with any query if keys are normed and eps = 0."""
    config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
    chosen = plan_of(layers, depth)
    made = growth.extremal(replace(config, norm="rms"), resolve("vanilla", config.shape), 1.0, [1.0] * layers)
    model = growing(config, chosen, made, 7.0, [float(factor)] * layers)
    expected = unnormed.start_growth(config, chosen, factor)
    assert norms(model)[-1] == pytest.approx(float(expected), rel=1e-9)


def test_aligned_outputs_grow_as_a_power_under_full():
    for layers, factor in ((1, 2), (5, 1), (9, 2), (30, 3)):
        config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
        found = unnormed.start_growth(config, plan_of(layers, DepthAttention()), factor)
        assert found == Fraction(comb(layers + factor, factor), layers + 1)
        assert unnormed.start_growth(config, plan_of(layers, Residual()), factor) == (1 + factor) ** layers


# At initial weights


@pytest.mark.parametrize(
    ("changes", "scaled"),
    [({}, True), ({"gated": False, "norm": "layer"}, False), ({"d_ff": 0, "positions": "learned", "d_model": 3}, True)],
)
def test_initial_sizes(changes, scaled):
    """On average over initial weights, to four standard errors; one token alone."""
    config = replace(SIZES, n_layers=2, n_heads=1, **{"d_ff": 3} | changes)
    chosen, seeds = resolve("attnres", config.shape), 200
    models = (Decoder(config, chosen, seed=s, std=0.6, scale_outputs=scaled).double() for s in range(seeds))
    squares = np.array([norms(model) for model in models]) ** 2
    expected = initial.initial_reads(config, chosen, 0.6, scale_outputs=scaled)
    errors = squares.std(0, ddof=1) / sqrt(seeds)
    assert (abs(squares.mean(0) - expected) <= 4 * errors).all()
    assert (errors < 0.2 * np.array(expected)).all()


def test_with_scaled_outputs_depth_makes_no_difference():
    """PreNorm's stream at the last read, at the usual initial weights, is as large at 4 layers as at 64."""

    def last(layers, name, scaled=True):
        config = llama(d_model=512, n_heads=8, n_layers=layers, d_ff=1376, vocab=64, context=8)
        return initial.initial_reads(config, resolve(name, config.shape), scale_outputs=scaled)[-1]

    assert last(64, "vanilla") == pytest.approx(last(4, "vanilla"))
    assert last(64, "vanilla", scaled=False) > 10 * last(4, "vanilla", scaled=False)
    assert last(64, "attnres") == pytest.approx(last(64, "vanilla") / 129**2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: growth.largest_read(DepthAttention(heads=2), 2, 1, 1),
        lambda: growth.typical_read(Chain(), 2, 1.0, 1.0),
        lambda: growth.extremal(SIZES, plan_of(3, DepthAttention(score="sigmoid")), 1.0, [1.0] * 6),
        lambda: growth.extremal(SIZES, plan_of(3, DepthAverage()), 1.0, [1.0] * 6),
        lambda: growth.extremal(SIZES, plan_of(3, Residual()), 1.0, [1.0, inf] * 3),
        lambda: unnormed.unnormed_law(Chain(), 2, 1),
        lambda: unnormed.unnormed_outputs(SIZES, plan_of(3, Residual()), 10.0, [1.0] * 6, power=9),
        lambda: average_matrix([[1, 1, 1]], 1),
        lambda: start_matrix(SIZES, plan_of(2, Residual())),
        lambda: initial.initial_outputs(replace(SIZES, norm="none"), plan_of(3, Residual())),
        lambda: initial.initial_outputs(SIZES, resolve("resformer", SIZES.shape)),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: growth.largest_read(Residual(), -1, 1, 1),
        lambda: growth.in_a_plane(3, 1),
        lambda: growth.in_a_plane(0, 2),
        lambda: growth.picked_weight(3, 2, 1.0, 4),
        lambda: unnormed.unnormed_outputs(SIZES, plan_of(3, Residual()), 1.0, [1.0] * 6, power=0),
    ],
)
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()
