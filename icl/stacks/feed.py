"""The training data of a stack: the prompts of many streams, drawn together, with the batch last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from icl.training.objectives import Batch, Task


@runtime_checkable
class StackTask(Task, Protocol):
    """A task for stacks: vectors in, and the loss of some numbers of some tokens' answers.

    read  the tokens whose answers count; a batch's last targets are theirs
    slot  which numbers of such an answer are scored
    nats  whether they are scores of a softmax, and targets are one-hot; otherwise errors are squared
    """

    @property
    def read(self) -> slice: ...

    @property
    def slot(self) -> slice: ...

    @property
    def nats(self) -> bool: ...

    def batches(self, seeds: Sequence[int], step: int, size: int) -> Batch:
        """Return `batch` of every seed, to rounding, stacked along a new first dimension."""
        ...


class Feed:
    """The prompts of every decoder: equal seeds see the same ones."""

    def __init__(self, task: StackTask, seeds: Sequence[int], like: Tensor) -> None:
        self.task, self.like = task, like
        self.streams = list(dict.fromkeys(seeds))
        self.of = torch.tensor([self.streams.index(seed) for seed in seeds], device=like.device)
        self.read, self.slot, self.nats = task.read, task.slot, task.nats

    def batches(self, step: int, size: int) -> tuple[Tensor, Tensor]:
        """Return every stream's inputs (streams, width, T, B) and targets (streams, d, tokens read, B)."""
        return self.laid(self.task.batches(self.streams, step, size))

    def laid(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Move the batch last: (..., B, T, width) to (..., width, T, B), targets to (..., d, tokens read, B)."""
        count = len(range(self.task.tokens)[self.read])
        parts = (batch.inputs, batch.targets[..., -count:, :])
        inputs, targets = (x.to(self.like).transpose(-3, -1).contiguous() for x in parts)
        return inputs, targets
