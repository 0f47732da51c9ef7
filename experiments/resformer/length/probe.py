"""Held-out loss by how many tokens a position sees: what a mean over positions hides where contexts differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.store.folders import Json

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

AT_A_TIME = 2**15  # tokens


def by_octave(model: Decoder, task: Task, device: str) -> Json:
    """Mean loss, nats a token, at positions first .. 2 first - 1 for first = 1, 2, 4, ..., as far as the context goes.

    A position sees as many tokens as its number, itself included.
    """
    import torch

    batches = list(task.held_out())
    model.eval()
    with torch.no_grad():
        inputs = torch.cat([batch.inputs for batch in batches]).to(device)
        targets = torch.cat([batch.targets for batch in batches]).to(device)
        few = max(1, AT_A_TIME // inputs.shape[1])
        parts = zip(inputs.split(few), targets.split(few), strict=True)
        by_position = torch.cat([task.losses(model(x), y).double() for x, y in parts]).mean(0)
    model.train()
    firsts = [2**i for i in range(len(by_position).bit_length())]
    return {"first": firsts, "loss": [float(by_position[first - 1 : 2 * first - 1].mean()) for first in firsts]}
