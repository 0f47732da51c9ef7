"""Rotary position embedding: pairs of numbers turned by an angle that grows with the position."""

from __future__ import annotations

from math import tau

import torch
from torch import Tensor

from theory.plans.architecture import Architecture, Stretched


class Rotation:
    """The rotation of the pairs (i, i + width / 2) of queries and keys by position * theta^(-2 i / width).

    positions: (T,) or (batch, T); width must be even; stretched: other rates in place of these.
    """

    def __init__(self, positions: Tensor, width: int, theta: float, stretched: Stretched | None = None) -> None:
        exact = torch.float32 if positions.device.type == "mps" else torch.float64  # which has no float64
        rates = theta ** (torch.arange(0, width, 2, device=positions.device, dtype=exact) / -width)
        if stretched is not None:
            turns = stretched.context * rates / tau
            kept = ((turns - stretched.low) / (stretched.high - stretched.low)).clamp(0, 1)
            rates = rates * (kept + (1 - kept) / stretched.factor)
        angles = (positions[..., None] * rates)[..., None, :, :]  # (1 or batch, [head,] T, width / 2)
        self.cos, self.sin = angles.cos(), angles.sin()

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate (batch, heads, T, width), in float32 or better."""
        exact = torch.promote_types(x.dtype, torch.float32)
        cos, sin = self.cos.to(exact), self.sin.to(exact)
        a, b = x.to(exact).chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def rotation(config: Architecture, places: Tensor) -> Rotation | None:
    """Return the rotation of queries and keys at these places, (T,) or (batch, T); None unless positions are rotary."""
    if config.positions != "rope":
        return None
    width = config.latent.rope if config.latent else config.width
    return Rotation(places, width, config.rope_theta, config.rope_stretched)
