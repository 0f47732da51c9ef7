"""Weighted sums of sources over depth, in float32 or better: one by one, and several at once, in place.

Neither makes a stack of the sources: a backward pass keeps them once, in their own dtype, and not once for every read.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def exact(dtype: torch.dtype) -> torch.dtype:
    """Return float32, or float64 for float64 input."""
    return torch.promote_types(dtype, torch.float32)


def weighted_sum(weights: Tensor, sources: Sequence[Tensor], dtype: torch.dtype | None = None) -> Tensor:
    """Return sum_i weights[i] * sources[i], summed in float32 or better and rounded once.

    It is rounded to `dtype`, by default the sources'.  weights (sources, batch or 1, T or 1, heads), each of which
    weighs its part of the width; sources (batch, T, d).
    """
    dtype = dtype or common(sources)
    parts = (w[..., None] * _parts(v, weights) for w, v in zip(weights.to(exact(dtype)), sources, strict=True))
    return functools.reduce(torch.add, parts).flatten(-2).to(dtype)


def weighted_together(weights: Tensor, sources: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Return several sums over the same sources, (batch, T, d) of `dtype` each, with one gradient per source for all.

    weights (sums, sources, batch, T, heads).  Under torch.compile, which makes loops of plain sums, plain sums.
    """
    if torch.compiler.is_compiling():
        return tuple(weighted_sum(w, sources, dtype) for w in weights)
    found: tuple[Tensor, ...] = _Together.apply(weights.to(exact(dtype)), dtype, *sources)  # type: ignore[no-untyped-call]
    return found


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, dtype: torch.dtype, *sources: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(weights, *sources)
        first, *others = (_parts(v, weights) for v in sources)
        sums = []
        for of_sum in weights:
            total = of_sum[0, ..., None] * first
            for w, v in zip(of_sum[1:], others, strict=True):
                total.addcmul_(w[..., None], v)
            sums.append(total.flatten(-2).to(dtype))
        return tuple(sums)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weights, *sources = ctx.saved_tensors
        of_weights, _, *of_sources = ctx.needs_input_grad
        slopes = [_parts(g, weights).to(weights.dtype) for g in gradients]
        found: list[Tensor | None] = [None, None]
        if of_weights:
            parts = [_parts(v, weights) for v in sources]
            found[0] = torch.stack([torch.stack([(g * v).sum(-1) for v in parts]) for g in slopes])
        for of_source, v, needed in zip(weights.unbind(1), sources, of_sources, strict=True):
            if not needed:
                found.append(None)
                continue
            total = of_source[0, ..., None] * slopes[0]
            for w, g in zip(of_source[1:], slopes[1:], strict=True):
                total.addcmul_(w[..., None], g)
            found.append(total.flatten(-2).to(v.dtype))
        return tuple(found)


def _parts(v: Tensor, weights: Tensor) -> Tensor:
    """Return (batch, T, d) as (batch, T, heads, d / heads)."""
    return v.unflatten(-1, (weights.shape[-1], -1))


def common(sources: Sequence[Tensor]) -> torch.dtype:
    """Return the dtype that all sources are exact in."""
    return functools.reduce(torch.promote_types, (v.dtype for v in sources))
