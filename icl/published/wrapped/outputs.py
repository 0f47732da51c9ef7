"""Hooks into a forward pass: layers' inputs, and sublayers that are made again for their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from icl.models.decoder import Decoder


@contextmanager
def states_read(decoder: Decoder, wanted: bool) -> Iterator[list[Tensor]]:
    """Collect what every layer reads inside, (batch, T, d_model) each, if that is wanted.

    Of an attention with inputs of their own for queries, keys and values it is the queries'.
    """
    states: list[Tensor] = []

    def read(_module: nn.Module, args: tuple[Any, ...]) -> None:
        states.append(args[0] if isinstance(args[0], Tensor) else args[0][0])

    sublayers = decoder.sublayers
    firsts = sublayers[:: len(sublayers) // len(decoder.layers)] if wanted else []
    hooks = [module.register_forward_pre_hook(read) for module in firsts]
    try:
        yield states
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
        assert checkpoint is not None
        module.forward = partial(checkpoint, module.forward)
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
