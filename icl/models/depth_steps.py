"""Attention over depth for a few tokens without gradients, as a decoder reads them one after the other.

There the time of a read is that of starting its operations.  So the sources lie one below the other in one tensor, and
a source that is written gets its logits for all reads by one product: a read is one softmax and one product.
"""

from __future__ import annotations

import torch
from torch import Tensor

from icl.models.depth_attention import TwoPhases
from icl.models.weighted_sum import exact

FEW = 32  # tokens


class StackedReads:
    """The reads of a rule with one head, equal to those of `TwoPhases` to rounding.

    It holds the state itself, and is for one forward pass: what comes out of `start` and `write` is a placeholder.
    """

    def __init__(self, depth: TwoPhases) -> None:
        self.block, self.eps, self.normed = depth.rule.block, depth.eps, depth.gain is not None
        self.queries = depth.query if depth.gain is None else depth.query * depth.gain
        self.sources = 1 + -(-(len(self.queries) - 1) // self.block)

    def start(self, embedded: Tensor) -> None:
        self.embedded, numbers = embedded, embedded.shape[-1]
        count, dtype = embedded.numel() // numbers, exact(embedded.dtype)
        self.queries = self.queries.to(dtype)
        self.values = embedded.new_empty(count, self.sources, numbers, dtype=dtype)
        self.logits = embedded.new_empty(count, self.sources, len(self.queries), dtype=dtype)
        self.least = embedded.new_full((1, 1), self.eps, dtype=dtype)
        self._put(0, embedded, added=False)

    def read(self, sublayer: int, state: None) -> Tensor:
        if sublayer == 0:
            return self.embedded
        count = 1 + -(-sublayer // self.block)
        weights = self.logits[:, :count, sublayer].softmax(-1)
        return torch.bmm(weights[:, None], self.values[:, :count]).view_as(self.embedded).to(self.embedded.dtype)

    def write(self, sublayer: int, state: None, out: Tensor) -> None:
        self._put(1 + sublayer // self.block, out, added=sublayer % self.block > 0)

    def _put(self, place: int, out: Tensor, *, added: bool) -> None:
        """Write or add an output to a source, and make its logits for every read."""
        value, logits = self.values[:, place], self.logits[:, place]
        flat = out.reshape(value.shape)
        if added:
            value += flat
        else:
            value.copy_(flat)
        products = value @ self.queries.T
        if self.normed:
            norm = torch.linalg.vector_norm(value, dim=-1, keepdim=True)
            products *= torch.addcmul(self.least, norm, norm, value=1 / value.shape[-1]).rsqrt_()
        logits.copy_(products)
