"""What `ladder-text` trains."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.training.comparing import Asked
from experiments.training.optimal import Optimal


@dataclass(frozen=True, kw_only=True)
class Config(Optimal):
    """variants by name, vanilla first, and those of a user's own.

    depth_rate   of what weighs outputs over depth, over an arm's learning rate: at a tenth Full AttnRes does as vanilla
                 in models of this size whose norms have eps = 0 (`attnres-compute`); with that of presets it does not
    """

    variants: tuple[str, ...]
    depth_rate: float = 0.1
    own: tuple[Asked, ...] = ()
