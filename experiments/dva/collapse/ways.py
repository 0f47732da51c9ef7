"""Ways to attend with dynamic values, from query, key, value and both gates, (1, heads, T, width) each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from experiments.dva.collapse.points import Side
from icl.models.attention import weights
from icl.models.dynamic_values import initial, naive, revised
from icl.models.few_queries import blockwise

Way = Callable[[Sequence[Tensor]], Tensor]


def inputs(heads: int, tokens: int, width: int, device: str, dtype: torch.dtype) -> list[Tensor]:
    """Normal numbers, the same ones in every dtype."""
    generator = torch.Generator().manual_seed(tokens)
    made = torch.randn(5, 1, heads, tokens, width, generator=generator, dtype=torch.float64)
    return [x.to(device, dtype).requires_grad_() for x in made]


def one_side(side: Side, queries: int, visible: Tensor, leaves: Sequence[Tensor]) -> Tensor:
    """visible (T, T) as a causal mask; blocks are of so many queries."""
    query, key, value, query_gate, key_gate = leaves

    def some(q: Tensor, gate: Tensor, k: Tensor, v: Tensor, other: Tensor, seen: Tensor) -> Tensor:
        shares = weights(q, k, seen)
        if side.way == "collapsed":
            return initial(shares, gate, v, other)
        return naive("initial" if side.form == "initial" else "revised", shares, gate, v, other)

    of_queries, of_keys = (query, query_gate), (key, value, key_gate)
    size = queries if side.blocks else query.shape[2]
    if side.form == "revised" and side.way == "collapsed":  # as the models have it, with PyTorch's own attention
        return _dynamic(leaves, visible, size)
    return blockwise(some, of_queries, of_keys, (visible,), causal=True, size=size)


def _dynamic(leaves: Sequence[Tensor], visible: Tensor, size: int) -> Tensor:
    query, key, value, query_gate, key_gate = leaves
    plain = torch.nn.functional.scaled_dot_product_attention

    def attended(wide: Tensor) -> Tensor:
        if size >= query.shape[2]:
            return plain(query, key, wide, is_causal=True)
        return blockwise(plain, (query,), (key, wide), (visible,), causal=True, size=size)

    return revised(attended, value, query_gate, key_gate)


def both_passes(run: Way, leaves: Sequence[Tensor]) -> list[Tensor]:
    """The output, and the gradient of its sum to all that it depends on."""
    out = run(leaves)
    return [out.detach(), *(x for x in torch.autograd.grad(out.sum(), leaves, allow_unused=True) if x is not None)]
