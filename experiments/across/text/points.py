"""What `ladder-text` trains."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.training.comparing import Asked
from experiments.training.optimal import Optimal


@dataclass(frozen=True, kw_only=True)
class Config(Optimal):
    """variants by name, vanilla first, and those of a user's own."""

    variants: tuple[str, ...]
    own: tuple[Asked, ...] = ()
