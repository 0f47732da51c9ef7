"""What layers read and how heads attend, recorded during one forward pass; and passes that are made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from icl.models.decoder import Decoder


class Record:
    """The states in front of every layer, (batch, T, d_model), and the weights of its attention.

    Weights are (batch, heads, T, columns), one beside the other where a head attends over several lists.  Of an
    attention with inputs of their own for queries, keys and values the state is the queries'.
    """

    def __init__(self) -> None:
        self.states: list[Tensor] = []
        self.weights: list[list[Tensor]] = []

    def begin(self, _module: nn.Module, args: tuple[Any, ...]) -> None:
        """Note what a layer reads."""
        self.states.append(args[0] if isinstance(args[0], Tensor) else args[0][0])
        self.weights.append([])

    def see(self, weights: Tensor) -> None:
        """Note the weights of some heads of the layer that has begun."""
        tokens = self.states[-1].shape[1]
        # A latent's heads attend as one, one after the other.
        self.weights[-1].append(weights if weights.shape[2] == tokens else weights.unflatten(2, (-1, tokens))[:, 0])

    def attentions(self) -> tuple[Tensor, ...]:
        return tuple(torch.cat(parts, dim=1) for parts in self.weights)


@contextmanager
def recorded(decoder: Decoder, wanted: bool) -> Iterator[Record]:
    """Record the passes inside, if that is wanted."""
    record, sublayers = Record(), decoder.sublayers
    firsts = sublayers[:: len(sublayers) // len(decoder.layers)] if wanted else []
    hooks = [module.register_forward_pre_hook(record.begin) for module in firsts]
    try:
        yield record
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def recomputed(decoder: Decoder, checkpoint: Callable[..., Any] | None, every: int = 1) -> Iterator[None]:
    """Make passes inside again for their gradients, sublayer by sublayer, in place of keeping activations.

    Args:
        decoder: The decoder.
        checkpoint: The function that calls another, with its arguments, and makes it again; None: nothing is.
        every: Layers 1, 1 + every and so on are made again, and the others keep their activations.
    """
    sublayers = decoder.sublayers
    per_layer = len(sublayers) // len(decoder.layers)
    chosen = [x for i, x in enumerate(sublayers) if i // per_layer % every == 0] if checkpoint else []
    before = [module.__dict__.get("forward") for module in chosen]
    for module in chosen:
        module.forward = partial(checkpoint, module.forward)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for module, own in zip(chosen, before, strict=True):
            del module.forward
            if own is not None:
                module.forward = own


def selected(states: Sequence[Tensor], wanted: bool | int | Sequence[int]) -> tuple[Tensor | None, ...]:
    """Return all states, or those that are wanted by number, as transformers counts them, and None for the others."""
    if isinstance(wanted, bool):
        return tuple(states)
    numbers = {i % len(states) for i in ([wanted] if isinstance(wanted, int) else wanted)}
    return tuple(state if i in numbers else None for i, state in enumerate(states))
