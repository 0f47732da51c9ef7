"""Activation checkpointing: a sublayer keeps its inputs alone, and what lies between is made again for its gradient.

It costs one more forward pass of the sublayers, about a third more time, and changes no number: the same operations on
the same numbers, and the same masks of dropout.  What a depth rule keeps to weigh outputs stays.
"""

from __future__ import annotations

from functools import partial

from torch.utils.checkpoint import checkpoint

from icl.models.decoder import Decoder


def recompute(model: Decoder) -> None:
    """Make sublayers recompute their activations, in place; names of parameters stay as they are."""
    for sublayer in model.sublayers:
        sublayer.forward = partial(
            checkpoint, sublayer.forward, use_reentrant=False, preserve_rng_state=bool(model.config.dropout)
        )
