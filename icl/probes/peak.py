"""The most memory that tensors take at a time, counted as they are made and let go."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(run: Callable[[], object]) -> int:
    """Return the most bytes of tensors made inside `run` that are alive at once, each storage once.

    What operators use inside and free before they return is not seen.
    """
    with _Alive() as alive:
        run()
    return alive.most


class _Alive(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known: set[weakref.ref[Any]] = set()
        self.bytes = self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Storages of what goes in are not new, even if an operator hands them on.
        before = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, Tensor) and x.untyped_storage()._cdata not in before:
                self._count(x.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()

        def gone(place: weakref.ref[Any]) -> None:
            self.known.discard(place)
            self.bytes -= size

        place = weakref.ref(storage, gone)
        if place not in self.known:
            self.known.add(place)
            self.bytes += size
            self.most = max(self.most, self.bytes)
