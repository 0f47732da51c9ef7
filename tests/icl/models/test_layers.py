"""Layers are modules: everything that they do happens when they are called, and tools can be applied to each."""

from dataclasses import replace

import pytest
import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import checkpoint

from icl.models.decoder import Decoder
from icl.testing import check_identity
from tests.icl.models.small import LLAMA, some_input
from theory.plans.names import resolve

PARALLEL = replace(LLAMA, parallel=True)
CASES = [(LLAMA, name) for name in ("vanilla", "skipv1", "resformer", "attnres-block", "attnres", "mhc", "mudd", "dva")]
CASES += [(PARALLEL, "vanilla"), (PARALLEL, "attnres"), (replace(LLAMA, d_ff=0), "denseformer")]
NAMED = pytest.mark.parametrize(("config", "name"), CASES, ids=range(len(CASES)))


def decoder(config, name):
    """A decoder in float64 whose weights are far from their start."""
    model, numbers = Decoder(config, resolve(name, config.shape)).double(), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.3 * torch.randn(p.shape, generator=numbers, dtype=torch.float64)
    return model


def step(model):
    """Return the answer and the gradients of its squares."""
    out = model(some_input(model.config))
    model.zero_grad()
    out.square().mean().backward()
    return out.detach(), {name: p.grad for name, p in model.named_parameters()}


def assert_same(ours, theirs):
    assert torch.equal(ours[0], theirs[0])
    assert list(ours[1]) == list(theirs[1])
    assert all(torch.equal(g, theirs[1][name]) for name, g in ours[1].items())


@NAMED
def test_a_model_is_its_layers_one_after_another(config, name):
    model, tokens = decoder(config, name), some_input(config)
    frame, _ = model._frame(model.stem.embed(tokens), None)
    frame = replace(frame, tokens=tokens)

    def through(layers):
        state, bank = model.depth.start(model.stem.embed(tokens)), {}
        for layer in layers:
            state, bank = layer(state, bank, frame, depth=model.depth, dropout=model.dropout)
        return model.norm(model.depth.read(config.sublayers(model.plan), state))

    assert torch.equal(through(model.layers), model.hidden(tokens))
    if name == "vanilla":
        assert not torch.equal(through(model.layers[:-1]), model.hidden(tokens))


@NAMED
def test_checkpointing_by_layer_changes_no_bit(config, name):
    model, calls = decoder(config, name), []
    expected, names = step(model), list(model.state_dict())
    for layer in model.layers:
        layer.sublayers[0].register_forward_pre_hook(lambda *_: calls.append(1))
    for i, layer in enumerate(model.layers):
        model.layers[i] = checkpoint_wrapper(layer)
    found = step(model)
    assert len(calls) == 2 * len(model.layers)  # once more, for the gradients
    found = found[0], {name.replace("_checkpoint_wrapped_module.", ""): g for name, g in found[1].items()}
    assert_same(found, expected)
    assert list(model.state_dict()) == names
    assert len(model.sublayers) == config.sublayers(model.plan)
    assert len(model.attentions) == config.n_layers


def test_layers_are_checkpointed_by_the_function_of_torch():
    model = decoder(LLAMA, "mudd")
    expected, calls = step(model), []
    for layer in model.layers:
        layer.sublayers[0].register_forward_pre_hook(lambda *_: calls.append(1))
        forward = layer.forward
        layer.forward = lambda *args, forward=forward, **more: checkpoint(forward, *args, use_reentrant=False, **more)
    assert_same(step(model), expected)
    assert len(calls) == 2 * len(model.layers)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # the compiler's own
@pytest.mark.parametrize(("config", "name"), [CASES[i] for i in (0, 1, 3, 6, 9)], ids=range(5))
def test_layers_are_compiled_one_by_one_without_a_break(config, name):
    model = decoder(config, name)
    out, gradients = step(model)
    torch.compiler.reset()
    for layer in model.layers:
        layer.compile(fullgraph=True, backend="aot_eager")
    found, ours = step(model)
    check_identity(found, out, terms=1000)
    for name, g in gradients.items():
        torch.testing.assert_close(ours[name], g, rtol=1e-9, atol=1e-9 * float(g.abs().max()))
