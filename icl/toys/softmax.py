"""Assumed-copy toys with softmax attention: `icl.toys.stacked` with another second layer.

The last token attends over the 2n context tokens, which the paper's mask P leaves: keys TF_1(E), values TF_1(E) or raw
E, as a head says.  Logits are x_t^T m_h for x_t's token and u_t^T m_h for y_t's, m_h = K^h A x, and

    prediction = sum_h W^h sum_j softmax_j(logits) [ copied TF_1(E)_j + raw E_j ].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from icl.prompts import Prompts, RegressionTask
from icl.toys.end_to_end import TokenBatch, token_batch
from icl.toys.stacked import AssumedCopyToys, ToySpec
from theory.errors import BadInput


class SoftmaxToys(AssumedCopyToys[TokenBatch]):
    """Assumed-copy toys with softmax heads.  All have one task's d, n and sigma.

    Raises BadInput for a mixed stack, raw keys and heads that share weights.
    """

    def __init__(self, specs: Sequence[ToySpec], dtype: torch.dtype = torch.float32) -> None:
        super().__init__(specs, dtype)
        if len({spec.task for spec in specs}) != 1:
            raise BadInput("a stack of softmax toys needs one task for all of them")
        if not (self.plain_keys and self.unshared):
            raise BadInput("softmax toys have copied keys, and heads whose readouts and keys are their own")

    def gathered(self, prompts: Mapping[RegressionTask, Prompts]) -> TokenBatch:
        return token_batch(prompts)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return predictions of y_{n+1}: tokens (S, B, d, T) -> (S, M, B, d)."""
        x, y, query = tokens[..., :-1:2], tokens[..., 1::2], tokens[..., -1]
        pairs, u, d = torch.cat([x, y], dim=-2), self.masked("u"), tokens.shape[-2]
        m = (query[:, None] @ u[..., :d].mT) @ self.masked("k").mT  # (H, S, M, B, d)
        by_x, by_u = _rows(m), _rows(m @ u)
        weights = torch.cat([by_x @ x, by_u @ pairs], dim=-1).softmax(-1)
        of_x, of_u = weights.chunk(2, dim=-1)
        from_x, from_u = _heads(of_x @ x.mT, m.shape), _heads(of_u @ pairs.mT, m.shape)
        read = (self.copied + self.raw) * from_x + self.copied * (from_u @ u.mT) + self.raw * from_u[..., d:]
        out: Tensor = (read @ self.masked("w").mT).sum(0)
        return out

    def losses(self, batch: TokenBatch) -> Tensor:
        return batch.losses(self(batch.tokens))

    def explained(self, batch: TokenBatch) -> Tensor:
        return batch.explained(self(batch.tokens))


def _rows(vectors: Tensor) -> Tensor:
    """Rearrange (H, S, M, B, k) to (S, B, H M, k), so that all toys of a stream share the read of a prompt."""
    return vectors.permute(1, 3, 0, 2, 4).flatten(2, 3)


def _heads(rows: Tensor, shape: torch.Size) -> Tensor:
    """Invert `_rows`, shape being that of its argument except for k."""
    heads, streams, slots, batch, _ = shape
    return rows.view(streams, batch, heads, slots, -1).permute(2, 0, 3, 1, 4)
