"""Designs of the field that change what heads attend over, as their sources write them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from icl.testing import Layer, reference


@reference
def value_embeddings(x: Layer, h: int, tables: int = 3) -> Tensor:
    """v = lambdas[0] v + lambdas[1] ve in the first and last layers, which share tables; else v = lambdas[0] v."""
    count = min(tables, max(1, x.layers // 2))
    of_layer = [*range(1, count + 1), *[0] * (x.layers - 2 * count), *range(1, count + 1)]
    table = of_layer[x.n - 1]
    v = x.learned(f"own_{x.n}") * x.v(x.n, h)
    return x.A(h) @ (v + x.learned(f"row_{x.n}") * x.e(table, h) if table else v)


@reference
def gated_value_embeddings(x: Layer, h: int, every: int = 2, channels: int = 32, scale: float = 2.0) -> Tensor:
    """nanochat: v = v + 2 sigmoid(ve_gate(x[..., :channels])) ve in every other layer, the last included."""
    v = x.v(x.n, h)
    if x.n % every == x.layers % every:
        v = v + scale * x.gate(x.n, h, channels) * x.e(x.n, h)
    return x.A(h) @ v


@reference
def tied_resformer(x: Layer, h: int) -> Tensor:
    """v = (1 - lamb) v + lamb v1."""
    lamb = x.learned(f"first_{x.n}") if x.n > 1 else 0
    return x.A(h) @ ((1 - lamb) * x.v(x.n, h) + lamb * x.v(1, h))


@reference
def shifted_values(x: Layer, h: int) -> Tensor:
    """v_t = mu v_t + (1 - mu) v_{t-1}, v_0 = 0."""
    mu, v = x.weight(f"kept_{x.n}", h - 1), x.v(x.n, h)
    before = torch.cat([torch.zeros_like(v[..., :1, :]), v[..., :-1, :]], dim=-2)
    return x.A(h) @ (mu * v + (1 - mu) * before)


def routed(x: Layer, h: int, source: Callable[[int, int], Tensor]) -> Tensor:
    """K~_h = sum over layers m and heads g of R[h, (m, g)] K_{m, g}; the first layer is ordinary."""
    if x.n == 1:
        return source(1, h)
    many = x.n * x.heads
    row = [x.weight(f"route_{x.n}", (h - 1) * many + i) for i in range(many)]
    return sum(r * source(1 + i // x.heads, 1 + i % x.heads) for i, r in enumerate(row))


@reference
def lime(x: Layer, h: int) -> Tensor:
    """One row of the router for keys and values."""
    return x.score(x.q(x.n, h), routed(x, h, x.k)) @ routed(x, h, x.v)


@reference
def gemma_sharing(x: Layer, h: int, every: int = 5, shared: int = 0) -> Tensor:
    """The last layers read the last layer of their kind before them."""
    kinds = ["global" if n % every == 0 else "local" for n in range(1, x.layers + 1)]
    first = x.layers - (shared or x.layers * 3 // 7)
    m = x.n
    if x.n > first and kinds[x.n - 1] in kinds[:first]:
        m = first - kinds[:first][::-1].index(kinds[x.n - 1])
    return x.score(x.q(x.n, h), x.k(m, h)) @ x.v(m, h)
