"""The processes that share a training: the interface that its loop uses, and its version for one process.

Every process goes through the same loop and asks the same in the same order.  Several are `icl.training.parallel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from icl.checkpoint import Checkpoint, Checkpoints, restore, state
from icl.models.decoder import Decoder
from icl.recipe import Recipe
from icl.training.compiling import compiled
from icl.training.objectives import Batch, HeldOut, Task

T = TypeVar("T")
Losses = Callable[[Decoder, HeldOut, Tensor, Tensor], Tensor]


class Saved(Protocol):
    """The checkpoints of one training (`icl.checkpoint.Checkpoints`)."""

    def save(self, step: int, tensors: Mapping[str, Tensor], **numbers: float) -> None:
        """Save a step's tensors and numbers; this may still be under way when the call returns."""

    def newest(self, *, of_any: bool = False) -> Checkpoint | None: ...

    def wait(self) -> None:
        """Wait until the last save is on disk.  Raises what went wrong."""


class Processes(Protocol):
    """The processes of a training.

    count: how many there are; rank: which of them this is, from 0; local: which of those on its machine.
    """

    @property
    def count(self) -> int: ...

    @property
    def rank(self) -> int: ...

    @property
    def local(self) -> int: ...

    def check(self, recipe: Recipe) -> None:
        """Raise BadInput, in one line, for a recipe that cannot be shared out."""

    def prepare(self, model: Decoder, recipe: Recipe) -> None:
        """Turn the model, in place, into one that they train together; before it has an optimiser."""

    def losses(self, recipe: Recipe) -> Losses:
        """Return the function that gives a model's losses on a batch, compiled if the recipe asks for it."""

    def whole(self, model: Decoder) -> Decoder | None:
        """Return an ordinary model with these weights, in the first process; None in the others."""

    def batch(self, task: Task, seed: int, step: int, size: int) -> Batch:
        """Return this process's part of a step's batch; all parts are equally large."""

    def clip(self, model: Decoder, largest: float) -> Tensor:
        """Scale all gradients together to at most this norm, and return the norm before."""

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over processes, the same numbers in each."""

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over processes, the same numbers in each."""

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Return, for each flag, whether it is set in at least one process."""

    def checkpoints(self, folder: Path, identity: str, warn: Callable[[str], None]) -> Saved: ...

    def state(self, model: Decoder, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
        """Return the tensors of both that are saved."""

    def restore(self, model: Decoder, optimiser: torch.optim.Optimizer, checkpoint: Checkpoint) -> None:
        """Restore both from a checkpoint of any number of processes."""

    def together(self) -> AbstractContextManager[None]:
        """Run the block in all processes, without communication.

        What one of them raises ends all of them.
        """

    def first(self, action: Callable[[], T]) -> T:
        """Return the first process's result in all of them.  What it raises ends all of them."""


class Alone:
    """A training in one process.

    recomputed   activations are made again in the backward pass, in place of being kept (`icl.training.processes`)
    """

    count, rank, local = 1, 0, 0

    def __init__(self, *, recomputed: bool = False) -> None:
        self.recomputed = recomputed

    def check(self, recipe: Recipe) -> None:
        pass

    def prepare(self, model: Decoder, recipe: Recipe) -> None:  # noqa: ARG002
        if self.recomputed:
            recompute(model)

    def losses(self, recipe: Recipe) -> Losses:
        return compiled(losses) if recipe.compile else losses

    def whole(self, model: Decoder) -> Decoder | None:
        return model

    def batch(self, task: Task, seed: int, step: int, size: int) -> Batch:
        return task.batch(seed, step, size)

    def clip(self, model: Decoder, largest: float) -> Tensor:
        return nn.utils.clip_grad_norm_(model.parameters(), largest or math.inf)

    def mean(self, values: Tensor) -> Tensor:
        return values

    def sum(self, values: Tensor) -> Tensor:
        return values

    def any(self, *flags: bool) -> tuple[bool, ...]:
        return flags

    def checkpoints(self, folder: Path, identity: str, warn: Callable[[str], None]) -> Saved:
        return Checkpoints(folder, identity, warn)

    def state(self, model: Decoder, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
        return state(model, optimiser)

    def restore(self, model: Decoder, optimiser: torch.optim.Optimizer, checkpoint: Checkpoint) -> None:
        restore(model, optimiser, checkpoint.tensors)

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def first(self, action: Callable[[], T]) -> T:
        return action()


ALONE = Alone()


def losses(model: Decoder, task: HeldOut, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return a model's losses on a batch, (batch, positions): what is compiled of a step, loss included."""
    return task.losses(model(inputs), targets)


def recompute(model: Decoder) -> None:
    """Make sublayers recompute their activations, in place; names of parameters stay as they are.

    A sublayer then keeps its inputs alone, and what lies between is made again for its gradient.  It costs one more
    forward pass of the sublayers, about a third more time, and changes no number: the same operations on the same
    numbers, and the same masks of dropout.  What a depth rule keeps to weigh outputs stays.
    """
    for sublayer in model.sublayers:
        sublayer.forward = partial(
            checkpoint, sublayer.forward, use_reentrant=False, preserve_rng_state=bool(model.config.dropout)
        )
