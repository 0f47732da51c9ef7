"""Depth rules: how a sublayer's input is made from the outputs before it.

A rule's state is a tuple of tensors of shape (batch, T, d_model), handed from sublayer to sublayer.  Sublayers are
counted from 0, and the read after the last one feeds the head.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from theory.plans.accounting import depth_sources
from theory.plans.architecture import Architecture
from theory.plans.plan import Chain, DepthAttention, DepthAverage, Plan

State = tuple[Tensor, ...]


class ResidualDepth(nn.Module):
    """The residual stream: the state is the sum so far."""

    def start(self, embedded: Tensor) -> State:
        return (embedded,)

    def read(self, sublayer: int, state: State) -> Tensor:
        return state[-1]

    def write(self, sublayer: int, state: State, out: Tensor) -> State:
        return (state[0] + out,)


class ChainDepth(ResidualDepth):
    """No residual stream: the state is the newest output."""

    def write(self, sublayer: int, state: State, out: Tensor) -> State:
        return (out,)


class AverageDepth(ResidualDepth):
    """DenseFormer: after layer n, Y_n = sum_i a_{n,i} X_i.  The state is X_0 .. X_n and the stream Y_n."""

    def __init__(self, layers: int, per_layer: int) -> None:
        super().__init__()
        self.per_layer = per_layer
        self.weights = nn.ParameterList([nn.Parameter(torch.empty(n + 1)) for n in range(1, layers + 1)])

    def start(self, embedded: Tensor) -> State:
        return (embedded, embedded)

    def write(self, sublayer: int, state: State, out: Tensor) -> State:
        *finished, stream = state
        stream = stream + out
        if (sublayer + 1) % self.per_layer:
            return (*finished, stream)
        finished.append(stream)
        return (*finished, _weighted_sum(self.weights[len(finished) - 2][:, None], finished))


class AttentionDepth(nn.Module):
    """Attention Residuals.  The state is the embedding, the finished blocks, and the sum of the block under way if it
    has begun.

    Every read weighs these v_i by a softmax of <query, gain * v_i / rms(v_i)>; the gain belongs to the key norm.  With
    several heads, each weighs its part of the width by its part of that product.  With a window, older sources than it
    are dropped when they are no longer read.
    """

    def __init__(self, rule: DepthAttention, config: Architecture, plan: Plan) -> None:
        super().__init__()
        self.rule, self.eps = rule, config.norm_eps
        sources, d = depth_sources(config, plan), config.d_model
        if rule.query == "static":
            self.logits = nn.ParameterList([nn.Parameter(torch.empty(rule.heads, count)) for count in sources])
            return
        self.query = nn.Parameter(torch.empty(len(sources), d))
        self.gain = nn.Parameter(torch.empty(len(sources), d)) if rule.key_norm else None
        self.matrix = nn.Parameter(torch.empty(len(sources), d, d)) if rule.query == "input" else None

    def start(self, embedded: Tensor) -> State:
        return (embedded,)

    def write(self, sublayer: int, state: State, out: Tensor) -> State:
        if sublayer % self.rule.block:
            return (*state[:-1], state[-1] + out)
        window = self.rule.window
        kept = state[1:] if window is None else state[max(1, len(state) + 1 - window) :]
        return (state[0], *kept, out)

    def read(self, sublayer: int, state: State) -> Tensor:
        logits = self._logits(sublayer, state)  # (sources, batch, T, heads), or (sources, 1, 1, heads)
        weights = logits.softmax(0) if self.rule.score == "softmax" else logits.sigmoid()
        return _weighted_sum(weights[..., None], [v.unflatten(-1, (self.rule.heads, -1)) for v in state]).flatten(-2)

    def _logits(self, sublayer: int, state: State) -> Tensor:
        """In float32 or better, as a softmax over time is computed."""
        if self.rule.query == "static":
            return self.logits[sublayer].T[:, None, None].to(_exact(self.logits[sublayer].dtype))
        exact = _exact(state[-1].dtype)
        query = self.query[sublayer].to(exact)
        if self.matrix is not None:
            newest = state[-1].to(exact)
            query = query + rms_norm(newest, newest.shape[-1:], None, self.eps) @ self.matrix[sublayer].to(exact).T
        if self.gain is not None:
            query = query * self.gain[sublayer].to(exact)
        return torch.stack([self._logit(query, v.to(exact)) for v in state])

    def _logit(self, query: Tensor, v: Tensor) -> Tensor:
        products = (query * v).unflatten(-1, (self.rule.heads, -1)).sum(-1)
        if self.gain is None:
            return products
        return products * (v.square().mean(-1, keepdim=True) + self.eps).rsqrt()


def _exact(dtype: torch.dtype) -> torch.dtype:
    """Float32, or float64 where that is what comes."""
    return torch.promote_types(dtype, torch.float32)


def _weighted_sum(weights: Tensor, sources: Sequence[Tensor]) -> Tensor:
    """sum_i weights[i] * sources[i], summed in float32 or better and rounded once, to the dtype of the sources.

    The weights of a source need a dimension: a product with a number takes the source's dtype, whatever the number's.
    One by one, not stacked: a backward pass then keeps the sources once, in their own dtype, and not once for every
    read.
    """
    dtype = functools.reduce(torch.promote_types, (v.dtype for v in sources))
    weights = weights.to(_exact(dtype))
    parts = (w * v for w, v in zip(weights.unbind(), sources, strict=True))
    return functools.reduce(torch.add, parts).to(dtype)


def depth_rule(config: Architecture, plan: Plan) -> ResidualDepth | AttentionDepth:
    """The module for a plan's depth rule."""
    match plan.depth:
        case Chain():
            return ChainDepth()
        case DepthAverage():
            return AverageDepth(config.n_layers, config.sublayers(plan) // config.n_layers)
        case DepthAttention() as rule:
            return AttentionDepth(rule, config, plan)
    return ResidualDepth()
