"""Agreement of processes on things beside tensors: results of the first one, errors of any, flags.

It goes over gloo, between CPUs, in groups of its own, whatever gradients go over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.distributed as dist

T = TypeVar("T")


class OfAnother(SystemExit):
    """An exit because another process has failed and has said so: this one ends quietly, with the same status."""

    def __init__(self) -> None:
        super().__init__(2)


@dataclass(frozen=True)
class Agreement:
    """The agreement among `count` processes, of which this one is `rank`.

    control   the group that is used by the thread that trains
    saving    that of the thread that saves
    """

    rank: int
    count: int
    control: Any
    saving: Any

    def all(self, own: T) -> list[T]:
        """Return the values of all processes, by rank."""
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, own, group=self.control)
        return found

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run the block in all processes, without communication.

        If it fails in some, the first of these raises its error and the others OfAnother.
        """
        trouble: Exception | None = None
        try:
            yield
        except Exception as error:
            trouble = error
        failed = [rank for rank, fails in enumerate(self.all(trouble is not None)) if fails]
        if not failed:
            return
        if failed[0] == self.rank:
            assert trouble is not None
            raise trouble
        raise OfAnother

    def first(self, action: Callable[[], T]) -> T:
        """Return the result of `action` in the first process.

        What it raises there ends the others, with OfAnother.
        """
        found: list[Any] = [None]
        with self.together():
            if self.rank == 0:
                found = [action()]
        dist.broadcast_object_list(found, src=0, group=self.control)
        value: T = found[0]
        return value
