"""A layer of a decoder as one module, all of which is computed when it is called.

    h = depth.read(i, state)            what the depth rule makes of the outputs so far
    out, bank = sublayer(h, bank)       a norm, then attention, which reads and fills the bank, or feed-forward
    state = depth.write(i, state, out)

So tools that work layer by layer can be applied from outside, to the decoder's `layers`: `fully_shard` (FSDP2), and
then to the decoder; PyTorch's wrapper or function for activation checkpointing; `torch.compile`.  State, bank and
frame go in and come out as tuples, dicts and dataclasses, in which such tools find the tensors.  What layers share, the
depth rule's weights among it, belongs to the decoder.

A compiler makes other code for every layer, as each has entries of its own in the bank, and all of it counts against
one limit, 8 by default: set `torch._dynamo.config.recompile_limit` to the number of layers, or more, as
`icl.training.compiling` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from icl.models.attention import Attention
from icl.models.depth import DepthRule
from icl.models.feed_forward import FeedForward
from icl.models.frame import Bank, Frame
from icl.models.latent import LatentAttention


class Layer(nn.ModuleDict):
    """The sublayers of one layer, `attention` and `feed_forward`, as far as it has them.

    first   the number of the first of them, from 0
    """

    def __init__(self, parts: Mapping[str, nn.Module], first: int) -> None:
        super().__init__(parts)
        self.first = first

    @property
    def sublayers(self) -> list[nn.Module]:
        """The modules that are called with what a sublayer reads, (batch, T, d_model), the bank and the frame."""
        return list(self.values())

    @property
    def weight_groups(self) -> list[nn.Module]:
        """The modules that hold the weights of one sublayer each."""
        return self.sublayers

    def forward(
        self, state: Any, bank: Bank, frame: Frame, *, depth: DepthRule, dropout: nn.Module
    ) -> tuple[Any, Bank]:
        """Return the depth rule's state and the bank for later layers.

        Args:
            state: The depth rule's state in front of this layer.
            bank: Outputs of earlier layers' projections.
            frame: What all layers share.
            depth: The decoder's depth rule.
            dropout: The decoder's dropout of outputs.
        """
        for step, sublayer in enumerate(self.sublayers, self.first):
            out, bank = sublayer(depth.read(step, state), bank, frame)
            state = depth.write(step, state, dropout(out))
        return state, bank


class ParallelLayer(Layer):
    """A layer whose attention and feed-forward are one sublayer: x + attention(norm(x)) + feed_forward(norm(x)).

    The norm is attention's, and so are the scale of the sum and the residual map, where there are such.
    """

    def __init__(self, parts: Mapping[str, nn.Module], first: int) -> None:
        super().__init__(parts, first)
        self.sum = ParallelSum()

    @property
    def sublayers(self) -> list[nn.Module]:
        return [self.sum]

    @property
    def weight_groups(self) -> list[nn.Module]:
        return [self]

    def forward(
        self, state: Any, bank: Bank, frame: Frame, *, depth: DepthRule, dropout: nn.Module
    ) -> tuple[Any, Bank]:
        out, bank = self.sum(
            depth.read(self.first, state),
            bank,
            frame,
            attention=self["attention"],
            feed_forward=self["feed_forward"],
        )
        return depth.write(self.first, state, dropout(out)), bank


class ParallelSum(nn.Module):
    """The one sublayer of a `ParallelLayer`: no weights, as they are its parts', but a place for hooks."""

    def forward(
        self, x: Tensor, bank: Bank, frame: Frame, *, attention: nn.Module, feed_forward: nn.Module
    ) -> tuple[Tensor, Bank]:
        """Return the sum of both outputs, (batch, T, d_model), and the bank for later layers."""
        assert isinstance(attention, Attention | LatentAttention)
        assert isinstance(feed_forward, FeedForward)
        normed = attention.norm(x)
        out, bank = attention.of_normed(normed, bank, frame)
        return attention.put_out(x, out + feed_forward.of_normed(normed)), bank
