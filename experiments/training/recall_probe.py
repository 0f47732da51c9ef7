"""The share of recall's held-out queries that a model answers right."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from experiments.store.folders import Json

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Task


def probe(model: Decoder, task: Task, device: str) -> Json:
    """Return {"right": share}, over all held-out sequences.  Raises UserError for a task that is not recall."""
    import torch

    from experiments.store.folders import UserError
    from icl.training.objectives import Recall

    if not isinstance(task, Recall):
        raise UserError("the probe of recall needs recall as its data")
    model.eval()
    shares = []
    with torch.no_grad():
        for batch in task.held_out():
            scores = model(batch.inputs.to(device))[:, task.read, task.slot].cpu()
            shares.append((scores.argmax(-1) == batch.targets.argmax(-1)).float().mean().item())
    model.train()
    return {"right": fmean(shares)}
