"""Gradients of a loss by depth: at every read, through what reads it alone, at every output, and at all parameters.

Reads and outputs are counted as in `icl.probes.magnitude`.  A residual stream flows on from where it is read; here a
read's gradient is through its sublayer, or the last norm, alone, so that depth rules can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from icl.models.decoder import Decoder
from icl.probes.recording import check_one_input, in_graph, removed_after, writing


@dataclass(frozen=True, eq=False)
class Gradients:
    """Reads and outputs, each (batch, T, d_model), the embedding the first output; gradients of the same shapes.

    of_parameters   by name; a parameter that the loss does not depend on has zeros
    """

    loss: float
    reads: list[Tensor]
    outputs: list[Tensor]
    of_reads: list[Tensor]
    of_outputs: list[Tensor]
    of_parameters: dict[str, Tensor]


def gradients(model: Decoder, inputs: Tensor, loss_of: Callable[[Tensor], Tensor]) -> Gradients:
    """Return reads, outputs and gradients of one forward and backward pass, in the model's present mode.

    The model's hooks and `.grad` stay as they were.

    inputs      as the model takes them
    loss_of     the model's answer -> a scalar

    Raises BadInput where an attention has inputs of their own for queries, keys and values.
    """
    check_one_input(model)
    with torch.enable_grad(), _branches(model) as (reads, outputs):
        loss = loss_of(model(inputs))
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    wanted = [*reads, *outputs, *named.values()]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    every = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]
    both = len(reads) + len(outputs)
    return Gradients(
        loss=float(loss.detach()),
        reads=[x.detach() for x in reads],
        outputs=[x.detach() for x in outputs],
        of_reads=every[: len(reads)],
        of_outputs=every[len(reads) : both],
        of_parameters=dict(zip(named, every[both:], strict=True)),
    )


@contextmanager
def _branches(model: Decoder) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Yield every read as a tensor of its own, which nothing but its sublayer gets, and every output."""
    reads: list[Tensor] = []
    outputs: list[Tensor] = []

    def read(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        reads.append(args[0].clone())
        return reads[-1], *args[1:]

    hooks = [module.register_forward_pre_hook(read) for module in (*model.sublayers, model.norm)]
    with removed_after(hooks), writing(model, in_graph(outputs)):
        yield reads, outputs
