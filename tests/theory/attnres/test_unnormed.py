"""Growth without norms before sublayers: bounds, decoders that attain them, and aligned outputs."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.attnres.networks import growing, read_norms
from icl.models.decoder import Decoder
from tests.theory.attnres.sizes import ATTAINED, EXACT, RULES, SIZES, plan_of
from theory.attnres import growth, unnormed
from theory.attnres.bounds import read_bounds
from theory.plans.names import resolve

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
