"""Magnitudes and gradients in real decoders against bounds from their weights, and against plain recomputation."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.models.projections import merged
from icl.probes.gradients import gradients
from icl.probes.magnitude import AttentionWeights, magnitudes, sublayer_weights
from icl.testing import plans
from tests.icl.probes import models
from tests.icl.probes.models import VOCAB, model_of
from theory.attnres.bounds import read_bounds
from theory.attnres.sublayers import attention_bound, feed_forward_bound
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention, plan
from theory.plans.presets import llama, toy

SLACK = 1 + 1e-9  # float64 through a few dozen products
config_of = partial(models.config_of, d_model=10, head_dim=5)


def tokens(seed=0):
    return models.tokens(seed=seed)


def square(answer):
    return answer.square().mean()


def bounds_of(model):
    """Of every sublayer's output."""
    return [
        (attention_bound if isinstance(weights, AttentionWeights) else feed_forward_bound)(**vars(weights))
        for weights in sublayer_weights(model)
    ]


VARIANTS = ["vanilla", "attnres", "attnres-block:size=3", "attnres-heads:heads=5", "attnres-sigmoid"]


@given(
    st.sampled_from([*VARIANTS, "attnres-window:window=2", "residual-queries"]),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from(
        [{}, {"gated": False, "norm": "layer"}, {"norm_eps": 1e-12}, {"mask": "none", "positions": "learned"}]
    ),
    st.sampled_from([0.1, 1.0, 10.0]),
    st.integers(0, 99),
)
def test_nothing_passes_its_bound(variant, layers, group, changes, scale, seed):
    model = model_of(config_of(layers, group=group, **changes), variant, seed, scale)
    found, outputs = magnitudes(model, tokens(seed), square), bounds_of(model)
    reads = read_bounds(model.config, model.plan, found.output_max[0], outputs)
    assert len(outputs) == len(found.output_max) - 1 == len(found.read_max) - 1
    assert all(size <= bound * SLACK for size, bound in zip(found.output_max[1:], outputs, strict=True))
    assert all(size <= bound * SLACK for size, bound in zip(found.read_max, reads, strict=True))
    assert all(a <= b * SLACK for a, b in zip(found.read_rms, found.read_max, strict=True))


def aligned(variant, layers=4):
    """A decoder all of whose matrices are ones, so that all that sublayers put out has one direction."""
    model = Decoder(config_of(layers, norm_eps=0.0), resolve(variant, config_of(layers).shape)).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("weight"):
                parameter.fill_(1)
    return model


@given(
    st.sampled_from(["attnres", "attnres-block:size=3", "attnres-no-key-norm", "attnres-static"]), st.integers(0, 99)
)
def test_depth_attention_is_convex(variant, seed):
    model = model_of(config_of(3), variant, seed)
    assert max(magnitudes(model, tokens(), square).ratio) <= SLACK


@pytest.mark.parametrize("variant", ["vanilla", "attnres-sigmoid"])
def test_sums_over_depth_are_not_convex(variant):
    """The control: the same measurement finds it."""
    assert max(magnitudes(aligned(variant), tokens(), square).ratio) > 1.5


def test_depth_attention_with_heads_is_not_convex():
    config = config_of(3)
    model = model_of(config, plan(config.shape, depth=DepthAttention(heads=10)), seed=1, scale=0.3)
    with torch.no_grad():
        model.depth.query.mul_(20)
    assert max(magnitudes(model, tokens(), square).ratio) > 1.01


def plainly(model, inputs):
    """Reads, outputs and the loss by the decoder's own loop, nothing hooked."""
    x = model.stem.embed(inputs)
    frame, _ = model.frame(x)
    state, reads, outputs, bank = model.depth.start(x), [], [x], {}
    for step, sublayer in enumerate(model.sublayers):
        reads.append(model.depth.read(step, state))
        out, bank = sublayer(reads[-1], bank, frame)
        outputs.append(out)
        state = model.depth.write(step, state, out)
    reads.append(model.depth.read(len(model.sublayers), state))
    return reads, outputs, square(model.stem.answer(model.norm(reads[-1])))


@given(plans(max_layers=2, max_heads=2), st.integers(0, 99))
@pytest.mark.long
def test_equals_a_plain_recomputation(drawn, seed):
    """For every kind of plan; gradients by a backward pass."""
    model = model_of(config_of(drawn.shape.layers, drawn.shape.heads), drawn, seed, 0.3)
    found = magnitudes(model, tokens(seed), square)
    assert all(p.grad is None for p in model.parameters())
    reads, outputs, loss = plainly(model, tokens(seed))
    for x in (*reads, *outputs):
        x.retain_grad()
    loss.backward()

    def gradients(tensors):
        return [0.0 if x.grad is None else float(x.grad.norm()) for x in tensors]

    norms = [x.detach().norm(dim=-1) for x in reads]
    assert found.read_max == pytest.approx([float(x.max()) for x in norms], rel=1e-9)
    assert found.read_rms == pytest.approx([float(x.square().mean().sqrt()) for x in norms], rel=1e-9)
    assert found.output_max == pytest.approx([float(x.detach().norm(dim=-1).max()) for x in outputs], rel=1e-9)
    assert found.read_gradient == pytest.approx(gradients(reads), rel=1e-6, abs=1e-12)
    assert found.output_gradient == pytest.approx(gradients(outputs), rel=1e-6, abs=1e-12)
    by_layer = [float(np.linalg.norm(gradients(list(layer.parameters())))) for layer in model.layers]
    assert found.layer_gradient == pytest.approx(by_layer, rel=1e-6, abs=1e-12)


def test_leaves_the_model_as_it_was():
    model = model_of(config_of(), "attnres")
    square(model(tokens())).backward()
    before = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    with torch.no_grad():
        magnitudes(model, tokens(), square)
    after = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    modules = list(model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in modules)
    with pytest.raises(ZeroDivisionError):
        magnitudes(model, tokens(), lambda answer: 1 / 0)
    with pytest.raises(IndexError):
        magnitudes(model, tokens() + VOCAB, square)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in modules)


def test_an_embedding_that_is_not_trained():
    """The toy takes its tokens as they are; gradients with respect to them are there all the same."""
    config = toy(3, 4)
    model = Decoder(config, plan(config.shape), seed=0, std=0.5).double()
    inputs = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = magnitudes(model, inputs, square)
    leaf = inputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(square(model(leaf)), leaf)
    assert found.output_gradient[0] == found.read_gradient[0] == pytest.approx(float(gradient.norm()), rel=1e-9)
    assert not inputs.requires_grad


def test_dropout_counts_in_training():
    """What later reads see of an output is what dropout leaves of it."""
    model = model_of(config_of(dropout=0.5), "vanilla").train()
    torch.manual_seed(0)
    trained = magnitudes(model, tokens(), square)
    assert max(trained.read_max) <= sum(trained.output_max) * SLACK
    assert trained.output_rms != magnitudes(model.eval(), tokens(), square).output_rms


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("resformer", {}),
        ("skipv1", {}),
        ("neutreno", {}),
        ("dva-attention", {}),
        ("vanilla", {"bias": True}),
        ("vanilla", {"qkv_bias": True}),
        ("vanilla", {"norm": "none"}),
        ("vanilla", {"normed": "head"}),
        ("vanilla", {"score": "linear"}),
    ],
)
def test_weights_without_a_bound_are_refused(variant, changes):
    config = config_of(**changes)
    with pytest.raises(ValueError, match="no bound on what sublayers put out"):
        sublayer_weights(Decoder(config, resolve(variant, config.shape)))


def test_weights_of_grouped_queries_are_repeated():
    model = model_of(config_of(heads=2, group=2), "vanilla")
    first, second = sublayer_weights(model)[:2]
    assert first.value.shape == (4, 5, 10)
    assert first.output.shape == (4, 10, 5)
    assert np.array_equal(first.value[0], first.value[1])
    assert not np.array_equal(first.value[1], first.value[2])
    assert second.gate.shape == second.up.shape == second.down.T.shape == (6, 10)
    attention = model.sublayers[0]
    heads = torch.randn(1, 4, 1, 5, dtype=torch.float64)
    joined = sum(o @ h for o, h in zip(first.output, heads[0, :, 0].numpy(), strict=True))
    assert np.allclose(joined, attention.output(merged(heads))[0, 0].detach().numpy(), rtol=1e-12, atol=1e-12)


CONFIG = llama(d_model=6, n_heads=1, n_layers=2, d_ff=5, vocab=7, context=5)
TOKENS = torch.tensor([[0, 3, 1, 6], [5, 5, 0, 4]])


def loss(answer):
    return torch.sin(answer * torch.arange(1, 8)).mean()


@pytest.mark.parametrize("name", ["vanilla", "attnres", "attnres-block:size=2", "denseformer"])
def test_gradients_of_branches_add_up_to_what_the_stream_gets(name):
    model = Decoder(CONFIG, resolve(name, CONFIG.shape), std=0.5).double()
    found, whole = gradients(model, TOKENS, loss), magnitudes(model, TOKENS, loss)
    assert found.loss == loss(model(TOKENS)).item()
    assert [float(g.norm()) for g in found.of_outputs] == pytest.approx(list(whole.output_gradient))
    later = torch.stack(found.of_reads).flip(0).cumsum(0).flip(0)  # each with all later ones added
    own, stream = ([float(g.norm()) for g in gs] for gs in (found.of_reads, later))
    assert (own if "attnres" in name else stream) == pytest.approx(list(whole.read_gradient))
    assert (stream if "attnres" in name else own) != pytest.approx(list(whole.read_gradient))
    by_layer = [n for n in found.of_parameters if n.startswith("layers.1.")]
    squares = sum(float(found.of_parameters[n].norm()) ** 2 for n in by_layer)
    assert squares**0.5 == pytest.approx(whole.layer_gradient[1])
    assert all(p.grad is None for p in model.parameters())
