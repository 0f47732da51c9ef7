"""The memory that a forward pass keeps for its backward pass, as autograd counts it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor


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
