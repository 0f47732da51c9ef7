"""Differential attention: heads in pairs, of which the second one's output is taken off the first one's.

Differential Transformer, arXiv 2410.05258, section 2.1, with key/value heads 2 p - 1 and 2 p as pair p:

    out = (1 - start) norm(A_1 V - weight A_2 V),    weight = exp(<a, b>) - exp(<c, d>) + start

A_1 and A_2 are the attention of both heads, V their values side by side, `start` depends on the layer, and vectors a to
d are learned.  The halves of `out` stand in the places of both heads' outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from icl.models.frame import norm
from icl.models.weighted_sum import exact
from theory.plans.architecture import Architecture

SPREAD = 0.1  # of the vectors' starting values, in the paper's code


class PairDifference(nn.Module):
    """The values that pairs of heads attend over, and the differences of their outputs, in layer `layer` (from 1).

    first_query ... second_key   a, b, c and d, of a head's width
    """

    def __init__(self, config: Architecture, layer: int) -> None:
        super().__init__()
        width = config.width
        self.first_query, self.first_key, self.second_query, self.second_key = (
            nn.Parameter(torch.empty(width)) for _ in range(4)
        )
        self.norm = norm(config, 2 * width, kind="rms")
        self.group, self.start = config.group, config.difference_start(layer)

    def values(self, value: Tensor) -> Tensor:
        """Return both values of every pair side by side: (batch, heads, T, width) -> (batch, pairs, T, 2 width)."""
        return value.unflatten(1, (-1, 2)).transpose(2, 3).flatten(-2)

    def weight(self) -> Tensor:
        """Return the weight of the second heads, in float32 or better."""
        queries, keys = (self.first_query, self.second_query), (self.first_key, self.second_key)
        dtype = exact(self.first_query.dtype)
        first, second = ((q.to(dtype) * k.to(dtype)).sum().exp() for q, k in zip(queries, keys, strict=True))
        return first - second + self.start

    def forward(self, out: Tensor) -> Tensor:
        """Return the differences in place of the heads' outputs.

        Args:
            out: What every query head makes of its pair's values, (batch, H, T, 2 width).

        Returns:
            (batch, H, T, width).
        """
        first, second = out.unflatten(1, (-1, 2, self.group)).unbind(2)  # (batch, pairs, group, T, 2 width) each
        normed: Tensor = self.norm(first - self.weight().to(out.dtype) * second)
        halves = (normed * (1 - self.start)).unflatten(-1, (2, -1))
        return halves.permute(0, 1, 4, 2, 3, 5).flatten(1, 3)
