"""Attention over whatever a plan gives the heads: softmax or linear, grouped queries, dynamic values, pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from icl.models.branch import Branch
from icl.models.differential import PairDifference
from icl.models.dynamic_values import initial, revised
from icl.models.few_queries import blockwise
from icl.models.frame import Bank, Frame, for_queries, norm
from icl.models.position_bias import PositionBias
from icl.models.projections import (
    HeadLinear,
    MergeLinear,
    Projections,
    Read,
    by_head,
    gate_entry,
    head_sizes,
    merged,
    spread,
)
from icl.models.reading import Built, Reader, Segments
from theory.plans.architecture import Architecture, Tokens
from theory.plans.memory import QUERIES_AT_A_TIME
from theory.plans.plan import Plan, built, learned_parameters


class Attention(Branch):
    """The attention sublayer of layer `layer` (from 1) under a plan."""

    def __init__(self, config: Architecture, plan: Plan, layer: int) -> None:
        super().__init__(config)
        d, width, group = config.d_model, config.width, config.group
        live = plan.live(layer)
        heads = [plan.head(layer, h) for h in live]
        exist = built(plan)
        of_heads = partial(norm, config, width, kind="rms") if config.qk_norm else None
        stem = config.stem if isinstance(config.stem, Tokens) else None
        self.projections = Projections(
            d,
            plan,
            layer,
            head_sizes(config),
            group=group,
            bias=config.qkv_bias,
            norm=of_heads,
            stem=stem,
            rotated=config.rotates(layer),
        )
        gated = config.output_gate != "no"
        reads = self.projections.reads_input or plan.dynamic != "no" or gated or config.parallel
        self.norm = norm(config, d, config.sublayer_norm) if reads else nn.Identity()
        self.learned = learned_parameters(plan)
        self.queries = Reader(live, tuple(h.query for h in heads), exist, group, self.learned)
        self.layer, self.live, self.heads = layer, live, heads
        self.segments = self.attending(exist)
        besides = tuple(h.beside for h in heads)
        any_beside = any(m.terms for m in besides)
        self.beside = Reader(live, besides, exist, parameters=self.learned) if any_beside else None
        of_queries, of_keys = plan.gates
        self.query_gate = self.key_gate = None
        if of_queries:
            self.query_gate = HeadLinear(d, config.n_heads, spread(live, group), width, config.qkv_bias)
        if of_keys:
            self.key_gate = HeadLinear(d, config.kv_heads, live, width, config.qkv_bias)
        self.output_gate = None
        self.gates_per_head = 1 if config.output_gate == "head" else width
        if gated:
            self.output_gate = HeadLinear(d, config.n_heads, spread(live, group), self.gates_per_head, False)
        self.difference = PairDifference(config, layer) if config.differential else None
        has_bias = config.positions == "bias"
        self.position_bias = PositionBias(config.context, config.n_heads, spread(live, group)) if has_bias else None
        self.output = None
        if plan.output_projection:
            self.output = MergeLinear(d, config.n_heads, spread(live, group), width, config.bias)
        self.group, self.width, self.core = group, width, Core(config, plan)

    def attending(self, exist: Built) -> Segments:
        """Return readers of what the heads attend over, from a bank that holds these heads of its entries."""
        return [
            (
                Reader(self.live, tuple(head.keys[i] for head in self.heads), exist, parameters=self.learned),
                Reader(self.live, tuple(head.values[i] for head in self.heads), exist, parameters=self.learned),
            )
            for i in range(len(self.heads[0].values))
        ]

    def forward(self, x: Read, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """Return the sublayer's output and the bank for later layers.

        Args:
            x: (batch, T, d_model), or three of them, for queries, keys and values.
            bank: Outputs of this and earlier layers' projections.
            frame: What all layers share.
        """
        normed: Read = self.norm(x) if isinstance(x, Tensor) else (self.norm(x[0]), self.norm(x[1]), self.norm(x[2]))
        out, bank = self.of_normed(normed, bank, frame)
        return self.put_out(x if isinstance(x, Tensor) else x[0], out), bank

    def of_normed(self, inputs: Read, bank: Bank, frame: Frame) -> tuple[Tensor, Bank]:
        """Return attention's output for a normed input, and the bank; arguments as those of `forward`."""
        frame = frame.of_layer(self.layer)
        bank = self.projections(inputs, bank, frame)
        x = inputs if isinstance(inputs, Tensor) else inputs[0]
        query = self.queries(bank, frame.learned)
        segments, seen = (self.segments, bank) if frame.past is None else frame.past.attended(self.layer, bank)
        gates, bias = self._gates(x, frame), self._bias(x, frame)
        views = None
        if frame.past is not None and frame.see is None and self.difference is None:
            views = frame.past.views(self.layer)
        if views is None:
            keys, values = zip(*((k(seen, frame.learned), v(seen, frame.learned)) for k, v in segments), strict=True)
            if self.difference is not None:
                values = tuple(map(self.difference.values, values))
            out = self.core(query, keys, values, frame, gates, bias)
            out = out if self.difference is None else self.difference(out)
        else:
            out = torch.cat([self._piece(query, *view, frame, gates, bias) for view in views], dim=1)
        if self.output_gate is not None:
            out = out * by_head(self.output_gate(x), self.gates_per_head).sigmoid()
        if self.beside is not None:
            out = out + for_queries(self.beside(bank, frame.learned), out.shape[1])
        joined = merged(out)
        joined = joined if self.output is None else self.output(joined)
        return joined, self.projections.still_needed(bank)

    def _piece(
        self,
        query: Tensor,
        heads: slice,
        key: Tensor,
        value: Tensor,
        frame: Frame,
        gates: tuple[Tensor, ...],
        bias: Tensor | None,
    ) -> Tensor:
        """Return the outputs of some key/value heads' queries.

        This way the cache's entries are not put together for each of them.
        """
        those = slice(heads.start * self.group, heads.stop * self.group)
        of_these = tuple(gate[:, those if gate.shape[1] == query.shape[1] else heads] for gate in gates)
        return self.core(
            query[:, those], (key,), (value,), frame, of_these, None if bias is None else bias[..., those, :, :]
        )

    def _gates(self, x: Tensor, frame: Frame) -> tuple[Tensor, ...]:
        """Return the gates of dynamic values: the queries', and the keys' of all tokens attended over."""
        gates = () if self.query_gate is None else (by_head(self.query_gate(x), self.width),)
        if self.key_gate is None:
            return gates
        of_keys = by_head(self.key_gate(x), self.width)
        if frame.past is not None:
            of_keys = frame.past.extended(self.layer, gate_entry(self.layer), of_keys)
        return (*gates, of_keys)

    def _bias(self, x: Tensor, frame: Frame) -> Tensor | None:
        if self.position_bias is None:
            return None
        if frame.past is None:
            return self.position_bias(x.shape[1], frame.places)
        assert frame.places is not None
        return self.position_bias.towards(frame.places, frame.past.held(self.layer))


class Core(nn.Module):
    """Attention between its projections: no weights, but dropout, and a place for hooks."""

    def __init__(self, config: Architecture, plan: Plan) -> None:
        super().__init__()
        self.linear, self.dropout, self.dynamic = config.score == "linear", config.dropout, plan.dynamic

    def forward(
        self,
        query: Tensor,
        keys: tuple[Tensor, ...],
        values: tuple[Tensor, ...],
        frame: Frame,
        gates: tuple[Tensor, ...] = (),
        bias: Tensor | None = None,
    ) -> Tensor:
        """Attend, with shapes as in `attend`.

        gates: of dynamic values, (batch, H, T, width) and (batch, H / group, T, width).
        """
        dropout = self.dropout if self.training else 0.0

        def attended(*values: Tensor) -> Tensor:
            return attend(query, keys, values, frame, bias, linear=self.linear, dropout=dropout)

        match self.dynamic:
            case "gate":
                return attended(*values) * (1 + gates[0])
            case "initial":
                return attend_initial(query, keys[0], values[0], gates, frame, bias, dropout)
            case "revised":
                return revised(attended, values[0], *gates)
        return attended(*values)


def attend(
    query: Tensor,
    keys: tuple[Tensor, ...],
    values: tuple[Tensor, ...],
    frame: Frame,
    bias: Tensor | None = None,
    *,
    linear: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Return each query's values, weighted by one softmax (or none) over the keys of all segments.

    query (batch, H, T, width); keys and values, one per segment: (batch, H / group, T, width) -> (batch, H, T, value
    width).  There may be fewer values than keys, of which several then share one.  bias: (H, T, T) or (batch, H, T, T),
    added to the scores of every segment.
    """
    lists = len(keys)
    key, value = (x[0] if lists == 1 else torch.cat(x, dim=2) for x in (keys, values))
    visible, every = (x if x is None or lists == 1 else torch.cat([x] * lists, dim=-1) for x in (frame.visible, bias))
    causal = frame.causal and lists == 1
    if frame.backend is not None:
        return frame.backend(frame.layer, query, key, for_queries(value, key.shape[1]))
    if frame.see is not None:
        return _explicit(query, key, value, visible, every, linear=linear, dropout=dropout, see=frame.see)
    if linear or bias is not None or frame.explicit:  # fused kernels have a softmax, and not all a gradient of a bias
        some = partial(_explicit, linear=linear, dropout=dropout)
        return blockwise(some, (query,), (key, value), (visible, every), causal=causal)
    value = for_queries(value, key.shape[1])
    some = partial(_fused, dropout=dropout)
    mask = None if causal else visible
    if query.shape[2] <= QUERIES_AT_A_TIME or has_kernel(query, key, value, mask, dropout, causal=causal):
        return some(query, key, value, mask, causal=causal)
    return blockwise(some, (query,), (key, value), (visible,), causal=causal)


def has_kernel(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, dropout: float, *, causal: bool
) -> bool:
    """Return whether PyTorch has a kernel for this attention that does not make the weights of all pairs.

    Shapes as in `attend`; visible and causal as it passes them on.  On a GPU PyTorch itself answers, by the card, the
    dtype, the widths, and whether heads are grouped.  Elsewhere values must be as wide as queries, and dropout 0.
    """
    if not query.is_cuda:
        return query.shape[-1] == value.shape[-1] and dropout == 0
    cuda = torch.backends.cuda
    asked = cuda.SDPAParams(query, key, value, visible, dropout, causal, bool(query.shape[1] > key.shape[1]))
    return cuda.can_use_flash_attention(asked) or cuda.can_use_efficient_attention(asked)


def attend_initial(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    gates: tuple[Tensor, ...],
    frame: Frame,
    bias: Tensor | None,
    dropout: float,
) -> Tensor:
    """Attend with dynamic values of the initial form, which have no fused kernel.  Shapes as in `attend`."""

    def some(
        query: Tensor,
        gate: Tensor,
        key: Tensor,
        value: Tensor,
        key_gate: Tensor,
        visible: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        shares = weights(query, for_queries(key, query.shape[1]), visible, bias)
        if frame.see is not None:
            frame.see(shares)
        return initial(nn.functional.dropout(shares, dropout), gate, value, key_gate)

    query_gate, key_gate = gates
    of_keys, of_pairs = (key, value, key_gate), (frame.visible, bias)
    if frame.see is not None:
        return some(query, query_gate, *of_keys, *of_pairs)
    return blockwise(some, (query, query_gate), of_keys, of_pairs, causal=frame.causal)


def _explicit(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor | None,
    bias: Tensor | None,
    *,
    linear: bool,
    dropout: float,
    see: Callable[[Tensor], None] | None = None,
) -> Tensor:
    shares = weights(query, for_queries(key, query.shape[1]), visible, bias, linear=linear)
    if see is not None:
        see(shares)
    shares = shares if linear else nn.functional.dropout(shares, dropout)
    return shares @ for_queries(value, query.shape[1])


def _fused(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, *, dropout: float, causal: bool = False
) -> Tensor:
    # torch.jit.trace makes tensors of sizes, and a flag has to be a bool.
    grouped = bool(query.shape[1] > key.shape[1])
    return scaled_dot_product_attention(
        query, key, value, attn_mask=visible, dropout_p=dropout, is_causal=causal, enable_gqa=grouped
    )


def weights(
    query: Tensor, key: Tensor, visible: Tensor | None, bias: Tensor | None = None, *, linear: bool = False
) -> Tensor:
    """Return the weight of each key for each query: softmax's shares, or plain products; 0 where it is not visible.

    query (batch, H, Q, width), key (batch, H, K, width), visible (Q, K) or (batch, 1, Q, K), bias, which is added to
    the scores, (H, Q, K) or (batch, H, Q, K) -> (batch, H, Q, K).
    """
    scores = query @ key.mT
    scores = scores if linear else scores * query.shape[-1] ** -0.5
    scores = scores if bias is None else scores + bias
    if linear:
        return scores if visible is None else scores * visible
    if visible is None:
        return scores.softmax(dim=-1)
    # not -inf: a token that sees nothing gets zeros
    return scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(~visible, 0)
