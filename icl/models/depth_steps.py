"""Attention over depth for a few tokens without gradients, as a decoder reads them one after the other.

There the time of a read is that of starting its operations.  So the sources lie one below the other in one tensor, and
a source that is written gets its logits for all reads by one product: a read is one softmax and one product.  The
tensors, and the views of them that every read and write needs, are made once for all steps of a cache.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from icl.models.depth_attention import TwoPhases
from icl.models.weighted_sum import exact

FEW = 32  # tokens


def stacked_reads(depth: TwoPhases, embedded: Tensor, steps: dict[Any, Any]) -> StackedReads:
    """Return the reads for embedded tokens, (batch, T, d_model), from `steps`, the memory of a cache, or new ones.

    They are new where the tokens are others in number or kind, and where the queries have changed.
    """
    queries = (depth.query, depth.gain)
    made_of: list[Hashable] = [(id(x), x.data_ptr(), x._version, x.dtype) for x in queries if x is not None]
    kind = (embedded.shape[:-1].numel(), embedded.dtype, embedded.device, torch.is_inference_mode_enabled(), *made_of)
    if steps.get("kind") != kind:
        steps.update(kind=kind, reads=StackedReads(depth, embedded))
    found: StackedReads = steps["reads"]
    return found


class StackedReads:
    """The reads of a rule with one head, equal to those of `TwoPhases` to rounding.

    It holds the state itself, of one forward pass at a time: what comes out of `start` and `write` is a placeholder.

    A source v of width d stands with one number more behind it, sqrt(d eps): the norm of both together is sqrt(d) times
    its RMS, by which its logits are divided.  The queries are multiplied by sqrt(d).
    """

    def __init__(self, depth: TwoPhases, embedded: Tensor) -> None:
        reads, self.width = depth.query.shape
        self.block, self.normed = depth.rule.block, depth.gain is not None
        dtype, count = exact(embedded.dtype), embedded.numel() // self.width
        queries = depth.query if depth.gain is None else depth.query * depth.gain * self.width**0.5
        self.queries = queries.T.to(dtype)  # (d, reads)
        sources = 1 + -(-(reads - 1) // self.block)
        beside = (self.width * depth.eps) ** 0.5
        longer = embedded.new_full((count, sources, self.width + 1), beside, dtype=dtype)
        logits = embedded.new_empty(count, sources, reads, dtype=dtype)
        values = longer[..., :-1]
        # By source: its value, the same and one number more, and its logits.
        self.places = list(zip(values.unbind(1), longer.unbind(1), logits.unbind(1), strict=True))
        # By read: the logits and the values of the sources before it.
        ends = [1 + -(-read // self.block) for read in range(reads)]
        self.reads = [(logits[:, None, :end, read], values[:, :end]) for read, end in enumerate(ends)]

    def start(self, embedded: Tensor) -> None:
        self.embedded, self.cast = embedded, embedded.dtype != self.queries.dtype
        self._put(0, embedded, added=False)

    def read(self, sublayer: int, state: None) -> Tensor:
        if sublayer == 0:
            return self.embedded
        logits, values = self.reads[sublayer]
        out = torch.bmm(logits.softmax(-1), values).view(self.embedded.shape)
        return out.to(self.embedded.dtype) if self.cast else out

    def write(self, sublayer: int, state: None, out: Tensor) -> None:
        self._put(1 + sublayer // self.block, out, added=sublayer % self.block > 0)

    def _put(self, place: int, out: Tensor, *, added: bool) -> None:
        """Write or add an output to a source, and make its logits for every read."""
        (value, longer, logits), flat = self.places[place], out.reshape(-1, self.width)
        if added:
            value += flat
        else:
            value.copy_(flat)
        if not self.normed:
            torch.mm(value, self.queries, out=logits)
            return
        norm = torch.linalg.vector_norm(longer, dim=-1, keepdim=True)
        torch.div(torch.mm(value, self.queries), norm, out=logits)
