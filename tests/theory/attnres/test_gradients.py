"""Gradients under zero queries against autograd on real decoders, in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.probes.gradients import gradients
from theory.attnres import gradients as theory
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
