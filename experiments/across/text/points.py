"""What `ladder-text` trains."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.training.comparing import Asked
from experiments.training.optimal import Optimal


@dataclass(frozen=True, kw_only=True)
class Config(Optimal):
    """variants by name, vanilla first, and those of a user's own.

    depth_rate   of what weighs outputs over depth, over an arm's learning rate: at 1 it alone puts Full AttnRes behind
                 vanilla in models of this size (`attnres-compute`)
    """

    variants: tuple[str, ...]
    depth_rate: float = 0.1
    own: tuple[Asked, ...] = ()
