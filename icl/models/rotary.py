"""Rotary position embedding: pairs of numbers turned by an angle that grows with the position."""

from __future__ import annotations

import torch
from torch import Tensor


class Rotation:
    """Turns the pairs (i, i + width / 2) of queries and keys by position * theta^(-2 i / width).

    positions: (T,) or (batch, T); width must be even.
    """

    def __init__(self, positions: Tensor, width: int, theta: float) -> None:
        exact = torch.float32 if positions.device.type == "mps" else torch.float64  # which has no float64
        rates = theta ** (torch.arange(0, width, 2, device=positions.device, dtype=exact) / -width)
        angles = (positions[..., None] * rates)[..., None, :, :]  # (1 or batch, [head,] T, width / 2)
        self.cos, self.sin = angles.cos(), angles.sin()

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, heads, T, width) -> the same, computed in float32 or better."""
        exact = torch.promote_types(x.dtype, torch.float32)
        cos, sin = self.cos.to(exact), self.sin.to(exact)
        a, b = x.to(exact).chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)
