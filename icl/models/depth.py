"""Depth rules: how a sublayer's input is made from the outputs before it.

A rule's state is a tuple of tensors of shape (batch, T, d_model), or of these and what belongs to them, handed from
sublayer to sublayer.  Sublayers are counted from 0, and the read after the last one feeds the head.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from icl.models.depth_attention import AttentionDepth, TwoPhases
from icl.models.depth_steps import FEW, stacked_reads
from icl.models.streams import StreamsDepth
from icl.models.weighted_sum import weighted_sum
from theory.plans.accounting import two_phases
from theory.plans.architecture import Architecture
from theory.plans.plan import Chain, DepthAttention, DepthAverage, Plan, Residual
from theory.plans.streams import Streams

State = tuple[Tensor, ...]


class DepthRule(Protocol):
    """A depth rule: sublayer i reads `read(i, state)`, and `write(i, state, out)` updates the rule's state.

    An attention may read three inputs, for its queries, keys and values.
    """

    def start(self, embedded: Tensor) -> Any: ...

    def read(self, sublayer: int, state: Any) -> Any: ...

    def write(self, sublayer: int, state: Any, out: Tensor) -> Any: ...


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
        return (*finished, weighted_sum(self.weights[len(finished) - 2][:, None, None, None], finished))


def depth_rule(config: Architecture, plan: Plan) -> DepthRule:
    """Return the module for a plan's depth rule."""
    match plan.depth:
        case Chain():
            return ChainDepth()
        case DepthAverage():
            return AverageDepth(config.n_layers, config.sublayers(plan) // config.n_layers)
        case DepthAttention() as rule:
            return (TwoPhases if two_phases(rule) else AttentionDepth)(rule, config, plan)
        case Streams() as streams:
            return StreamsDepth(streams, config)
        case Residual():
            return ResidualDepth()
    return plan.depth.module(config, plan)


def in_steps(rule: DepthRule, embedded: Tensor, steps: dict[Any, Any]) -> DepthRule:
    """Return the rule as it is read fastest for embedded tokens, (batch, T, d_model), that follow others in a cache.

    steps: what the cache remembers from step to step.
    """
    few = embedded.shape[:-1].numel() <= FEW and not torch.is_grad_enabled()
    if few and isinstance(rule, TwoPhases) and rule.rule.heads == 1:
        return stacked_reads(rule, embedded, steps)
    return rule
