"""Gradients under zero queries against autograd, in float64; sizes, gradients and what depth conserves at the start."""

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtr

from icl.models.decoder import Decoder
from icl.probes.gradients import gradients
from theory.attnres import gradients as theory
from theory.attnres import typical
from theory.attnres.initial import initial_reads
from theory.attnres.start_gradients import sent_back, slope, start_gradients
from theory.plans.names import resolve
from theory.plans.presets import llama

CLOSE = 1e-9
SIZES = llama(d_model=6, n_heads=1, n_layers=3, d_ff=5, vocab=7, context=5)
TOKENS = torch.tensor([[0, 3, 1, 6, 2], [5, 5, 0, 4, 1]])


def measured(name, config, seed=0, change=lambda model: None):
    model = Decoder(config, resolve(name, config.shape), seed=seed, std=0.5).double()
    with torch.no_grad():
        change(model)
    return model, gradients(model, TOKENS, lambda answer: torch.sin(answer * torch.arange(1, 8)).mean())


def same(one, other):
    return torch.linalg.vector_norm(one - other) <= CLOSE * torch.linalg.vector_norm(other)


@pytest.mark.parametrize(
    ("name", "norm"),
    [("attnres-static", "rms"), ("attnres-sigmoid", "rms")]
    + [(name, "layer") for name in ("attnres", "attnres-block:size=2", "attnres-sigmoid")],
)
def test_without_eps_parameters_and_outputs_get_prenorms_gradients(name, norm):
    """And what a sublayer reads gets as many times as much as there are sources."""
    config = replace(SIZES, norm=norm, norm_eps=0.0)
    model, found = measured(name, config)
    _, prenorm = measured("vanilla", config)
    assert found.loss == pytest.approx(prenorm.loss, rel=1e-12)
    for parameter, gradient in prenorm.of_parameters.items():
        assert same(found.of_parameters[parameter], gradient), parameter
    assert all(map(same, found.of_outputs, prenorm.of_outputs))
    factors = theory.read_factor(config, model.plan)
    assert max(factors) > 1
    for factor, one, other in zip(factors, found.of_reads, prenorm.of_reads, strict=True):
        assert same(one, factor * other)
    assert not same(found.of_reads[-1], prenorm.of_reads[-1])
    for h, b in zip(found.reads, found.of_reads, strict=True):
        assert (h * b).sum(-1).abs().max() <= CLOSE * (h.norm(dim=-1) * b.norm(dim=-1)).max()
    if "depth.gain" in found.of_parameters:
        assert not found.of_parameters["depth.gain"].any()
    if name != "attnres-sigmoid":  # where the norm of one source's weight is learned too
        queries = found.of_parameters.get("depth.query")
        assert queries is None or (not queries[0].any() and queries[1:].any())


@given(st.integers(0, 2**16), st.sampled_from([0.0, 0.7]), st.sampled_from([0.0, 1e-2]))
def test_query_gradient(seed, size, eps):
    """Of every read, at zero queries and at others, and with any gain of the keys."""

    def change(model):
        torch.manual_seed(seed)
        model.depth.query.normal_(0, size) if size else None
        model.depth.gain.normal_()

    config = replace(SIZES, n_layers=2, norm_eps=eps)
    model, found = measured("attnres", config, seed, change=change)
    for i, of_read in enumerate(found.of_reads):
        sources = torch.stack(found.outputs[: i + 1]).flatten(1, 2).numpy()
        query, gain = (p[i].detach().numpy() for p in (model.depth.query, model.depth.gain))
        expected = theory.query_gradient(query, gain, sources, of_read.flatten(0, 1).numpy(), eps)
        there = found.of_parameters["depth.query"][i].numpy()
        assert np.linalg.norm(expected - there) <= CLOSE * (1e-3 + np.linalg.norm(there))


def test_exponents():
    assert theory.read_exponents(0.5, 0.5) == (-1, 0)


POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(200)
BY_SUM = {
    "gelu": (lambda a: a * ndtr(a), lambda a: ndtr(a) + a * np.exp(-(a**2) / 2) / sqrt(2 * np.pi)),
    "silu": (lambda a: a * expit(a), lambda a: expit(a) * (1 + a * (1 - expit(a)))),
}


@given(st.floats(1e-4, 8), st.sampled_from(["gelu", "silu", "swiglu"]))
def test_slopes_by_gauss_and_hermite(q, kind):
    of, bend = BY_SUM["silu" if kind == "swiglu" else kind]
    ratio = q * (WEIGHTS @ bend(sqrt(q) * POINTS) ** 2) / (WEIGHTS @ of(sqrt(q) * POINTS) ** 2)
    assert slope(q, kind) == pytest.approx(ratio + (kind == "swiglu"), rel=1e-6)


@given(st.integers(1, 6), st.integers(1, 40), st.floats(1e-3, 1), st.booleans())
def test_the_gradient_falls_as_the_stream_grows(layers, width, std, scale):
    """Attention alone: of width d, E ||G_l||^2 times the stream's mean square is nearly the same at all l."""
    d = 2 * width
    config = llama(d_model=d, n_heads=1, n_layers=layers, d_ff=0, vocab=2, context=2)
    plan = resolve("vanilla", config.shape)
    squares = np.array(start_gradients(config, plan, std, scale_outputs=scale))
    streams = np.array(initial_reads(config, plan, std, scale_outputs=scale))
    through = np.cumsum(squares[::-1])[::-1]  # E ||G_l||^2, as G_l is the sum of later b
    growth = streams[1:] / streams[:-1] - 1
    assert through[:-1] / through[1:] == pytest.approx(1 + (1 - 1 / d) * growth)
    assert squares[-1] == 1


SIZES_OF_OUTPUTS = st.lists(st.fractions(Fraction(1, 100), 100), min_size=2, max_size=8)


@given(SIZES_OF_OUTPUTS)
def test_linear_maps_send_back_what_the_inverse_of_the_stream_loses(outputs):
    """chi = 1, in Fractions: proportional to 1 / s_l - 1 / s_{l+1}, the last one to 1 / s_M."""
    inverses = [1 / s for s in accumulate(outputs)]
    lost = [one - other for one, other in zip(inverses, [*inverses[1:], 0], strict=True)]
    assert sent_back(outputs, [1] * (len(outputs) - 1)) == [x / lost[-1] for x in lost]


@given(SIZES_OF_OUTPUTS, st.sampled_from([0, 1, 2]))
def test_what_is_sent_back_adds_up_to_a_product(outputs, chi):
    squares, streams = sent_back(outputs, [chi] * (len(outputs) - 1)), list(accumulate(outputs))
    through = Fraction(1)
    for output, stream in zip(outputs[1:], streams, strict=False):
        through *= 1 + chi * output / stream
    assert sum(squares) == through


@given(st.integers(1, 5), st.sampled_from([1, 2, 3]))
def test_depth_attention_has_prenorm_s_times_the_number_of_sources(layers, size):
    config = llama(d_model=8, n_heads=2, n_layers=layers, d_ff=5, vocab=2, context=2)
    prenorm, block = (
        start_gradients(config, resolve(name, config.shape)) for name in ("vanilla", f"attnres-block:size={size}")
    )
    counts = [1 + -(-i // size) for i in range(2 * layers + 1)]
    assert block == pytest.approx([b * k**2 for b, k in zip(prenorm, counts, strict=True)])


@given(st.floats(1e-4, 1e3))
@settings(max_examples=20)
def test_gelu_s_closed_form_is_its_quadrature(q):
    assert typical.inner_square(q, "gelu") == pytest.approx(typical._inner_moment(q, "gelu", 2), rel=1e-7)
