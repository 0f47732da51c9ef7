"""A layer whose attention and feed-forward are one sublayer: both read the same input, and their outputs are added."""

from __future__ import annotations

from torch import Tensor, nn

from icl.models.attention import Attention
from icl.models.feed_forward import FeedForward
from icl.models.frame import Bank, Frame
from icl.models.latent import LatentAttention


class ParallelLayer(nn.ModuleDict):
    """Attention and feed-forward of one layer as one sublayer, x + attention(norm(x)) + feed_forward(norm(x)).

    The norm is attention's, and so are the scale of the sum and the residual map, where there are such.
    """

    def forward(self, x: Tensor, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """Return the sum of both outputs, (batch, T, d_model), and the bank for later layers."""
        attention, feed_forward = self["attention"], self["feed_forward"]
        assert isinstance(attention, Attention | LatentAttention)
        assert isinstance(feed_forward, FeedForward)
        normed = attention.norm(x)
        out, bank = attention.of_normed(normed, bank, frame)
        return attention.put_out(x, out + feed_forward.of_normed(normed)), bank
