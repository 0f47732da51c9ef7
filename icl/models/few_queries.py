"""Attention a few queries at a time, where no fused kernel keeps the weights of all pairs out of memory.

Attention over T tokens without a fused kernel keeps some T x T tensors a head for its backward pass.  Here blocks of
queries attend one after the other, and the backward pass makes each block's weights again (Rabe and Staats, 2021), so
that nothing of size T x T is kept, and `QUERIES_AT_A_TIME` x T at a time is made.  A causal block is not shown the keys
behind its last query, so that of all pairs a little over half are worked out, twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from theory.plans.memory import QUERIES_AT_A_TIME


def blockwise(
    attend: Callable[..., Tensor],
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    pairs: Sequence[Tensor | None],
    *,
    causal: bool,
    size: int = QUERIES_AT_A_TIME,
) -> Tensor:
    """Return attend(*queries, *keys, *pairs), (batch, H, T, width), in blocks of `size` queries.

    It is one block if T is at most `size`.

    queries     (batch, H, T, .): what every query has
    keys        (batch, H / group, S, .): what every key has
    pairs       (..., T, S), or None: what every pair has
    causal      S = T and no query is shown a later key, as one of the pairs says
    """
    tokens = int(queries[0].shape[2])  # torch.jit.trace makes tensors of sizes
    if tokens <= size:
        return attend(*queries, *keys, *pairs)
    blocks = []
    for start in range(0, tokens, size):
        rows = slice(start, min(start + size, tokens))
        seen = slice(rows.stop) if causal else slice(None)
        block = [
            *(x[:, :, rows] for x in queries),
            *(x[:, :, seen] for x in keys),
            *(x if x is None else x[..., rows, seen] for x in pairs),
        ]
        kept = torch.is_grad_enabled()
        blocks.append(checkpoint(attend, *block, use_reentrant=False) if kept else attend(*block))
    return torch.cat(blocks, dim=2)
