"""The assumed-copy toy, as the paper writes it: tokens, the mask P and Eqns. (2) and (3) of SkipV1Former, appendix A.1.

This is the slow and literal twin.  `icl.toys.stacked` is the fast one, which trains many toys at once on their
prompts' second moments; `theory.toy.population` holds the loss that both are samples of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from theory.plans.heads import Head


@dataclass(frozen=True, eq=False)
class SecondLayer:
    """Weights of the second layer in the paper's names.  w_q, w_k, w_v: (H, d, d); readout (the paper's H): (d, d)."""

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    readout: Tensor

    def reduced(self, rank: int) -> tuple[Tensor, Tensor]:
        """Return (W^h, K^h) of the reduced form P = sum_h W^h G^h K^h A.

        W^h = H W_V^h, K^h = first columns of W_K^T W_Q.  Shapes (H, d, d) and (H, d, rank).  Only the first `rank`
        columns matter, because the query token ends in zeros.
        """
        return self.readout @ self.w_v, (self.w_k.mT @ self.w_q)[..., :rank]


def assumed_copy(tokens: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return TF_1(E) of Assumption 1.

    x_t stays, y_t becomes (A x_t ; B y_t), the query becomes (A x_{n+1} ; 0).  Shapes: tokens (batch, d, 2n+1), a
    (rank, d), b (d - rank, d) -> (batch, d, 2n+1).
    """
    x, y = tokens[..., 0::2], tokens[..., 1::2]
    top = a @ x
    u = torch.cat([top[..., :-1], b @ y], dim=-2)
    query = torch.cat([top[..., -1:], torch.zeros_like(tokens[..., : b.shape[0], -1:])], dim=-2)
    pairs = torch.stack([x[..., :-1], u], dim=-1).flatten(-2)
    return torch.cat([pairs, query], dim=-1)


def linear_attention(values: Tensor, stream: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Return W_V values P (stream^T W_K^T W_Q stream): one head of Eqn. (2), or of Eqn. (3) where values is the raw E.

    P keeps the 2n context tokens and drops the query from the sum.  Shapes: values and stream (batch, d, 2n+1),
    weights (d, d) -> (batch, d, 2n+1).
    """
    mask = torch.ones(stream.shape[-1], dtype=stream.dtype, device=stream.device)
    mask[-1] = 0
    scores = (w_k @ stream).mT @ (w_q @ stream)
    return w_v @ (values * mask) @ scores


def toy_output(tokens: Tensor, a: Tensor, b: Tensor, layer: SecondLayer, heads: Sequence[Head]) -> Tensor:
    """Return H E_out, the two-layer toy's output at every token; its last column predicts y_{n+1}.

    Shapes as in `assumed_copy`; returns (batch, d, 2n+1).
    """
    first = assumed_copy(tokens, a, b)
    out = sum(
        linear_attention(
            head.copied * first + head.raw * tokens, first, layer.w_q[h], w_k=layer.w_k[h], w_v=layer.w_v[h]
        )
        for h, head in enumerate(heads)
    )
    return layer.readout @ out


class Toy(nn.Module):
    """One toy in the theorem's variables A, B, W^h and K^h; `forward(tokens)` predicts y_{n+1}: (batch, d).

    The keys are the identity, W_Q = (K 0) and the readout is `scale` times it: every reduced model has such a form.
    `scale` 1/n gives `w` the units that it has in `icl.toys.stacked`.
    """

    def __init__(self, a: Tensor, b: Tensor, w: Tensor, k: Tensor, heads: Sequence[Head], scale: float = 1.0) -> None:
        super().__init__()
        self.heads, self.scale = tuple(heads), scale
        self.a, self.b, self.w, self.k = (nn.Parameter(x.clone()) for x in (a, b, w, k))

    def forward(self, tokens: Tensor) -> Tensor:
        d = tokens.shape[-2]
        eye = torch.eye(d, dtype=tokens.dtype, device=tokens.device)
        w_q = nn.functional.pad(self.k, (0, d - self.k.shape[-1]))
        layer = SecondLayer(w_q, eye.expand_as(self.w), self.w, readout=self.scale * eye)
        return toy_output(tokens, self.a, self.b, layer=layer, heads=self.heads)[..., -1]
