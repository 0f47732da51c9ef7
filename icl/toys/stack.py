"""Many toys as one model, whatever kind they are: streams, slots, masked parameters, prompts, held-out evaluation.

Toys that see the same prompts (same task and seed) are the *slots* of one *stream*; every stream has the same number of
slots, and smaller toys are padded with zeros, so that parameters are (..., streams, slots, rows, columns) tensors.  The
padding, the unused slots and whatever a toy lacks are one fixed mask per parameter: masked entries never move, since
their gradients are zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from icl.prompts import HELD_OUT_STREAM, Generator, Prompts, RegressionTask
from theory.plans.heads import Heads

EVAL_BATCH = 64  # what keeps the intermediates of some hundred toys in a core's cache


class Spec(Protocol):
    """A toy of a stack, with what every kind of toy has to give."""

    @property
    def task(self) -> RegressionTask: ...

    @property
    def heads(self) -> Heads: ...

    @property
    def seed(self) -> int: ...


SpecT = TypeVar("SpecT", bound=Spec)
BatchT = TypeVar("BatchT")


class Stack(nn.Module, ABC, Generic[SpecT, BatchT]):
    """The toys of `specs`, in their order, as one module.

    Toy specs[i] is slot m of stream s, (s, m) = `locate[i]`; `streams` holds each stream's task and seed, `of_task` the
    streams of each task, `shape` is (streams, slots).  copied and raw: (heads, streams, slots, 1, 1), what the second
    layer's heads attend over.
    A kind of toy adds its parameters by `add` and says what it predicts of a batch.
    """

    copied: Tensor
    raw: Tensor

    def __init__(self, specs: Sequence[SpecT], dtype: torch.dtype) -> None:
        super().__init__()
        self.specs = tuple(specs)
        slots: dict[tuple[RegressionTask, int], list[int]] = defaultdict(list)
        for i, spec in enumerate(self.specs):
            slots[spec.task, spec.seed].append(i)
        self.streams = tuple(slots)
        self.of_task: dict[RegressionTask, list[int]] = defaultdict(list)
        for s, (task, _) in enumerate(self.streams):
            self.of_task[task].append(s)
        self.locate = {i: (s, m) for s, members in enumerate(slots.values()) for m, i in enumerate(members)}
        self.shape = len(self.streams), max(map(len, slots.values()))
        self._sizes: dict[str, list[tuple[int, int]]] = {}
        copied, raw = (torch.zeros(len(self.specs[0].heads), *self.shape, 1, 1, dtype=dtype) for _ in range(2))
        for i, spec in enumerate(self.specs):
            for h, head in enumerate(spec.heads):
                copied[h, *self.locate[i]], raw[h, *self.locate[i]] = head.copied, head.raw
        self.register_buffer("copied", copied)
        self.register_buffer("raw", raw)

    def add(self, name: str, numbers: Sequence[Tensor], masks: Sequence[Tensor]) -> None:
        """Add a parameter: every toy's initial numbers (..., rows, columns), and its mask, which broadcasts to them."""
        self._sizes[name] = [(x.shape[-2], x.shape[-1]) for x in numbers]
        most = (max(sizes) for sizes in zip(*self._sizes[name], strict=True))
        start = torch.zeros(*numbers[0].shape[:-2], *self.shape, *most, dtype=self.dtype)
        mask = torch.zeros_like(start)
        for i, (own, allowed) in enumerate(zip(numbers, masks, strict=True)):
            start[self.place(name, i)] = own.to(self.dtype)
            mask[self.place(name, i)] = allowed.to(self.dtype)
        self.register_buffer(f"mask_{name}", mask)
        self.register_parameter(name, nn.Parameter(start * mask))

    def place(self, name: str, i: int) -> Any:
        """Return the index of specs[i]'s numbers in a parameter, its mask or its gradient."""
        return (..., *self.locate[i], *map(slice, self._sizes[name][i]))

    def masked(self, name: str) -> Tensor:
        return self.get_parameter(name) * self.get_buffer(f"mask_{name}")

    @torch.no_grad()
    def weights(self, i: int) -> dict[str, Tensor]:
        """Return all parameters of specs[i], by name, without streams, slots and padding."""
        return {name: self.get_parameter(name)[self.place(name, i)].clone() for name in self._sizes}

    @property
    def dtype(self) -> torch.dtype:
        return self.copied.dtype

    @property
    def device(self) -> torch.device:
        return self.copied.device

    def batch(self, size: int, purpose: int, step: int) -> BatchT:
        """Return `size` fresh prompts for every stream.

        A stream's prompts depend on its own task and seed, the purpose and the step, not on what else is in the stack.
        """
        seeds = [seed for _, seed in self.streams]

        def generators(streams: Sequence[int]) -> list[Generator]:
            return [Generator(purpose, seeds[s], step, device=self.device) for s in streams]

        return self.gathered(
            {task: task.samples(size, generators(streams), self.dtype) for task, streams in self.of_task.items()}
        )

    def sampled_losses(self, size: int, purpose: int, step: int) -> Tensor:
        """Return the losses on `batch(size, purpose, step)`."""
        return self.losses(self.batch(size, purpose, step))

    def held_out(self, prompts: int, start: int = 0) -> Iterator[BatchT]:
        """Yield `prompts` held-out prompts for every stream, in batches of which `start` is the first.

        Raises ValueError unless `prompts` is a multiple of EVAL_BATCH.
        """
        if prompts < 1 or prompts % EVAL_BATCH:
            raise ValueError(f"the number of prompts must be a multiple of {EVAL_BATCH}, got {prompts}")
        return (self.batch(EVAL_BATCH, HELD_OUT_STREAM, start + i) for i in range(prompts // EVAL_BATCH))

    @abstractmethod
    def gathered(self, prompts: Mapping[RegressionTask, Prompts]) -> BatchT:
        """Return the prompts as one batch, over n where contents are read.

        prompts: by task, those of its streams (`of_task`), with a dimension of these in front.
        """

    @abstractmethod
    def losses(self, batch: BatchT) -> Tensor:
        """Return the mean of ||y_{n+1} - prediction||^2 over the batch, for every toy: (streams, slots).

        Unused slots predict zero.
        """

    @abstractmethod
    def explained(self, batch: BatchT) -> Tensor:
        """Return how much better than zero every toy predicts, summed over the batch: (streams, slots).

        The label's noise is left out.
        """


@torch.no_grad()
def explained_signal(toys: Stack[Any, Any], prompts: int, start: int = 0) -> Tensor:
    """Return how much better than zero each toy predicts on `Stack.held_out`, in squared units of y.

    The label's noise is independent of all else, so the loss is d^2 + d sigma^2 minus this number.  Chunks can be
    evaluated apart: `start` is the first batch.

    Returns:
        (streams, slots), float64.
    """
    total = torch.zeros(toys.shape, dtype=torch.float64, device=toys.device)
    for batch in toys.held_out(prompts, start):
        total += toys.explained(batch).double()
    return total / prompts
