"""Cross-layer attention beside its substitutes, on the queries, keys and values of an unchanged model.

For each layer n from 2 on and an earlier layer m, the layer's own queries attend over both layers' keys and values, in
one softmax (ResFormer, section 3.2, Eqn. (2)).  Beside its output stand those of the current attention to the sum of
the values (Eqn. (3)), of the identity (Eqn. (6)), and of two that nobody proposes: even attention to the past, and
Eqn. (3) held against cross-layer attention with another sequence's keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from icl.models.projections import merged
from icl.probes.recording import Attended, observed

if TYPE_CHECKING:
    from icl.models.decoder import Decoder

SOURCES = ("previous", "first")  # the earlier layer: the one before, and layer 1
CURRENT, IDENTITY, EVEN, OTHER_TEXT = "current", "identity", "even", "other text"


@torch.no_grad()
def nearness(model: Decoder, inputs: Tensor) -> dict[str, dict[str, list[float]]]:
    """Return mean cosines with cross-layer attention, over tokens, all heads together, by source and mapping.

    Args:
        model: A model whose layers attend over their own keys and values.
        inputs: Tokens (B, T), B at least 2: sequences lend one another their keys for OTHER_TEXT.

    Returns:
        By source and mapping, one cosine for each layer from 2 on; 1 is nearest.
    """
    earlier: list[tuple[Tensor, Tensor]] = []  # keys and values
    found: dict[str, dict[str, list[float]]] = {source: {} for source in SOURCES}

    def see(at: Attended) -> None:
        at = replace(at, query=at.query.double(), keys=(at.keys[0].double(),), values=(at.values[0].double(),))
        for source, other in zip(SOURCES, (earlier[-1], earlier[0]) if earlier else (), strict=False):
            for name, cosine in cosines(at, *other).items():
                found[source].setdefault(name, []).append(cosine)
        earlier.append((at.keys[0], at.values[0]))

    observed(model, inputs, attention=see)
    return found


def cosines(at: Attended, keys: Tensor, values: Tensor) -> dict[str, float]:
    """Return by mapping the mean cosine of its output with cross-layer attention's.

    Args:
        at: A layer's attention.
        keys: Another layer's keys, (batch, G, T, width).
        values: Another layer's values, likewise.
    """
    own_keys, own_values = at.keys[0], at.values[0]
    v_n, v_m = (x.repeat_interleave(at.query.shape[1] // x.shape[1], dim=1) for x in (own_values, values))

    def over(*segments: Tensor) -> Tensor:
        return replace(at, keys=segments).weights()

    own, both = over(own_keys), torch.cat([v_n, v_m], dim=2)
    true, block = over(own_keys, keys) @ both, own @ (v_n + v_m) / 2
    past = torch.ones(at.tokens, at.tokens, dtype=own.dtype, device=own.device).tril()
    return {
        CURRENT: _cosine(block, true),
        IDENTITY: _cosine(own @ v_n + v_m, true),
        EVEN: _cosine(own @ v_n + past / past.sum(-1, keepdim=True) @ v_m, true),
        OTHER_TEXT: _cosine(block, over(own_keys, keys.roll(1, dims=0)) @ both),
    }


def _cosine(left: Tensor, right: Tensor) -> float:
    return float(torch.cosine_similarity(merged(left), merged(right), dim=-1).mean())
