"""The feed-forward sublayer, gated or not."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from icl.models.branch import Branch
from icl.models.frame import Bank, Frame, norm
from icl.models.unset import Linear
from theory.plans.architecture import Architecture


class FeedForward(Branch):
    """A SwiGLU network where the architecture is gated, else a GELU network.

    Beside attention, in a `ParallelLayer`, the norm and what else stands around a sublayer are attention's.
    """

    def __init__(self, config: Architecture) -> None:
        super().__init__(config, bare=config.parallel)
        self.norm = nn.Identity() if config.parallel else norm(config, config.d_model, config.sublayer_norm)
        self.up = Linear(config.d_model, config.d_ff, config.bias)
        self.gate = Linear(config.d_model, config.d_ff, config.bias) if config.gated else None
        self.approximate = "tanh" if config.tanh_gelu else "none"
        self.down = Linear(config.d_ff, config.d_model, config.bias)

    def forward(self, x: Tensor, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """Return the output, (batch, T, d_model) as the input; the bank passes through."""
        return self.put_out(x, self.of_normed(self.norm(x))), bank

    def of_normed(self, x: Tensor) -> Tensor:
        """Return the network's output for a normed input, (batch, T, d_model) each."""
        inner = gelu(self.up(x), approximate=self.approximate) if self.gate is None else silu(self.gate(x)) * self.up(x)
        out: Tensor = self.down(inner)
        return out
