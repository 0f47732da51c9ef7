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

    A source v of width d stands with one number more behind it, sqrt(d eps): the norm of both together is sqrt(d) times
    its RMS, by which its logits are divided.  The queries are multiplied by sqrt(d).
    """

    def __init__(self, depth: TwoPhases) -> None:
        reads, self.width = depth.query.shape
        self.block, self.eps, self.normed = depth.rule.block, depth.eps, depth.gain is not None
        queries = depth.query if depth.gain is None else depth.query * depth.gain * self.width**0.5
        self.queries = queries.T  # (d, reads)
        self.sources = 1 + -(-(reads - 1) // self.block)

    def start(self, embedded: Tensor) -> None:
        self.embedded, dtype = embedded, exact(embedded.dtype)
        count, reads = embedded.numel() // self.width, self.queries.shape[1]
        self.queries = self.queries.to(dtype)
        beside = (self.width * self.eps) ** 0.5
        longer = embedded.new_full((count, self.sources, self.width + 1), beside, dtype=dtype)
        logits = embedded.new_empty(count, self.sources, reads, dtype=dtype)
        self.values = longer[..., :-1]
        self.longer_sources, self.value_sources = longer.unbind(1), self.values.unbind(1)
        self.logits_of_source, self.logits_of_read = logits.unbind(1), logits.unbind(2)
        self._put(0, embedded, added=False)

    def read(self, sublayer: int, state: None) -> Tensor:
        if sublayer == 0:
            return self.embedded
        count = 1 + -(-sublayer // self.block)
        weights = self.logits_of_read[sublayer].narrow(1, 0, count).softmax(-1)
        out = torch.bmm(weights.unsqueeze(1), self.values.narrow(1, 0, count))
        return out.view(self.embedded.shape).to(self.embedded.dtype)

    def write(self, sublayer: int, state: None, out: Tensor) -> None:
        self._put(1 + sublayer // self.block, out, added=sublayer % self.block > 0)

    def _put(self, place: int, out: Tensor, *, added: bool) -> None:
        """Write or add an output to a source, and make its logits for every read."""
        value, logits, flat = self.value_sources[place], self.logits_of_source[place], out.reshape(-1, self.width)
        if added:
            value += flat
        else:
            value.copy_(flat)
        if not self.normed:
            torch.mm(value, self.queries, out=logits)
            return
        norm = torch.linalg.vector_norm(self.longer_sources[place], dim=-1, keepdim=True)
        torch.div(torch.mm(value, self.queries), norm, out=logits)
