"""Coefficients of outputs make what real decoders read, under every depth rule; shares are theory's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.probes.shares import coefficients, recorded, shares
from icl.testing import DEPTHS, check_identity, plans
from tests.icl.probes.models import config_of, model_of, tokens
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.attnres.dilution import norm_shares, projection_shares
from theory.errors import BadInput
from theory.plans.plan import DepthAttention, DepthAverage, plan

SIZES = {"d_model": 10, "head_dim": 4}  # 2 and 5 divide the width
STREAMS = ["hyper-connections", "mhc", "residual-lambdas", "unet-skips", "mudd"]
RULES = ["vanilla", "denseformer", "attnres", "attnres-block:size=3", "attnres-block:size=2+skipv1"]


def total(row, outputs):
    """The sum of coefficients times outputs."""
    parts = (a[..., None] * v.unflatten(-1, (a.shape[-1], -1)) for a, v in zip(row, outputs[: len(row)], strict=True))
    return sum(part.flatten(-2) for part in parts)


def made(model, inputs):
    """Reads, what coefficients make of outputs, and both of these."""
    with torch.no_grad():
        reads, outputs = recorded(model, inputs)
        rows = coefficients(model, outputs)
    return reads, [total(row, outputs) for row in rows], rows, outputs


@given(plans(max_layers=3, max_heads=2), st.sampled_from([0.1, 1.0]), st.integers(0, 99))
@pytest.mark.long
def test_coefficients_make_the_reads(drawn, scale, seed):
    """Every parameter is moved, so queries are not zero and averages are not the newest output."""
    model = model_of(config_of(drawn.shape.layers, drawn.shape.heads, **SIZES), drawn, seed, scale)
    reads, parts, rows, outputs = made(model, tokens(2, 4, seed))
    largest = max(float((a.abs().sum(0)).max()) for a in rows) * max(float(v.norm()) for v in outputs)
    assert [len(row) for row in rows] == list(range(1, len(reads) + 1))
    for read, part in zip(reads, parts, strict=True):
        check_identity(read, part, terms=4 * len(reads), scale=max(largest, 1.0))
    assert max(shares(model, tokens(2, 4, seed)).error) < 1e-10


@pytest.mark.parametrize("name", STREAMS)
def test_coefficients_make_the_reads_of_streams(name):
    model = model_of(config_of(3, **SIZES), name, scale=0.3)
    reads, parts, rows, outputs = made(model, tokens(2, 4))
    largest = max(float((a.abs().sum(0)).max()) for a in rows) * max(float(v.norm()) for v in outputs)
    assert [len(row) for row in rows] == list(range(1, len(reads) + 1))
    for read, part in zip(reads, parts, strict=True):
        check_identity(read, part, terms=400 * len(reads), scale=max(largest, 1.0))
    assert max(shares(model, tokens(2, 4)).error) < 1e-10


def test_coefficients_for_every_coordinate_are_refused():
    model = model_of(config_of(3, **SIZES), "deepcrossattention")
    with pytest.raises(BadInput, match="no one number"):
        shares(model, tokens(2, 4))


@pytest.mark.parametrize("depth", [d for d in DEPTHS if isinstance(d, DepthAttention | DepthAverage)], ids=str)
def test_coefficients_of_the_start_do_not(depth):
    """The control."""
    config = config_of(3, **SIZES)
    start, model = (model_of(config, plan(config.shape, depth=depth), scale=s) for s in (0.0, 1.0))
    reads, _, rows, outputs = made(model, tokens())
    with torch.no_grad():
        before = coefficients(start, outputs)
    wrong = total(before[-1], outputs)
    assert float((wrong - reads[-1]).norm()) > 0.01 * float(reads[-1].norm())
    assert rows[-1].shape[-1] == getattr(depth, "heads", 1)


@pytest.mark.parametrize("name", RULES)
def test_at_the_start_they_are_theory_s(name):
    config = config_of(3)
    model = model_of(config, name, scale=0.0)
    with torch.no_grad():
        rows = coefficients(model, recorded(model, tokens())[1])
    for row, exact in zip(rows, start_matrix(config, model.plan), strict=True):
        assert np.allclose(row.amin((1, 2, 3)), [float(a) for a in exact], rtol=1e-12, atol=0)
        assert torch.equal(row.amin((1, 2, 3)), row.amax((1, 2, 3)))


def test_denseformer_s_are_the_matrix_of_its_averages():
    model = model_of(config_of(3), "denseformer")
    averages = [weights.tolist() for weights in model.depth.weights]
    with torch.no_grad():
        rows = coefficients(model, recorded(model, tokens())[1])
    for row, exact in zip(rows, average_matrix(averages, 2), strict=True):
        assert np.allclose(row.flatten(), exact, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", RULES)
def test_shares_of_one_token_are_theory_s(name):
    model, inputs = model_of(config_of(2), name, seed=3), tokens(1, 1)
    found = shares(model, inputs)
    _, _, rows, outputs = made(model, inputs)
    for i, row in enumerate(rows):
        a, v = row.flatten().numpy(), np.stack([x[0, 0].numpy() for x in outputs[: i + 1]])
        assert found.coefficient[i] == pytest.approx(abs(a) / abs(a).sum(), rel=1e-12)
        assert found.least[i] == found.most[i] == found.coefficient[i]
        assert found.projection[i] == pytest.approx(projection_shares(a, v), rel=1e-9, abs=1e-12)
        squares = norm_shares(a, v) ** 2 / (norm_shares(a, v) ** 2).sum()
        assert found.square[i] == pytest.approx(squares, rel=1e-9)
        assert found.effective[i] == pytest.approx(-np.log((squares**2).sum()), abs=1e-9)


def test_outputs_of_zero_leave_the_embedding_alone():
    """But of the coefficients they have their share."""
    model = model_of(config_of(2), "vanilla", scale=0.0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("output.weight", "down.weight")):
                parameter.zero_()
    found = shares(model, tokens())
    assert found.effective == (0.0,) * 5
    assert [row[0] for row in found.square] == [1.0] * 5
    assert [row[0] for row in found.coefficient] == [1 / n for n in range(1, 6)]


def test_means_are_over_tokens():
    model = model_of(config_of(2), "attnres")
    inputs = tokens(4, 3)
    whole, halves = shares(model, inputs), [shares(model, inputs[i : i + 2]) for i in (0, 2)]
    for kind in ("coefficient", "projection", "square"):
        means = [np.mean(rows, axis=0) for rows in zip(*(getattr(half, kind) for half in halves), strict=True)]
        assert all(np.allclose(a, b, rtol=1e-12) for a, b in zip(getattr(whole, kind), means, strict=True))
    assert whole.effective == pytest.approx(np.mean([half.effective for half in halves], axis=0))
    assert all((np.array(a) <= np.array(b)).all() for a, b in zip(whole.least, whole.coefficient, strict=True))
    assert whole.least[-1] == pytest.approx(np.minimum(*(half.least[-1] for half in halves)))
    assert whole.most[-1] == pytest.approx(np.maximum(*(half.most[-1] for half in halves)))


def test_lengths_are_of_query_times_gain_where_one_softmax_has_normed_keys():
    model = model_of(config_of(2), "attnres-block:size=3")
    expected = (model.depth.query * model.depth.gain).detach().norm(dim=1)
    assert shares(model, tokens()).lengths == pytest.approx(expected.tolist())
    kinds = ("no-key-norm", "sigmoid", "static", "heads:heads=2")
    others = ["vanilla", "denseformer", *(f"attnres-{kind}" for kind in kinds)]
    assert {shares(model_of(config_of(2), name), tokens()).lengths for name in others} == {None}


def test_leaves_the_model_as_it_was():
    model = model_of(config_of(), "attnres")
    shares(model, tokens())
    with pytest.raises(IndexError):
        shares(model, tokens() + 7)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
