"""A step, a held-out pass and a decoded token on a GPU that is not there: devices and dtypes, without numbers.

torch's fake tensors refuse what mixes devices, and whatever asks a number of the device, for which a GPU would wait.
"""

from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from icl.models.cache import Cache, step
from icl.models.decoder import Decoder
from icl.recipe import Recipe
from icl.training.loop import _autocast, take_step
from icl.training.objectives import Batch, _next_token_losses
from icl.training.optimiser import build_optimiser
from theory.plans.names import resolve, sized
from theory.plans.presets import llama

GPU = torch.device("cuda")
CONFIG = llama(d_model=16, n_heads=4, n_layers=3, d_ff=24, vocab=32, context=8)
RECIPE = Recipe(steps=4, batch=4, learning_rate=0.01, weight_decay=0.1, precision="bf16", accumulate=2)
VARIANTS = [
    "vanilla",
    "resformer",
    "resformer-learned",
    "skipv1",
    "svformer",
    "neutreno",
    "denseformer",
    "attnres",
    "attnres-block",
    "dva-attention",
    "gqa:group=2",
    "mla",
    "hyper-connections",
]


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU, as far as torch asks before it looks."""
    monkeypatch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda *_, **__: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    with FakeTensorMode() as mode:
        yield mode


def moved(model, mode, dtype=torch.float32):
    """The model with weights on the GPU."""
    for module in model.modules():
        for name, p in list(module._parameters.items()):
            if p is not None:
                fake = mode.from_tensor(p.detach()).to(GPU, dtype)
                module._parameters[name] = nn.Parameter(fake)
    return model


def decoder(variant, mode, **options):
    with _real():
        config, rest = sized(CONFIG, variant)
        model = Decoder(config, resolve(rest, config.shape))
    return moved(model, mode, **options)


@contextmanager
def _real():
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        yield


class Reading:
    """A task whose batches are as the data's: on the CPU."""

    tokens = CONFIG.context
    losses = staticmethod(_next_token_losses)

    def batch(self, _seed, _step, size, rows=slice(None)):
        tokens = torch.zeros(size, self.tokens + 1, dtype=torch.long)
        return Batch(tokens[:, :-1], tokens[:, 1:]).rows(rows)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_a_step_stays_on_the_gpu_and_waits_for_nothing(variant, optimiser, gpu):
    model = decoder(variant, gpu)
    recipe = Recipe(**{**RECIPE.__dict__, "optimiser": optimiser})
    made = build_optimiser(model, recipe)
    for number in range(2):
        both = take_step(model, Reading(), recipe, made, 0, number, GPU)
        assert both.device.type == "cuda"
        assert both.dtype == torch.float32
    states = [x for kept in made.state.values() for x in kept.values() if isinstance(x, torch.Tensor) and x.dim()]
    assert {x.device.type for x in states} == {"cuda"}
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("variant", VARIANTS)
def test_products_are_in_bf16_and_losses_in_float32(variant, gpu):
    model, dtypes = decoder(variant, gpu), []
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda _module, _in, out: dtypes.append(out.dtype))
    batch = Reading().batch(0, 0, 4).to(GPU)
    with torch.no_grad(), _autocast(GPU, RECIPE):
        losses = _next_token_losses(model(batch.inputs), batch.targets)
    assert losses.dtype == torch.float32
    assert losses.shape == (4, CONFIG.context)
    assert set(dtypes) <= {torch.bfloat16}
    assert dtypes


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_token_is_decoded_in_bf16_without_waiting(variant, gpu):
    model = decoder(variant, gpu, dtype=torch.bfloat16).eval()
    cache = Cache(model, 2, 6)
    for _ in range(3):
        scores = step(model, torch.zeros(2, 1, dtype=torch.long, device=GPU), cache)
        assert scores.dtype == torch.bfloat16
        assert scores.device.type == "cuda"
    assert {x.device.type for x in cache.entries.values()} == {"cuda"}


def test_what_waits_or_mixes_is_noticed(gpu):
    model = decoder("vanilla", gpu)
    batch = Reading().batch(0, 0, 4)
    with pytest.raises(RuntimeError, match="device"):
        model(batch.inputs)
    with pytest.raises(DataDependentOutputException):
        model(batch.to(GPU).inputs).sum().item()
