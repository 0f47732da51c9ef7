"""Steps and decoded tokens on a device that is not there, as a script: it changes torch for its whole process.

torch's fake tensors have a device and no numbers.  They refuse what mixes devices, and whatever asks a number of the
device, for which a GPU would wait.  Of an ordinary build of torch the device cannot be cuda, so it is one of another
name, registered as a backend without kernels.  Printed is a line of JSON per case: its name and what went wrong.
"""

import json
import sys
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from icl.models.cache import Cache, step
from icl.models.decoder import Decoder
from icl.recipe import Recipe
from icl.training.loop import take_step
from icl.training.objectives import Batch, _next_token_losses
from icl.training.optimiser import build_optimiser
from theory.plans.names import SIZES, resolve, sized
from theory.plans.plan import STREAM
from theory.plans.presets import llama
from theory.plans.variants import ours

NAME = "gpu"
CONFIG = llama(d_model=16, n_heads=4, n_layers=3, d_ff=24, vocab=32, context=8)
RECIPE = Recipe(steps=4, batch=4, learning_rate=0.01, weight_decay=0.1)
VARIANTS = [*ours(), *SIZES]


class Backend(_DummyBackendModule):
    """What torch asks of a backend where autocast is named, if only to be switched off."""

    def get_amp_supported_dtype(self):
        return [torch.bfloat16]


class Reading:
    """A task whose batches are as the data's: on the CPU."""

    tokens = CONFIG.context
    losses = staticmethod(_next_token_losses)

    def batch(self, _seed, _step, size, rows=slice(None)):
        tokens = torch.zeros(size, self.tokens + 1, dtype=torch.long)
        return Batch(tokens[:, :-1], tokens[:, 1:]).rows(rows)


def moved(variant, mode, dtype=torch.float32):
    """A model with weights on the device."""
    config, rest = sized(CONFIG, variant)
    if resolve(rest, config.shape).depth != STREAM:  # many operations per sublayer, of which all read those before
        config = replace(config, n_layers=2)
    model = Decoder(config, resolve(rest, config.shape))
    with mode:
        for module in model.modules():
            for name, p in list(module._parameters.items()):
                if p is not None:
                    module._parameters[name] = nn.Parameter(torch.empty(p.shape, dtype=dtype, device=NAME))
        for reader in (one for attention in model.attentions for pair in attention.segments for one in pair):
            if reader.dense is not None:
                reader.dense.fixed = mode.from_tensor(reader.dense.fixed)
                chosen = reader.dense.chosen
                reader.dense.chosen = {name: tuple(map(mode.from_tensor, columns)) for name, columns in chosen.items()}
        model._move_readers()
    return model


class Both:
    """Two optimisers of the same weights, which step on the same gradients.

    Muon takes one matrix after the other, with some hundred operations, so it has those of a shape that it has not had.
    """

    shapes: ClassVar[set[torch.Size]] = set()

    def __init__(self, model, recipe):
        self.pair = [build_optimiser(model, replace(recipe, optimiser=name)) for name in ("adamw", "muon")]
        for group in self.pair[1].parts[0].param_groups:
            group["params"] = [p for p in group["params"] if p.shape not in self.shapes]
            self.shapes.update(p.shape for p in group["params"])
        self.param_groups = [group for one in self.pair for group in one.param_groups]

    @property
    def states(self):
        kept = [x for one in self.pair for of_one in one.state.values() for x in of_one.values()]
        return [x for x in kept if isinstance(x, torch.Tensor) and x.dim()]

    def step(self):
        for one in self.pair:
            one.step()

    def zero_grad(self, *, set_to_none):
        self.pair[0].zero_grad(set_to_none=set_to_none)


def trained(variant, steps=1, accumulate=1):
    mode = FakeTensorMode()
    model = moved(variant, mode)
    recipe, device = replace(RECIPE, accumulate=accumulate), torch.device(NAME)
    with mode:
        made = Both(model, recipe)
        for number in range(steps):
            both = take_step(model, Reading(), recipe, made, 0, number, device)
            assert both.device.type == NAME
            assert both.dtype == torch.float32
        assert made.states
        assert {x.device.type for x in made.states} == {NAME}


def decoded(variant):
    mode = FakeTensorMode()
    model = moved(variant, mode, torch.bfloat16).eval()
    with mode:
        cache = Cache(model, 2, 6)
        for _ in range(2):
            scores = step(model, torch.zeros(2, 1, dtype=torch.long, device=NAME), cache)
            assert scores.dtype == torch.bfloat16
            assert scores.device.type == NAME
        assert {x.device.type for x in cache.entries.values()} == {NAME}


def mixed():
    mode = FakeTensorMode()
    model = moved("vanilla", mode)
    with mode:
        model(Reading().batch(0, 0, 2).inputs)


def waited():
    mode = FakeTensorMode()
    model = moved("vanilla", mode)
    with mode:
        model(Reading().batch(0, 0, 2).to(torch.device(NAME)).inputs).sum().item()


def main():
    _setup_privateuseone_for_python_backend(NAME, Backend())
    again = partial(trained, "vanilla", steps=2, accumulate=2)
    cases = {"mixed": mixed, "waited": waited, "a second step, in parts": again}
    for variant in sys.argv[1:] or VARIANTS:
        cases[f"{variant}, trained"] = lambda v=variant: trained(v)
        cases[f"{variant}, decoded"] = lambda v=variant: decoded(v)
    for name, case in cases.items():
        try:
            case()
            wrong = ""
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"[:600]
        print(json.dumps([name, wrong]), flush=True)


if __name__ == "__main__":
    main()
