"""The frame of one forward pass, which all sublayers share, and the norm before each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from icl.models.rotary import Rotation
from theory.plans.architecture import Architecture, Norm


class Past(Protocol):
    """The earlier tokens that previous forward passes left (`icl.models.cache`)."""

    @property
    def held(self) -> Tensor:
        """The places of the tokens that are attended over, (columns,) or (batch, columns).

        They reach to the last of the longest sequence, from the first that a window shows any of the new tokens.
        """
        ...

    def attended(self, layer: int, bank: Mapping[str, Tensor]) -> tuple[Any, Mapping[str, Tensor]]:
        """Return what layer `layer` attends over, of all tokens so far: its readers, and the bank that they read."""
        ...

    def views(self, layer: int) -> list[tuple[slice, Tensor, Tensor]] | None:
        """Return the same by runs of key/value heads, as keys and values that lie there as they are.

        None where a head reads a sum.
        """
        ...

    def extended(self, name: str, new: Tensor) -> Tensor:
        """Return an entry of all tokens that are attended over: (batch, heads, columns, width)."""
        ...


@dataclass(frozen=True, eq=False)
class Frame:
    """The data that all layers of one forward pass share.

    visible     (T, T) or (batch, 1, T, T), true where a token (row) may attend to another (column); None: everywhere
    causal      `visible` is exactly the lower triangle, so that kernels need not look at it
    rotation    positions for queries and keys, or None
    places      (batch, T), positions counted over real tokens, where there is padding; None: 0, 1, ..., T - 1
    learned     the plan's learned weights, by `projections.learned_name`
    past        of tokens before these, which are attended over too: then `visible` has a column for each that
                is `held`, and `places` are those of these, (T,) or (batch, T)
    """

    visible: Tensor | None
    causal: bool
    rotation: Rotation | None
    places: Tensor | None
    learned: Mapping[str, Tensor]
    past: Past | None = None


def for_queries(x: Tensor, heads: int) -> Tensor:
    """Repeat key/value heads for each query head.

    (batch, H / group, T, width) -> (batch, H, T, width).
    """
    group = heads // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, dim=1)


class RMSNorm(nn.RMSNorm):
    """RMSNorm in the precision of its gain, which autocast gives to LayerNorm but not to RMSNorm."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


def norm(config: Architecture, width: int, kind: Norm) -> nn.Module:
    """Return RMSNorm, LayerNorm or nothing, with the architecture's eps and bias."""
    match kind:
        case "rms":
            return RMSNorm(width, eps=config.norm_eps)
        case "layer":
            return nn.LayerNorm(width, eps=config.norm_eps, bias=config.bias)
    return nn.Identity()
