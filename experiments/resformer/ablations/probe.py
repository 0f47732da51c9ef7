"""How much of what heads attend over is layer 1's values, on a model as it is.

For each layer from 2 on whose values are own V_n + first V_1: both weights, learned ones as they stand, and
    share = |first| rms(V_1) / (|first| rms(V_1) + |own| rms(V_n)),
over the tokens and heads of the first held-out batch.  The weights alone say little: projections absorb them
(`resformer.weights-absorbed`), which leaves the model as it is, and the share too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from experiments.store.folders import Json
from icl.models.projections import learned_name
from icl.probes.recording import Attended, observed
from theory.plans.mix import Learned, Term

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

NAME = f"{__name__}:probe"


def probe(model: Decoder, task: Task, device: str) -> Json:
    """By layer, as lists: `layer`, `own`, `first`, `share`."""
    batch = next(task.held_out()).to(torch.device(device))
    model.eval()
    rms: dict[int, float] = {}

    def see(at: Attended) -> None:
        if at.own_values is not None:
            rms[at.layer] = _rms(at.own_values)

    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the hooks
        observed(model, batch.inputs, attention=see)
    model.train()
    told: Json = {"layer": [], "own": [], "first": [], "share": []}
    for n in range(2, model.plan.shape.layers + 1):
        weights = {term.source.layer: _weight(model, term) for term in model.plan.head(n, 1).values[0].terms}
        own, first = weights.get(n, 0.0), weights.get(1, 0.0)
        parts = abs(first) * rms[1], abs(own) * rms[n] if n in rms else 0.0
        for name, value in zip(told, (n, own, first, parts[0] / sum(parts)), strict=True):
            told[name].append(value)
    return told


def _weight(model: Decoder, term: Term) -> float:
    weight = term.weight
    return float(model.learned[learned_name(weight.name)].item()) if isinstance(weight, Learned) else weight


def _rms(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())
