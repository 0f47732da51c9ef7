"""Decoders by name: a preset of a paper, or sizes of one's own, under a variant."""

from __future__ import annotations

from collections.abc import Callable

import torch

from icl.models.decoder import Decoder
from theory.errors import BadInput
from theory.plans.architecture import Architecture, misfits
from theory.plans.names import model as named
from theory.plans.names import sized
from theory.plans.plan import Plan, Shape


def build(
    model: str | Architecture,
    variant: str | Plan | Callable[[Shape], Plan] | None = None,
    *,
    seed: int = 0,
    std: float = 0.02,
    device: torch.device | str = "cpu",
) -> Decoder:
    """Return the untrained decoder of a preset or of an architecture under a variant.

    variant     names joined by `+`, a plan, or a function from a shape to one; by default a preset's own, an
                architecture's vanilla
    seed, std   of the initial weights, which are equal in all variants wherever shapes agree

    Raises BadInput for a name that is not there, or a variant that has no meaning on these sizes.
    """
    if variant is not None and not isinstance(variant, str):
        config, _ = sized(model, "vanilla")
        plan = variant if isinstance(variant, Plan) else variant(config.shape)
        for misfit in misfits(config, plan):
            raise BadInput(misfit)
    else:
        config, plan = named(model, variant)
    return Decoder(config, plan, seed=seed, std=std, device=device)
