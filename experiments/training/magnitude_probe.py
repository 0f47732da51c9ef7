"""Magnitudes and gradients by depth of a model, with the bounds that theory puts on them, for its present weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.store.folders import Json

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.training.objectives import Task


NAME = "magnitude"


def probe(model: Decoder, task: Task, device: str) -> Json:
    """Measure on the task's first held-out batch, in fp32 without dropout; for the fields see `icl.probes.magnitude`.

    bounds: upper bounds on a token's norm at a read, from the weights and the embedding's largest norm alone; null
    where theory has none for the model's plan.
    """
    import torch

    from icl.probes.magnitude import magnitudes

    batch = next(task.held_out()).to(torch.device(device))

    def loss(answer: Tensor) -> Tensor:
        return task.losses(answer, batch.targets).mean()

    model.eval()
    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the probe's hooks
        result = magnitudes(model, batch.inputs, loss)
    model.train()
    return {
        "read_rms": result.read_rms,
        "read_max": result.read_max,
        "ratio": result.ratio,
        "output_gradient": result.output_gradient,
        "layer_gradient": result.layer_gradient,
        "bounds": _bounds_if_any(model, result.output_max[0]),
    }


def _bounds_if_any(model: Decoder, embedding: float) -> list[float] | None:
    try:
        return bounds(model, embedding)
    except ValueError:
        return None


def bounds(model: Decoder, embedding: float) -> list[float]:
    """Return `theory.attnres.bounds.read_bounds` for a model's weights."""
    from theory.attnres.bounds import read_bounds

    return read_bounds(model.config, model.plan, embedding, output_bounds(model))


def output_bounds(model: Decoder) -> list[float]:
    """Return upper bounds on each sublayer's output, from its weights."""
    from icl.probes.magnitude import AttentionWeights, sublayer_weights
    from theory.attnres.sublayers import attention_bound, feed_forward_bound

    return [
        attention_bound(w.value, w.output, w.gain)
        if isinstance(w, AttentionWeights)
        else feed_forward_bound(w.gate, w.up, w.down, w.gain)
        for w in sublayer_weights(model)
    ]
