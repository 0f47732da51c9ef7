"""A first layer that has copied already: SkipV1Former's Assumption 1 instead of attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from icl.models.frame import Bank, Frame, norm
from icl.models.projections import Projections, head_sizes
from icl.toys.literal import assumed_copy
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan


class AssumedCopy(nn.Module):
    """The assumed copy, with trained A (rank, d) and B (d - rank, d).

    x_t stays, y_t becomes (A x_t ; B y_t), the query becomes (A x_{n+1} ; 0).  What later layers read of this layer's
    queries, keys and values is projected from its input as usual.
    """

    def __init__(self, config: Architecture, plan: Plan, layer: int) -> None:
        super().__init__()
        assert config.copy_rank is not None
        d, rank = config.d_model, config.copy_rank
        self.projections = Projections(d, plan, layer, head_sizes(config), group=config.group, bias=config.qkv_bias)
        self.norm = norm(config, d, config.sublayer_norm)
        self.a = nn.Parameter(torch.empty(rank, d))
        self.b = nn.Parameter(torch.empty(d - rank, d))

    def forward(self, x: Tensor, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """Return the copied tokens and the bank; x: x_1, y_1, ..., x_n, y_n, x_{n+1}, (batch, 2n + 1, d)."""
        x = self.norm(x)
        bank = self.projections(x, bank, frame)
        return assumed_copy(x.mT, self.a, self.b).mT, self.projections.still_needed(bank)
