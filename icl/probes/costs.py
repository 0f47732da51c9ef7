"""Costs of a pass through a model: the bytes that it keeps and takes at most, and the kernels that attention runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
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


def kept_bytes(loss: Callable[[], Tensor], parameters: Iterable[Tensor]) -> int:
    """Return the bytes of the tensors that are saved while `loss` is computed, each storage once.

    Those of parameters are left out.
    """
    own = {p.untyped_storage().data_ptr() for p in parameters}
    saved: dict[int, Tensor] = {}

    def save(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no address is used again
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        loss()
    return sum(x.untyped_storage().nbytes() for place, x in saved.items() if place not in own)


FUSED = ("flash", "efficient", "cudnn")  # of aten::_scaled_dot_product_NAME_attention, with more behind it on a CPU
SOFTMAX = "softmax"  # an operator of its own: the weights of pairs were made


def attention_kernels(run: Callable[[], object]) -> list[str]:
    """Return the names of FUSED and SOFTMAX that `run` used, in this order; none where it did not attend."""
    with _Seen() as seen:
        run()
    fused = [name for name in FUSED if any(f"_scaled_dot_product_{name}_attention" in called for called in seen.names)]
    return fused + [SOFTMAX] * any("softmax" in called for called in seen.names)


class _Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.name())
        return func(*args, **(kwargs or {}))
