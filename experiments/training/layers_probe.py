"""Families of `experiments.training.layer_probes` as a training's probe: what the layers do before it and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.store.folders import Json
from experiments.training.layer_probes import FAMILIES

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Batch, Task


def asked(model: Decoder, task: Task, batches: Sequence[Batch], families: Sequence[str]) -> Json:
    """Return means by layer of what these families measure: {family: {name: [by layer]}}, with their `uniform`."""
    import torch

    model.eval()
    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the probe's hooks
        results = {name: FAMILIES[name].measure(model, task, batches) for name in families}
    model.train()
    return {name: {key: _mean(value) for key, value in result.items()} for name, result in results.items()}


def _mean(value: object) -> object:
    return value["mean"] if isinstance(value, dict) else value
