"""The feed-forward sublayer, gated or not."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from icl.models.frame import Frame, norm
from icl.models.projections import Bank
from icl.models.unset import Linear
from theory.plans.architecture import Architecture


class FeedForward(nn.Module):
    """A SwiGLU network where the architecture is gated, else a GELU network."""

    def __init__(self, config: Architecture) -> None:
        super().__init__()
        self.norm = norm(config, config.d_model, config.sublayer_norm)
        self.up = Linear(config.d_model, config.d_ff, config.bias)
        self.gate = Linear(config.d_model, config.d_ff, config.bias) if config.gated else None
        self.approximate = "tanh" if config.tanh_gelu else "none"
        self.down = Linear(config.d_ff, config.d_model, config.bias)

    def forward(self, x: Tensor, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """Return the output, (batch, T, d_model) as the input; the bank passes through."""
        x = self.norm(x)
        inner = gelu(self.up(x), approximate=self.approximate) if self.gate is None else silu(self.gate(x)) * self.up(x)
        return self.down(inner), bank
