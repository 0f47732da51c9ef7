"""Multi-head latent attention: keys and values made from a narrow latent, and one rotary key for all heads.

SkipV1Former, appendix B.2.  A plan's value map acts on the latent: slice h of n_heads stands in place of head h's
value, so `skipv1` takes half of the latent from layer 1, before its norm.  A plan's keys are the rotary key.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from icl.models.attention import Core
from icl.models.branch import Branch
from icl.models.frame import Bank, Frame, RMSNorm, norm
from icl.models.projections import HeadLinear, MergeLinear, Projections, by_head, merged
from icl.models.reading import Built, Reader, Segments
from icl.models.rotary import Rotation
from theory.plans.architecture import Architecture
from theory.plans.mix import Kind, Mix
from theory.plans.plan import Plan, built, learned_parameters


class LatentProjections(Projections):
    """Projections under a latent: only the last `rope` numbers of a query are rotated, and all numbers of the keys."""

    rope: int

    def rotate(self, kind: Kind, projected: Tensor, rotation: Rotation) -> Tensor:
        if kind == "k":
            return rotation(projected)
        content, rotary = projected.split([projected.shape[-1] - self.rope, self.rope], dim=-1)
        return torch.cat([content, rotation(rotary)], dim=-1)


class LatentAttention(Branch):
    """The attention sublayer of layer `layer` (from 1) under a plan, where the architecture has a latent."""

    def __init__(self, config: Architecture, plan: Plan, layer: int) -> None:
        super().__init__(config)
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
        self.learned = learned_parameters(plan)
        self.queries = Reader(tuple(everyone), tuple(head.query for head in row), exist, parameters=self.learned)
        self.layer, self.heads = layer, row
        self.segments = self.attending(exist)
        reads = self.projections.kinds or config.parallel
        self.norm = norm(config, d, config.sublayer_norm) if reads else nn.Identity()
        self.latent_norm = norm(config, latent.width, kind="none" if config.norm == "none" else "rms")
        self.key_up = HeadLinear(latent.width, heads, everyone, width, False)
        self.value_up = HeadLinear(latent.width, heads, everyone, width, False)
        self.output = MergeLinear(d, heads, everyone, width, config.bias) if plan.output_projection else None
        self.width, self.core = width, Core(config, plan)

    def attending(self, exist: Built) -> Segments:
        """Return readers as `Attention.attending` does; keys are one for all heads."""
        shared: Built = {("k", n): (1,) for kind, n in exist if kind == "k"}
        everyone = tuple(range(1, len(self.heads) + 1))
        return [
            (
                Reader((1,), (_of_all_heads(self.heads[0].keys[i]),), shared, parameters=self.learned),
                Reader(everyone, tuple(head.values[i] for head in self.heads), exist, parameters=self.learned),
            )
            for i in range(len(self.heads[0].values))
        ]

    def forward(self, x: Tensor, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """Return the sublayer's output and the bank for later layers.

        x: (batch, T, d_model).
        """
        out, bank = self.of_normed(self.norm(x), bank, frame)
        return self.put_out(x, out), bank

    def of_normed(self, x: Tensor, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """Return attention's output for a normed input, and the bank; arguments as those of `forward`."""
        frame = frame.of_layer(self.layer)
        bank = self.projections(x, bank, frame)
        segments, seen = (self.segments, bank) if frame.past is None else frame.past.attended(self.layer, bank)
        query = self.queries(bank, frame.learned)
        few = frame.past is not None and frame.see is None and self._absorbing_pays(x.shape[1])
        views = frame.past.views(self.layer) if few and frame.past is not None else None
        if views is not None:
            out = self._on_views(query, views, frame)
        else:
            made = [(self._latent(value, seen, frame), key(seen, frame.learned)) for key, value in segments]
            out = self._on_latents(query, made, frame) if few else self._on_heads(query, made, frame)
        joined = merged(out)
        joined = joined if self.output is None else self.output(joined)
        return joined, self.projections.still_needed(bank)

    def _latent(self, value: Reader, bank: Mapping[str, Tensor], frame: Frame) -> Tensor:
        """Return the normed latent, (batch, T, latent width)."""
        normed: Tensor = self.latent_norm(merged(value(bank, frame.learned)))
        return normed

    def _on_heads(self, query: Tensor, made: list[tuple[Tensor, Tensor]], frame: Frame) -> Tensor:
        """Attend with every head's keys and values made from the latents: (batch, heads, T, width)."""
        keys = [
            torch.cat([content, rotary.expand(-1, content.shape[1], -1, -1)], dim=-1)
            for content, rotary in ((by_head(self.key_up(latent), self.width), rotary) for latent, rotary in made)
        ]
        values = tuple(by_head(self.value_up(latent), self.width) for latent, _ in made)
        return self.core(query, tuple(keys), values, frame)

    def _on_latents(self, query: Tensor, made: list[tuple[Tensor, Tensor]], frame: Frame) -> Tensor:
        """Attend to the same result without widening any latent, for few queries against many latents.

        It uses <q, K c> = <K^T q, c> and sum_j s_j (V c_j) = V sum_j s_j c_j (DeepSeek-V2, section 2.1.2).
        """
        width = self.width
        content, rotary = query.split([width, query.shape[-1] - width], dim=-1)
        turned = torch.einsum("bhtw,hwl->bhtl", content, self._by_head(self.key_up))
        absorbed = torch.cat([turned, rotary], dim=-1)
        if not self.core.linear:  # scores are divided by the root of what a query has, which is not what it had
            absorbed = absorbed * (absorbed.shape[-1] / query.shape[-1]) ** 0.5
        keys = tuple(torch.cat([latent[:, None], of_position], dim=-1) for latent, of_position in made)
        # All heads' queries meet the same keys: as the queries of one head, for which nothing is copied.
        heads, visible = query.shape[1], frame.visible
        if visible is not None:
            visible = torch.cat([visible] * heads, dim=-2)
        one = replace(frame, visible=visible, causal=False)
        seen = self.core(absorbed.flatten(1, 2)[:, None], keys, tuple(latent[:, None] for latent, _ in made), one)
        return torch.einsum("bhtl,hwl->bhtw", seen[:, 0].unflatten(1, (heads, -1)), self._by_head(self.value_up))

    def _on_views(self, query: Tensor, views: list[tuple[slice, Tensor, Tensor]], frame: Frame) -> Tensor:
        """Attend as `_on_latents`, to latents as they lie in a cache, without a norm: none of them is copied.

        A norm divides a latent by one number, its RMS: scores and shares are divided by it instead.  Its gain, which
        is the same for all latents, goes to the queries and to what they get.
        """
        width, heads = self.key_up.width, query.shape[1]
        content, rotary = query.split([width, query.shape[-1] - width], dim=-1)
        turned = self._gained(content @ self._by_head(self.key_up)).flatten(1, 2)
        latents = [merged(slices) for _, _, slices in views]
        of_latents = turned.split([latent.shape[-1] for latent in latents], dim=-1)
        products = (part @ latent.mT for part, latent in zip(of_latents, latents, strict=True))
        scores, rms = functools.reduce(torch.add, products), self._rms(latents)
        scores = scores if rms is None else scores / rms
        scale = 1.0 if self.core.linear else query.shape[-1] ** -0.5
        keys = views[0][1][:, 0].mT
        scores = torch.baddbmm(scores.to(query.dtype), rotary.flatten(1, 2), keys, beta=scale, alpha=scale)
        shares = _shares(scores.unflatten(1, (heads, -1)), frame.visible, linear=self.core.linear).flatten(1, 2)
        shares = (shares if rms is None else shares / rms).to(query.dtype)
        parts = [shares @ latent for latent in latents]
        sums = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return self._gained(sums.unflatten(1, (heads, -1))) @ self._by_head(self.value_up).mT

    def _gained(self, x: Tensor) -> Tensor:
        """Return x, (..., latent width), times the gain of the latents' norm, if there is one."""
        return x * self.latent_norm.weight.to(x.dtype) if isinstance(self.latent_norm, RMSNorm) else x

    def _rms(self, latents: list[Tensor]) -> Tensor | None:
        """Return the RMS of latents whose parts are given, (batch, T, .) each: (batch, 1, T); None without a norm."""
        if not isinstance(self.latent_norm, RMSNorm):
            return None
        exact = torch.promote_types(latents[0].dtype, torch.float32)
        norms = (torch.linalg.vector_norm(latent, dim=-1, dtype=exact) for latent in latents)
        norm, size = functools.reduce(torch.hypot, norms), self.key_up.in_features
        eps = torch.finfo(exact).eps if self.latent_norm.eps is None else self.latent_norm.eps
        return torch.hypot(norm * size**-0.5, norm.new_full((), eps**0.5))[:, None]

    def _by_head(self, linear: HeadLinear) -> Tensor:
        """Return a projection by head: (heads, width, latent width)."""
        return linear.weight.unflatten(0, (len(linear.heads), linear.width))

    def _absorbing_pays(self, queries: int) -> bool:
        """Return whether `_on_latents` takes fewer FLOPs, where the maps from the latent are what their weights say.

        A latent is widened for 2 l w per head, or met by queries for 2 (l - w) more each.
        """
        if not all(type(part) is HeadLinear for part in (self.key_up, self.value_up)):
            return False
        width, latent = self.width, self.key_up.in_features
        return queries * (latent - width) < latent * width


def _shares(scores: Tensor, visible: Tensor | None, *, linear: bool) -> Tensor:
    """Return the weights that scores, (batch, heads, T, columns), give; 0 where nothing is visible."""
    if linear:
        return scores if visible is None else scores * visible
    if visible is None:
        return scores.softmax(-1)
    return scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~visible, 0)


def _of_all_heads(mix: Mix) -> Mix:
    return Mix(tuple(replace(t, source=replace(t.source, head=1)) for t in mix.terms))
