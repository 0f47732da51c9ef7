"""Linear maps and embeddings that draw no weights when they are made: `icl.models.initial` sets all of them."""

from __future__ import annotations

from torch import nn


class Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Nothing is set."""


class Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Nothing is set."""
