"""Weighted sums of sources over depth, in float32 or better: one by one, and with a backward pass written out.

Neither makes a stack of the sources: a backward pass keeps them once, in their own dtype, and not once for every read.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def exact(dtype: torch.dtype) -> torch.dtype:
    """Float32, or float64 where that is what comes."""
    return torch.promote_types(dtype, torch.float32)


def weighted_sum(weights: Tensor, sources: Sequence[Tensor]) -> Tensor:
    """sum_i weights[i] * sources[i], summed in float32 or better and rounded once, to the dtype of the sources.

    weights (sources, batch or 1, T or 1, heads), each of which weighs its part of the width; sources (batch, T, d).
    """
    dtype = _common(sources)
    parts = (w[..., None] * _parts(v, weights) for w, v in zip(weights.to(exact(dtype)), sources, strict=True))
    return functools.reduce(torch.add, parts).flatten(-2).to(dtype)


def weighted_in_place(weights: Tensor, sources: Sequence[Tensor]) -> Tensor:
    """`weighted_sum` in place, for weights (sources, batch, T, heads); no gradient makes a tensor of a source's size
    but those of the sources.  Under torch.compile, which makes one loop of the plain sum, that sum."""
    if torch.compiler.is_compiling():
        return weighted_sum(weights, sources)
    found: Tensor = _InPlace.apply(weights.to(exact(_common(sources))), *sources)  # type: ignore[no-untyped-call]
    return found


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, *sources: Tensor) -> Tensor:
        ctx.save_for_backward(weights, *sources)
        first, *others = (_parts(v, weights) for v in sources)
        total = weights[0, ..., None] * first
        for w, v in zip(weights[1:], others, strict=True):
            total.addcmul_(w[..., None], v)
        return total.flatten(-2).to(_common(sources))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weights, *sources = ctx.saved_tensors
        of_weights, *of_sources = ctx.needs_input_grad
        gradient = _parts(gradient, weights).to(weights.dtype)
        found: list[Tensor | None] = [None]
        if of_weights:
            parts = (_parts(v, weights).to(weights.dtype) for v in sources)
            found[0] = torch.stack([torch.einsum("bthw,bthw->bth", gradient, part) for part in parts])
        for w, v, needed in zip(weights, sources, of_sources, strict=True):
            found.append((w[..., None] * gradient).flatten(-2).to(v.dtype) if needed else None)
        return tuple(found)


def _parts(v: Tensor, weights: Tensor) -> Tensor:
    """(batch, T, d) as (batch, T, heads, d / heads)."""
    return v.unflatten(-1, (weights.shape[-1], -1))


def _common(sources: Sequence[Tensor]) -> torch.dtype:
    return functools.reduce(torch.promote_types, (v.dtype for v in sources))
