"""Measure how sharp the bounds on a model's sublayers are, for the weights it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.store.folders import Json

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

NAME = f"{__name__}:probe"
ASCENTS, STEPS, DRAWS = 20, 100, 200


def probe(model: Decoder, task: Task, device: str) -> Json:  # noqa: ARG001 - of the weights alone
    """Return each of `Sharpness`'s norms by kind of sublayer, one number per layer."""
    from experiments.attnres.sharpness import sharpness
    from icl.probes.magnitude import AttentionWeights, sublayer_weights

    norms: Json = {}
    for weights in sublayer_weights(model):
        kind = "attention" if isinstance(weights, AttentionWeights) else "SwiGLU" if model.config.gated else "GELU"
        for name, norm in vars(sharpness(weights, starts=ASCENTS, steps=STEPS, draws=DRAWS)).items():
            norms.setdefault(kind, {}).setdefault(name, []).append(float(f"{norm:.7g}"))
    return norms
