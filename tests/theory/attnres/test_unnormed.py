"""Growth without norms before sublayers: bounds, decoders that attain them, and aligned outputs."""

from dataclasses import replace
from fractions import Fraction
from math import comb

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.attnres.networks import growing, read_norms
from icl.models.decoder import Decoder
from tests.theory.attnres.sizes import ATTAINED, EXACT, RULES, SIZES, plan_of
from theory.attnres import growth, unnormed
from theory.attnres.bounds import read_bounds
from theory.errors import BadInput, InvalidSize
from theory.plans.names import resolve
from theory.plans.plan import Chain, DepthAttention, Residual

factors = st.fractions(0, 3, max_denominator=8)


@pytest.mark.parametrize("name", ATTAINED[:4])
@pytest.mark.parametrize("factor", [0.4, 1.0, 1.7])
def test_without_norms_decoders_attain_the_geometric_law(name, factor):
    """The hypothesis of norms before sublayers, dropped: Full grows geometrically too."""
    config = replace(SIZES, n_layers=7, d_ff=0, norm="none")
    chosen = resolve(name, config.shape)
    outputs = unnormed.unnormed_outputs(config, chosen, 1.0, [factor] * 7)
    made = growth.extremal(config, chosen, 1.0, outputs)
    found = read_norms(growing(config, chosen, made, 1e4, [factor] * 7))
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
    found = read_norms(model)
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
        assert read_norms(model) == pytest.approx(made.reads, rel=1e-9)
        assert read_norms(model)[-1] >= 2.0**81 * (1 - 1e-9)


@given(st.sampled_from(RULES), st.integers(1, 4), st.fractions(Fraction(1, 8), 3, max_denominator=8))
def test_aligned_outputs_at_zero_queries(depth, layers, factor):
    """A decoder of factors of the identity, exactly a product; with any query if keys are normed and eps = 0."""
    config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
    chosen = plan_of(layers, depth)
    made = growth.extremal(replace(config, norm="rms"), resolve("vanilla", config.shape), 1.0, [1.0] * layers)
    model = growing(config, chosen, made, 7.0, [float(factor)] * layers)
    expected = unnormed.start_growth(config, chosen, factor)
    assert read_norms(model)[-1] == pytest.approx(float(expected), rel=1e-9)


def test_aligned_outputs_grow_as_a_power_under_full():
    for layers, factor in ((1, 2), (5, 1), (9, 2), (30, 3)):
        config = replace(SIZES, n_layers=layers, d_ff=0, norm="none")
        found = unnormed.start_growth(config, plan_of(layers, DepthAttention()), factor)
        assert found == Fraction(comb(layers + factor, factor), layers + 1)
        assert unnormed.start_growth(config, plan_of(layers, Residual()), factor) == (1 + factor) ** layers


def test_bad_input():
    with pytest.raises(BadInput):
        unnormed.unnormed_law(Chain(), 2, 1)
    with pytest.raises(BadInput):
        unnormed.unnormed_outputs(SIZES, plan_of(3, Residual()), 10.0, [1.0] * 6, power=9)
    with pytest.raises(InvalidSize):
        unnormed.unnormed_outputs(SIZES, plan_of(3, Residual()), 1.0, [1.0] * 6, power=0)
