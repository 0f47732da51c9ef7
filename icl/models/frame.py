"""The frame of one forward pass, which all sublayers share, and the norm before each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from icl.models.rotary import Rotation
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Norm
from theory.plans.mix import Where

Bank = dict[str, Tensor]


class Past(Protocol):
    """The earlier tokens that previous forward passes left (`icl.models.cache`)."""

    @property
    def steps(self) -> dict[Any, Any]:
        """Memory from step to step beside tokens (`icl.models.depth_steps`)."""
        ...

    def held(self, layer: int) -> Tensor:
        """Return the places of the tokens that layer `layer` attends over, (columns,) or (batch, columns).

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

    def extended(self, layer: int, name: str, new: Tensor) -> Tensor:
        """Return an entry of all tokens that the layer attends over: (batch, heads, columns, width)."""
        ...


@dataclass(frozen=True, eq=False)
class Frame:
    """The data that all layers of one forward pass share.

    visible     (T, T) or (batch, 1, T, T), true where a token (row) may attend to another (column); None: everywhere
    causal      `visible` is exactly the lower triangle, so that kernels need not look at it
    rotation    positions for queries and keys, or None
    places      (batch, T), positions counted over real tokens, where there is padding; None: 0, 1, ..., T - 1
    learned     the plan's learned weights, by `projections.learned_name`
    past        of tokens before these, which are attended over too: then a layer's `visible` has a column for each
                that is `held`, and `places` are those of these, (T,) or (batch, T)
    tokens      (batch, T), the tokens' indices, where the stem reads such
    before      (batch, T), the column of the token before each, -1 where there is none; None: the column before
    by_layer    `visible` and `causal` of every layer, where they differ; (): they do not
    explicit    attention's weights are made as they are written, and no fused kernel is used
    see         called once a layer with the weights of its attention, (batch, H, T, columns), which are then explicit
    backend     attention by somebody else's function, which keeps earlier tokens itself: the layer, from 1, queries,
                keys and values of these tokens -> what the queries get, (batch, H, T, width); None: our own
    layer       the layer whose frame this is, from 1; 0: that of all
    """

    visible: Tensor | None
    causal: bool
    rotation: Rotation | None
    places: Tensor | None
    learned: Mapping[str, Tensor]
    past: Past | None = None
    tokens: Tensor | None = None
    before: Tensor | None = None
    by_layer: tuple[tuple[Tensor | None, bool], ...] = ()
    explicit: bool = False
    see: Callable[[Tensor], None] | None = None
    backend: Callable[[int, Tensor, Tensor, Tensor], Tensor] | None = None
    layer: int = 0

    @property
    def looked_up(self) -> Tensor:
        """The tokens' indices.  Raises BadInput where tokens came embedded."""
        if self.tokens is None:
            raise BadInput("a table has rows for tokens: this model takes tokens' indices, not embedded tokens")
        return self.tokens

    def of_layer(self, layer: int) -> Frame:
        """Return the frame of one layer, from 1."""
        if not self.by_layer:
            return self if self.backend is None else replace(self, layer=layer)
        visible, causal = self.by_layer[layer - 1]
        return replace(self, visible=visible, causal=causal, by_layer=(), layer=layer)


def windowed(
    config: Architecture, visible: Tensor | None, causal: bool, *, places: Tensor, held: Tensor
) -> tuple[tuple[Tensor | None, bool], ...]:
    """Return `Frame.by_layer` under windows by layer, from what all layers would see without; () without such windows.

    places, held: of the tokens that attend and of those attended over, (T,) or (batch, T) each.
    """
    if not any(config.windows):
        return ()
    distance = places[..., :, None] - held[..., None, :]
    distance = distance if distance.dim() == 2 else distance[:, None]
    of_size: dict[int, tuple[Tensor | None, bool]] = {}
    for size in set(config.windows):
        near = distance < size
        seen = (
            (visible, causal)
            if not size or size >= distance.shape[-1]
            else (near if visible is None else visible & near, False)
        )
        of_size[size] = seen
    return tuple(of_size[config.window_of(n)] for n in range(1, config.n_layers + 1))


def shifted(x: Tensor, tokens: int, before: Tensor | None) -> Tensor:
    """Return what the token so many tokens before has, zeros where there is none.

    x: (batch, heads, T, width); before: as in `Frame`.
    """
    if before is None:
        return nn.functional.pad(x, (0, 0, min(tokens, x.shape[2]), 0))[:, :, : x.shape[2]]
    column = torch.arange(x.shape[2], device=x.device).expand(len(x), -1)
    for _ in range(min(tokens, x.shape[2])):
        column = torch.where(column < 0, column, before.gather(1, column.clamp(min=0)))
    there = (column >= 0)[:, None, :, None]
    chosen = x.gather(2, column.clamp(min=0)[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))
    return torch.where(there, chosen, torch.zeros_like(chosen))


def limited(x: Tensor, where: Where, places: Tensor | None) -> Tensor:
    """Return what tokens have at a sequence's first place, or at later ones, and zeros elsewhere.

    Args:
        x: (batch, heads, T, width).
        where: first or later.
        places: Positions of the tokens, (T,) or (batch, T); None: 0, 1, ..., T - 1.
    """
    places = torch.arange(x.shape[2], device=x.device) if places is None else places
    chosen = places == 0 if where == "first" else places > 0
    chosen = chosen if chosen.dim() == 1 else chosen[:, None]
    return torch.where(chosen[..., None], x, torch.zeros((), dtype=x.dtype, device=x.device))


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
