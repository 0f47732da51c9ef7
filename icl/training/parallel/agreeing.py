"""What processes agree on beside tensors: results of the first one, errors of any, flags.

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
    """Another process has failed, and has said so: this one ends quietly, with the same status."""

    def __init__(self) -> None:
        super().__init__(2)


@dataclass(frozen=True)
class Agreement:
    """Among `count` processes, of which this one is `rank`.

    control   the group that is used by the thread that trains
    saving    that of the thread that saves
    """

    rank: int
    count: int
    control: Any
    saving: Any

    def all(self, own: T) -> list[T]:
        """What each has, by rank."""
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, own, group=self.control)
        return found

    @contextmanager
    def together(self) -> Iterator[None]:
        """In here all do their part, without a word to others.  If it fails in some, the first of these raises what it
        was and the others OfAnother."""
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
        """What `action` finds in the first process.  What it raises there ends the others, with OfAnother."""
        found: list[Any] = [None]
        with self.together():
            if self.rank == 0:
                found = [action()]
        dist.broadcast_object_list(found, src=0, group=self.control)
        value: T = found[0]
        return value
