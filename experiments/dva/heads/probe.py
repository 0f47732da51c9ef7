"""How many heads a model can do without, on the first held-out batches."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from experiments.store.folders import Json

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

BATCHES = 2


def probe(model: Decoder, task: Task, device: str) -> Json:
    """losses: without none, one, two, ... of all layers' heads, those first that cost least alone; without dropout."""
    import torch

    from icl.probes.heads import removal

    batches = [batch.to(torch.device(device)) for batch in islice(task.held_out(), BATCHES)]

    def loss() -> float:
        with torch.no_grad():
            return sum(float(task.losses(model(b.inputs), b.targets).mean()) for b in batches) / len(batches)

    model.eval()
    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the hooks
        _, losses = removal(model, loss)
    model.train()
    return {"losses": [round(x, 6) for x in losses]}
