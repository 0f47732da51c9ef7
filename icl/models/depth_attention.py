"""Attention Residuals: every sublayer reads a softmax over the outputs before it, or over the sums of blocks of them.

`AttentionDepth` computes that as it is written, again at every read.  `TwoPhases` uses that queries are parameters
(Attention Residuals, section 4.1; `theory.attnres.two_phase`).  When a source v_i is complete, its logits for *all*
reads to come are one matrix product,
    logit_{l,i} = <q_l, v_i> / rms(v_i),    q_l the query of read l times the gain of its keys;
a sum under way, whose logits change with every output that is added, has them for the next read alone.  Then
    phase 1   at the start of a block, or of some sublayers of the Full form, all their reads weigh the sources so far
              together: of each a part, and its log mass;
    phase 2   a read weighs its part, whose logit is its log mass, and what has been written since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from icl.models.weighted_sum import common, exact, weighted_sum, weighted_together
from theory.plans.accounting import depth_sources, reads_together
from theory.plans.architecture import Architecture
from theory.plans.depth import DepthAttention
from theory.plans.plan import Plan


class _OverDepth(nn.Module):
    """Parameters of attention over depth.  The state: the embedding, the finished blocks, and the sum of a begun block.

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


class AttentionDepth(_OverDepth):
    """Attention over depth as the paper writes it: every read takes every source."""

    def start(self, embedded: Tensor) -> tuple[Tensor, ...]:
        return (embedded,)

    def write(self, sublayer: int, state: tuple[Tensor, ...], out: Tensor) -> tuple[Tensor, ...]:
        if sublayer % self.rule.block:
            return (*state[:-1], state[-1] + out)
        window = self.rule.window
        kept = state[1:] if window is None else state[max(1, len(state) + 1 - window) :]
        return (state[0], *kept, out)

    def read(self, sublayer: int, state: tuple[Tensor, ...]) -> Tensor:
        return weighted_sum(self.weights(sublayer, state), state)

    def weights(self, sublayer: int, state: tuple[Tensor, ...]) -> Tensor:
        """Return the weights of the sources in `state`, in float32 or better.

        Returns:
            (sources, batch, T, heads), or (sources, 1, 1, heads).
        """
        logits = self._logits(sublayer, state)
        return logits.softmax(0) if self.rule.score == "softmax" else logits.sigmoid()

    def _logits(self, sublayer: int, state: tuple[Tensor, ...]) -> Tensor:
        """Return logits in the shapes of `weights`; in float32 or better, as for a softmax over time."""
        if self.rule.query == "static":
            return self.logits[sublayer].T[:, None, None].to(exact(self.logits[sublayer].dtype))
        accurate = exact(state[-1].dtype)
        with torch.autocast(state[-1].device.type, enabled=False):
            query = self.query[sublayer].to(accurate)
            if self.matrix is not None:
                newest = rms_norm(state[-1].to(accurate), state[-1].shape[-1:], None, self.eps)
                query = query + newest @ self.matrix[sublayer].to(accurate).T
            if self.gain is not None:
                query = query * self.gain[sublayer].to(accurate)
            return torch.stack([self._logit(query, v.to(accurate)) for v in state])

    def _logit(self, query: Tensor, v: Tensor) -> Tensor:
        products = (query * v).unflatten(-1, (self.rule.heads, -1)).sum(-1)
        if self.gain is None:
            return products
        return products * (v.square().mean(-1, keepdim=True) + self.eps).rsqrt()


class Source(NamedTuple):
    """A source: value (batch, T, d_model); logits (batch, T, heads) for read number `first` and those after it."""

    value: Tensor
    first: int
    logits: Sequence[Tensor]


class Phase(NamedTuple):
    """The sources of one phase.

    earlier: sources from before the phase; parts: what each of its reads makes of these, and their log mass, which is
    that part's logit; since: sources that were written since.
    """

    earlier: tuple[Source, ...]
    parts: Sequence[tuple[Tensor, Tensor]]
    since: tuple[Source, ...]


class TwoPhases(_OverDepth):
    """Attention over depth in two phases, equal to `AttentionDepth` to rounding.

    It is for a softmax with learned queries that do not depend on the input, and without a window.
    """

    def __init__(self, rule: DepthAttention, config: Architecture, plan: Plan) -> None:
        super().__init__(rule, config, plan)
        self.together = reads_together(rule, len(self.query))

    def start(self, embedded: Tensor) -> Phase:
        return self._phase((self._source(embedded, 0, len(self.query)),), 0)

    def write(self, sublayer: int, state: Phase, out: Tensor) -> Phase:
        first, under_way = sublayer + 1, sublayer % self.rule.block
        value = state.since[-1].value + out if under_way else out
        last = first + 1 if first % self.rule.block else len(self.query)
        since = (*(state.since[:-1] if under_way else state.since), self._source(value, first, last))
        if first % self.together:
            return Phase(state.earlier, state.parts, since)
        return self._phase((*state.earlier, *since), first)

    def read(self, sublayer: int, state: Phase) -> Tensor:
        dtype = common([source.value for source in (*state.earlier, *state.since)])
        part, mass = state.parts[sublayer % self.together]
        if not state.since:
            return part.to(dtype)
        weights = torch.stack([mass, *(source.logits[sublayer - source.first] for source in state.since)]).softmax(0)
        return weighted_together(weights[None], [part, *(source.value for source in state.since)], dtype)[0]

    def _phase(self, sources: tuple[Source, ...], first: int) -> Phase:
        """Return the phase of the reads from `first` on."""
        reads = range(first, min(first + self.together, len(self.query)))
        if len(sources) == 1:
            (only,) = sources
            # A tensor of its own, so that its gradient is this read's alone.
            return Phase(sources, [(only.value.view_as(only.value), only.logits[read]) for read in reads], ())
        values = [source.value for source in sources]
        logits = torch.stack([torch.stack([x.logits[read - x.first] for x in sources]) for read in reads])
        parts = weighted_together(logits.softmax(1), values, exact(common(values)))
        return Phase(sources, list(zip(parts, logits.logsumexp(1), strict=True)), ())

    def _source(self, value: Tensor, first: int, last: int) -> Source:
        """Return a source with its logits for the reads from `first` to before `last`."""
        accurate = exact(value.dtype)
        with torch.autocast(value.device.type, enabled=False):
            queries = self.query[first:last].to(accurate)
            if self.gain is not None:
                queries = queries * self.gain[first:last].to(accurate)
            parts = (x.unflatten(-1, (self.rule.heads, -1)) for x in (value.to(accurate), queries))
            logits = torch.einsum("bthw,rhw->btrh", *parts)
            if self.gain is not None:
                square = torch.linalg.vector_norm(value, dim=-1, dtype=accurate).square() / value.shape[-1]
                logits = logits * (square + self.eps).rsqrt()[..., None, None]
        return Source(value, first, logits.unbind(2))


R = TypeVar("R", bound=AttentionDepth)


def read_as(kind: type[R], depth: TwoPhases, config: Architecture, plan: Plan) -> R:
    """Return the same rule with the same parameters and reads of another kind, such as `AttentionDepth`."""
    with torch.device("meta"):
        twin = kind(depth.rule, config, plan)
    for name, parameter in depth.named_parameters():
        setattr(twin, name, parameter)
    return twin
