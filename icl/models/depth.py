"""Depth rules: how a sublayer's input is made from the outputs before it.

A rule's state is a tuple of tensors of shape (batch, T, d_model), handed from sublayer to sublayer.  Sublayers are
counted from 0, and the read after the last one feeds the head.
"""

from __future__ import annotations

import functools

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
        weights = self.weights[len(finished) - 2].to(stream.dtype)
        mean = functools.reduce(torch.add, (a * x for a, x in zip(weights.unbind(), finished, strict=True)))
        return (*finished, mean)


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
        # One by one, not stacked: a backward pass then keeps the sources once, and not once for every read.
        parts = (
            (w[..., None].to(v.dtype) * v.unflatten(-1, (self.rule.heads, -1))).flatten(-2)
            for w, v in zip(weights, state, strict=True)
        )
        return functools.reduce(torch.add, parts)

    def _logits(self, sublayer: int, state: State) -> Tensor:
        """In float32 or better, as a softmax over time is computed."""
        if self.rule.query == "static":
            return self.logits[sublayer].T[:, None, None]
        exact = torch.promote_types(state[-1].dtype, torch.float32)
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
