"""Multi-head latent attention: keys and values made from a narrow latent, and one rotary key for all heads.

SkipV1Former, appendix B.2.  A plan's value map acts on the latent: slice h of n_heads stands in the place of head h's
value, so `skipv1` takes half of the latent from layer 1, before its norm.  A plan's keys are the rotary key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from icl.models.attention import Core
from icl.models.frame import Frame, norm
from icl.models.projections import Bank, Built, HeadLinear, MergeLinear, Projections, Reader, Segments, merged
from icl.models.rotary import Rotation
from theory.plans.architecture import Architecture
from theory.plans.mix import Kind, Mix
from theory.plans.plan import Plan, built


class LatentProjections(Projections):
    """Only the last `rope` numbers of a query are rotated; of the keys, all."""

    rope: int

    def rotate(self, kind: Kind, projected: Tensor, rotation: Rotation) -> Tensor:
        if kind == "k":
            return rotation(projected)
        content, rotary = projected.split([projected.shape[-1] - self.rope, self.rope], dim=-1)
        return torch.cat([content, rotation(rotary)], dim=-1)


class LatentAttention(nn.Module):
    """The attention sublayer of layer `layer` (from 1) under a plan, where the architecture has a latent."""

    def __init__(self, config: Architecture, plan: Plan, layer: int) -> None:
        super().__init__()
        assert config.latent is not None
        d, heads, width, latent = config.d_model, config.n_heads, config.width, config.latent
        everyone = range(1, heads + 1)
        row = plan.table[layer - 1]
        exist = built(plan)
        sizes: dict[Kind, tuple[int, int]] = {
            "q": (heads, width + latent.rope),
            "k": (1, latent.rope),
            "v": (heads, latent.width // heads),
        }
        self.projections = LatentProjections(d, plan, layer, sizes)
        self.projections.rope = latent.rope
        self.queries = Reader(tuple(everyone), tuple(head.query for head in row), exist)
        self.layer, self.heads = layer, row
        self.segments = self.attending(exist)
        self.norm = norm(config, d) if self.projections.kinds else nn.Identity()
        self.latent_norm = norm(config, latent.width, kind="none" if config.norm == "none" else "rms")
        self.key_up = HeadLinear(latent.width, heads, everyone, width, False)
        self.value_up = HeadLinear(latent.width, heads, everyone, width, False)
        self.output = MergeLinear(d, heads, everyone, width, config.bias) if plan.output_projection else None
        self.core = Core(config, plan)

    def attending(self, exist: Built) -> Segments:
        """As `Attention.attending`; keys are one for all heads."""
        shared: Built = {("k", n): (1,) for kind, n in exist if kind == "k"}
        everyone = tuple(range(1, len(self.heads) + 1))
        return [
            (
                Reader((1,), (_of_all_heads(self.heads[0].keys[i]),), shared),
                Reader(everyone, tuple(head.values[i] for head in self.heads), exist),
            )
            for i in range(len(self.heads[0].values))
        ]

    def forward(self, x: Tensor, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """(batch, T, d_model) and the bank -> the sublayer's output and the bank for later layers."""
        bank = self.projections(self.norm(x), bank, frame.rotation)
        segments, seen = (self.segments, bank) if frame.past is None else frame.past.attended(self.layer, bank)
        keys, values = zip(*(self._segment(k, v, seen, frame) for k, v in segments), strict=True)
        query = self.queries(bank, frame.learned)
        out = self.core(query, keys, values, frame)
        joined = merged(out) if self.output is None else self.output(out)
        return joined, self.projections.still_needed(bank)

    def _segment(self, key: Reader, value: Reader, bank: Mapping[str, Tensor], frame: Frame) -> tuple[Tensor, Tensor]:
        latent = self.latent_norm(merged(value(bank, frame.learned)))
        content = self.key_up(latent)
        rotary = key(bank, frame.learned).expand(-1, content.shape[1], -1, -1)
        return torch.cat([content, rotary], dim=-1), self.value_up(latent)


def _of_all_heads(mix: Mix) -> Mix:
    return Mix(tuple(replace(t, source=replace(t.source, head=1)) for t in mix.terms))
