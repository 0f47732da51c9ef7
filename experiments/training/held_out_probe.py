"""The held-out loss of a model as it is: what a training that begins with other weights begins at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.store.folders import Json

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import HeldOut


def probe(model: Decoder, task: HeldOut, device: str) -> Json:
    """Return the loss: the mean over all positions, in the task's unit, in float32."""
    import torch

    was_training, total, count = model.training, 0.0, 0
    model.eval()
    with torch.no_grad():
        for batch in task.held_out():
            here = batch.to(torch.device(device))
            losses = task.losses(model(here.inputs), here.targets).double()
            total, count = total + float(losses.sum()), count + losses.numel()
    model.train(was_training)
    return {"loss": total / count}
