"""What is measured of every decoder of the campaign, in few numbers, so that later questions find it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.store.folders import Json
from experiments.training.by_layer import Sample
from experiments.training.layers_probe import asked

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

NAME = "standard"
SAMPLE = Sample(tokens=4096)
DIGITS = 5  # significant ones, as stored
KEPT = {  # of each family of `experiments.training.layer_probes`
    "induction": ("best_induction", "best_previous", "uniform_induction"),
    "entropy": ("entropy",),
    "importance": ("first", "most"),
    "norms": ("value_first", "own_first", "state_first", "state_others"),
    "spectrum": ("largest", "participation", "own_participation"),
    "similarity": ("similarity",),
    "heads": ("cosine",),
}


def probe(model: Decoder, task: Task, device: str) -> Json:
    """Return means over held-out text by layer, {family: {name: [layer 1, 2, ...]}}, and what depth does by read.

    `best_` is the head with the largest mean; `uniform_induction` one number, the score of uniform attention.  `depth`
    holds, by read, `rms`, the root mean square of its norm; and `output`, that of every output (the embedding first);
    `gradient`, that of the loss with respect to every layer's parameters; and `effective`, the logarithm of how many
    outputs of one norm would be as spread (`icl.probes.shares`).
    """
    found = asked(model, task, SAMPLE.batches(task, device), tuple(KEPT))
    by_layer = {
        family: {name: found[family][name] for name in names if name in found[family]} for family, names in KEPT.items()
    }
    numbers: Json = _rounded({**by_layer, "depth": _depth(model, task, device)})
    return numbers


def _depth(model: Decoder, task: Task, device: str) -> Json:
    import torch

    from icl.probes.magnitude import magnitudes
    from icl.probes.shares import shares

    batch = next(task.held_out()).to(torch.device(device))

    def loss(answer: Tensor) -> Tensor:
        return task.losses(answer, batch.targets).mean()

    model.eval()
    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the hooks
        sizes, parts = magnitudes(model, batch.inputs, loss), shares(model, batch.inputs)
    model.train()
    return {
        "rms": sizes.read_rms,
        "output": sizes.output_rms,
        "gradient": sizes.layer_gradient,
        "effective": parts.effective,
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(x) for x in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
