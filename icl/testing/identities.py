"""The comparison of two computations of one quantity, to rounding."""

from __future__ import annotations

import torch
from torch import Tensor


def check_identity(left: Tensor, right: Tensor, *, terms: int = 1, scale: float | None = None) -> None:
    """Assert that two computations of one quantity agree to rounding.

    The allowed difference is 8 eps x (numbers per output entry: the last dimension's size times `terms`) x `scale`, in
    the norm of the whole tensor; `scale` is the size of the largest intermediate, by default that of the two sides.
    Raises AssertionError otherwise, or if the shapes differ or a side is not finite.
    """
    left, right = left.detach(), right.detach()
    assert left.shape == right.shape, f"shapes differ: {tuple(left.shape)} and {tuple(right.shape)}"
    assert left.dtype == right.dtype, f"dtypes differ: {left.dtype} and {right.dtype}"
    assert bool(torch.isfinite(left).all()) and bool(torch.isfinite(right).all()), "a side is not finite"
    size = max(float(left.norm()), float(right.norm())) if scale is None else scale
    numbers = terms * (left.shape[-1] if left.dim() else 1)
    allowed = 8 * torch.finfo(left.dtype).eps * numbers * size
    difference = float((left - right).norm())
    assert difference <= allowed, f"differ by {difference:.3g}, allowed {allowed:.3g} (size {size:.3g})"
