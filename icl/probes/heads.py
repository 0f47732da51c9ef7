"""Which heads a decoder can do without: heads whose outputs are left out of a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from icl.models.decoder import Decoder
from icl.probes.recording import removed_after

Head = tuple[int, int]  # layer and head, from 1


def heads_of(model: Decoder) -> list[Head]:
    """All query heads."""
    return [(n, h) for n in range(1, model.config.n_layers + 1) for h in range(1, model.config.n_heads + 1)]


@contextmanager
def without(model: Decoder, heads: Collection[Head]) -> Iterator[None]:
    """Inside, these heads put out zeros, before what a plan adds beside them.  For plans that build all heads."""
    hooks = []
    for n, layer in enumerate(model.layers, 1):
        left_out = [h - 1 for m, h in heads if m == n]
        if left_out:
            core = layer.get_submodule("attention.core")
            hooks.append(core.register_forward_hook(_zeros(left_out)))
    with removed_after(hooks):
        yield


def removal(model: Decoder, loss_of: Callable[[], float]) -> tuple[list[Head], list[float]]:
    """All heads in the order of what each costs alone, cheapest first; the loss without none, one, two, ... of them.

    loss_of: the model's loss, asked for as often as there are heads, twice.
    """
    alone: dict[Head, float] = {}
    for head in heads_of(model):
        with without(model, [head]):
            alone[head] = loss_of()
    order = sorted(alone, key=lambda head: (alone[head], head))
    losses = []
    for count in range(len(order) + 1):
        with without(model, order[:count]):
            losses.append(loss_of())
    return order, losses


def _zeros(heads: list[int]) -> Callable[[nn.Module, object, Tensor], Tensor]:
    def hook(_module: nn.Module, _args: object, out: Tensor) -> Tensor:
        kept = torch.ones(out.shape[1], dtype=out.dtype, device=out.device)
        kept[heads] = 0
        return out * kept[:, None, None]

    return hook
