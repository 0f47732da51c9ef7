"""The branch that a sublayer is of: what stands around attention and feed-forward, beside the norm before them.

    out = scale * f(norm(x)) + map(x)       x is what the sublayer reads, before its norm

Scales are LayerScale's vectors or ReZero's numbers, maps LAuReL's of low rank.  Neither is there unless the
architecture has it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from icl.models.unset import Linear
from theory.plans.architecture import Architecture


class OutputScale(nn.Module):
    """A learned number, or a vector of the model's width, that multiplies what a sublayer puts out."""

    def __init__(self, numbers: int, start: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(numbers))
        self.start = start

    def forward(self, x: Tensor) -> Tensor:
        """Return x, (batch, T, d_model), scaled."""
        return x * self.weight.to(x.dtype)


class ResidualMap(nn.Module):
    """A linear map of low rank, B A x; it begins at 0, with B."""

    def __init__(self, d_model: int, rank: int) -> None:
        super().__init__()
        self.down_map = Linear(d_model, rank, bias=False)
        self.up_map = Linear(rank, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.up_map(self.down_map(x))
        return out


class Branch(nn.Module):
    """A sublayer with what stands around it; `scale` and `residual` are None where there is none.

    bare    there is neither, whatever the architecture has
    """

    def __init__(self, config: Architecture, *, bare: bool = False) -> None:
        super().__init__()
        self.scale: OutputScale | None = None
        self.residual: ResidualMap | None = None
        if bare:
            return
        if config.output_scale != "no":
            self.scale = OutputScale(1 if config.output_scale == "number" else config.d_model, config.scale_start)
        if config.residual_rank:
            self.residual = ResidualMap(config.d_model, config.residual_rank)

    def put_out(self, x: Tensor, out: Tensor) -> Tensor:
        """Return the sublayer's output from its input and from what its function gives, (batch, T, d_model) each."""
        out = out if self.scale is None else self.scale(out)
        return out if self.residual is None else out + self.residual(x)
