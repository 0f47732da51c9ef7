"""A learned number for every head and pair of positions, added to the scores of attention.

It resembles T5's relative bias, with a number for every pair instead of one for every distance.  SkipV1Former's first
layer needs one to copy (`theory.toy.positions`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class PositionBias(nn.Module):
    """The bias of some of a layer's query heads: their entries of the bias of all heads, in every respect.

    `made_for` is how many heads there are, `heads` which of them (from 1) are built; scores (heads built, context,
    context), from query position (row) to key position (column).
    """

    def __init__(self, context: int, made_for: int, heads: Sequence[int]) -> None:
        super().__init__()
        self.made_for, self.heads = made_for, tuple(heads)
        self.scores = nn.Parameter(torch.empty(len(heads), context, context))

    def whole(self, shape: torch.Size) -> torch.Size:
        """Return the shape of the parameter if all heads were built."""
        return torch.Size((self.made_for, *shape[1:]))

    def cut(self, whole: Tensor) -> Tensor:
        """Return the built heads' part of a parameter for all heads."""
        return whole[[h - 1 for h in self.heads]]

    def forward(self, length: int, places: Tensor | None) -> Tensor:
        """Return the bias between tokens at positions 0, 1, ..., or at `places`.

        Returns:
            (heads built, T, T); at `places`, (batch, T): (batch, heads, T, T).
        """
        if places is None:
            return self.scores[:, :length, :length]
        return self.scores[:, places[:, :, None], places[:, None, :]].transpose(0, 1)

    def towards(self, places: Tensor, held: Tensor) -> Tensor:
        """Return the bias from tokens at some places to held tokens at others.

        A place past the context, which no token sees, gets any number.

        Args:
            places: (T,) or (batch, T).
            held: (columns,) or (batch, columns).

        Returns:
            ([batch,] heads built, T, columns).
        """
        found = self.scores[:, places[..., :, None], held.clamp(max=self.scores.shape[-1] - 1)[..., None, :]]
        return found if places.dim() == 1 else found.transpose(0, 1)
