"""The sharpness of bounds on sublayers' outputs for given weights: typical, largest found, bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icl.probes.magnitude import AttentionWeights, FeedForwardWeights

if TYPE_CHECKING:
    from torch import Tensor

    from theory.attnres.sublayers import Activation

Weights = AttentionWeights | FeedForwardWeights


@dataclass(frozen=True)
class Sharpness:
    """Norms of a sublayer's output.

    typical   root mean square over random inputs; of attention, of tokens that see themselves alone
    random    the largest over random inputs
    largest   the largest found, by ascents on the input; of attention, with each head at a token of its own
    bound     the sharpest that theory has, from the weights
    """

    typical: float
    random: float
    largest: float
    bound: float

    @property
    def share(self) -> float:
        """The share of the bound that was found: 1 if it is attained."""
        return self.largest / self.bound


def sharpness(weights: Weights, *, starts: int = 200, steps: int = 100, draws: int = 200, seed: int = 0) -> Sharpness:
    """Measure how sharp the bounds on a sublayer's output are for its weights.

    Args:
        weights: as `icl.probes.magnitude.sublayer_weights` gives them; GELU where there is no gate.
        starts: of the ascents.
        steps: of each ascent.
        draws: random inputs.
        seed: of the starts and inputs.
    """
    import numpy as np

    from icl.probes.ascent import ascend
    from theory.attnres.quartic import gated_bound
    from theory.attnres.sublayers import attention_bound, feed_forward_bound

    d = weights.gain.size
    if isinstance(weights, AttentionWeights):
        heads = len(weights.value)
        alone = ascend(attention_output(weights, 1), d, np.sqrt(d), starts=draws, steps=0, seed=seed)
        # One input holds what all heads see, each part of it of a token's length.
        apart = ascend(attention_output(weights, heads), heads * d, 1.0, starts=starts, steps=steps, seed=seed)
        bound = attention_bound(weights.value, weights.output, weights.gain)
        return Sharpness(alone.typical, alone.largest, apart.largest, bound=bound)
    drawn = ascend(feed_forward_output(weights), d, np.sqrt(d), starts=draws, steps=0, seed=seed)
    found = ascend(feed_forward_output(weights), d, np.sqrt(d), starts=starts, steps=steps, seed=seed)
    parts = (weights.up, weights.down, weights.gain)
    bound = feed_forward_bound(None, *parts, "gelu") if weights.gate is None else gated_bound(weights.gate, *parts)
    return Sharpness(drawn.typical, drawn.largest, found.largest, bound=bound)


def attention_output(weights: AttentionWeights, tokens: int) -> Callable[[Tensor], Tensor]:
    """Return (n, tokens * d) -> (n, d): the output where all heads see one token, or head h sees token h alone.

    Each token's part is brought to the length sqrt d.
    """
    import torch

    value, output, gain = (torch.from_numpy(x) for x in (weights.value, weights.output, weights.gain))
    maps = output @ (value * gain)
    maps = maps.sum(0, keepdim=True) if tokens == 1 else maps
    d = gain.numel()

    def outputs(u: Tensor) -> Tensor:
        seen = u.view(len(u), tokens, d)
        seen = d**0.5 * seen / seen.norm(dim=-1, keepdim=True)
        return torch.einsum("hij,nhj->ni", maps, seen)

    return outputs


def feed_forward_output(weights: FeedForwardWeights, activation: Activation = "gelu") -> Callable[[Tensor], Tensor]:
    """Return (n, d) -> (n, d): the output for normed inputs u; ungated by GELU, or SiLU."""
    import torch
    from torch.nn.functional import gelu, silu

    up, down = torch.from_numpy(weights.up * weights.gain), torch.from_numpy(weights.down)
    gate = None if weights.gate is None else torch.from_numpy(weights.gate * weights.gain)

    def outputs(u: Tensor) -> Tensor:
        ups = u @ up.T
        if gate is not None:
            return (silu(u @ gate.T) * ups) @ down.T
        return (gelu(ups) if activation == "gelu" else silu(ups)) @ down.T

    return outputs
