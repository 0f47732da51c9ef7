"""Streams (`theory.plans.streams`): every sublayer reads sums of them, and writes sums to them.

All weights of one sublayer come from a few tensors: its learned numbers, the map to its gates, and the gates' offsets.
Gates and inputs of a sublayer are made when the streams before it are, and wait in the state for it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, rms_norm

from icl.models.projections import Read
from icl.models.weighted_sum import common, exact, weighted_together
from theory.errors import BadInput
from theory.plans.architecture import Architecture
from theory.plans.mix import Learned
from theory.plans.streams import INPUT, OUTPUT, Gate, Gates, Group, Streams, Sum, Weight, Wide


class Flow(NamedTuple):
    """The streams before a sublayer, by number, its gates, each (batch, T, 1), and its inputs, one or three."""

    streams: dict[int, Tensor]
    gates: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]


class StreamsDepth(nn.Module):
    """The streams of a rule; those that nothing reads any more are dropped.

    Parameters of step i, each called step_i, used in float32 or better: `weights`, its learned weights, `wide`, those
    for every coordinate, (weights, d), `map`, (gates, inputs), `hidden`, (hidden width, inputs), and `offsets`, what is
    added to gates.  A weight that several steps use is of the first.
    """

    def __init__(self, rule: Streams, config: Architecture) -> None:
        super().__init__()
        d, steps = config.d_model, range(len(rule.steps))
        self.rule, self.eps = rule, config.norm_eps
        self.unchanged, self.writes = _changes(rule)
        self.places = {w.name: (f"step_{i}", k) for i in steps for k, w in enumerate(rule.learned[i])}
        self.wide_places = {w.name: (f"step_{i}", k) for i in steps for k, w in enumerate(rule.wide[i])}
        gates = {f"step_{i}": step.gates for i, step in enumerate(rule.steps) if step.gates}
        self.weights = _empty({f"step_{i}": (len(rule.learned[i]),) for i in steps if rule.learned[i]})
        self.wide = _empty({f"step_{i}": (len(rule.wide[i]), d) for i in steps if rule.wide[i]})
        self.map = _empty({step: (g.outputs, g.hidden or g.inputs * d) for step, g in gates.items()})
        self.hidden = _empty({step: (g.hidden, g.inputs * d) for step, g in gates.items() if g.hidden})
        self.offsets = _empty({step: (len(g.offsets),) for step, g in gates.items() if g.offsets})

    def start(self, embedded: Tensor) -> Flow:
        return self._before(0, dict.fromkeys(range(1, self.rule.copies + 1), embedded))

    def read(self, sublayer: int, state: Flow) -> Read:
        first, *others = state.inputs
        return (first, others[0], others[1]) if others else first

    def write(self, sublayer: int, state: Flow, out: Tensor) -> Flow:
        writes = self.writes[sublayer]
        sources = {**state.streams, OUTPUT: out, INPUT: state.inputs[0]}
        streams = {number: state.streams[number] for number in self.unchanged[sublayer]}
        sums = self._sums([terms for terms, _ in writes], sources, state.gates)
        for (_, numbers), made in zip(writes, sums, strict=True):
            streams |= dict.fromkeys(numbers, made)
        return self._before(sublayer + 1, streams)

    def coefficients(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Return what every read is of the outputs, (batch or 1, T or 1, outputs) each; of three inputs the first.

        Args:
            outputs: The embedding and every sublayer's output, (batch, T, d) each, from which gates are made.

        Raises:
            BadInput: Where weights differ between the coordinates of a stream.
        """
        if self.wide:
            raise BadInput("weights for every coordinate make no one number of an output's share in a read")
        units = torch.eye(len(outputs), dtype=exact(outputs[0].dtype), device=outputs[0].device)[:, None, None]
        flow, known = self.start(outputs[0]), dict.fromkeys(range(1, self.rule.copies + 1), units[0])
        reads = []
        for i, step in enumerate(self.rule.steps):
            reads.append(self._sum(step.reads[0], known, flow.gates))
            if i + 1 < len(outputs):
                sources = {**known, OUTPUT: units[i + 1], INPUT: reads[-1]}
                known |= {stream: self._sum(terms, sources, flow.gates) for stream, terms in step.writes}
                flow = self.write(i, flow, outputs[i + 1])
        return reads

    def _before(self, i: int, streams: dict[int, Tensor]) -> Flow:
        """Return the state in front of step i."""
        step = self.rule.steps[i]
        gates = self._gates(f"step_{i}", step.gates, streams) if step.gates else ()
        return Flow(streams, gates, self._sums(step.reads, streams, gates))

    def _sums(
        self, sums: Sequence[Sum], sources: Mapping[int, Tensor], gates: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return weighted sums; several over the same sources are made together, with one gradient for each source."""
        numbers = {stream: None for terms in sums for _, stream in terms}
        alike = len(sums) > 1 and all({stream for _, stream in terms} == numbers.keys() for terms in sums)
        weights = [weight for terms in sums for weight, _ in terms]
        if not alike or any(isinstance(weight, Wide) for weight in weights) or not any(map(_is_made, weights)):
            return tuple(self._sum(terms, sources, gates) for terms in sums)
        taken = [sources[number] for number in numbers]
        dtype, shape = common(taken), taken[0].shape[:2] if gates else (1, 1)
        one = torch.ones((), dtype=exact(dtype), device=taken[0].device)
        rows = []
        for terms in sums:
            for number in numbers:
                weight = self._weight([w for w, stream in terms if stream == number], exact(dtype), gates)
                rows.append((one if weight is None else weight * one).expand(*shape, 1))
        stacked = torch.stack(rows).unflatten(0, (len(sums), len(numbers)))
        return weighted_together(stacked, taken, dtype)

    def _sum(self, terms: Sum, sources: Mapping[int, Tensor], gates: tuple[Tensor, ...]) -> Tensor:
        """Return a weighted sum, made in float32 or better where a weight is not 1, and rounded once."""
        if all(isinstance(weight, int | float) and weight == 1 for weight, _ in terms):
            return functools.reduce(torch.add, (sources[stream] for _, stream in terms))
        by_source: dict[tuple[int, bool], list[Weight]] = {}  # wide ones apart: they would make wide sums of others
        for weight, stream in terms:
            by_source.setdefault((stream, isinstance(weight, Wide)), []).append(weight)
        taken = [sources[stream] for stream, _ in by_source]
        dtype = common(taken)
        weights = [self._weight(several, exact(dtype), gates) for several in by_source.values()]
        products = (x.to(exact(dtype)) if w is None else w * x for w, x in zip(weights, taken, strict=True))
        return functools.reduce(torch.add, products).to(dtype)

    def _weight(self, weights: list[Weight], dtype: torch.dtype, gates: tuple[Tensor, ...]) -> Tensor | float | None:
        """Return a sum of weights, for (batch, T, d); None for 1."""
        if weights == [1]:
            return None
        fixed: float = sum(weight for weight in weights if isinstance(weight, int | float))
        others = [self._tensor(weight, gates).to(dtype) for weight in weights if not isinstance(weight, int | float)]
        if not others:
            return fixed
        total = functools.reduce(torch.add, others)
        return total + fixed if fixed else total

    def _tensor(self, weight: Learned | Wide | Gate, gates: tuple[Tensor, ...]) -> Tensor:
        match weight:
            case Learned(name):
                step, place = self.places[name]
                return self.weights[step][place]
            case Wide(name):
                step, place = self.wide_places[name]
                return self.wide[step][place]
            case Gate(place):
                return gates[place]

    def _gates(self, step: str, gates: Gates, streams: Mapping[int, Tensor]) -> tuple[Tensor, ...]:
        """Return a step's gates, each (batch, T, 1), in float32 or better."""
        sources = [streams[number] for number in gates.streams]
        dtype = exact(common(sources))
        with torch.autocast(sources[0].device.type, enabled=False):
            taken = [source.to(dtype) for source in sources]
            x = torch.stack(taken, -2) if gates.one_by_one else torch.cat(taken, -1)[..., None, :]
            if gates.normed:
                x = rms_norm(x, x.shape[-1:], None, self.eps)
            if gates.hidden:
                x = gelu(x @ self.hidden[step].to(dtype).T)
            products = (x @ self.map[step].to(dtype).T).split([group.count for group in gates.groups], -1)
            found = torch.cat(self._formed(step, gates, products), -1)  # (batch, T, passes, outputs)
        return found.flatten(-2).split(1, -1)

    def _formed(self, step: str, gates: Gates, products: tuple[Tensor, ...]) -> list[Tensor]:
        """Return scale * form(gain * product + bias) + base for every group of gates."""
        formed, start = [], 0

        def offset(like: Tensor, there: tuple[float, ...]) -> Tensor | float:
            nonlocal start
            if not there:
                return 0.0
            start += len(there)
            return self.offsets[step][start - len(there) : start].to(like.dtype).view(like.shape[-2:])

        for group, product in zip(gates.groups, products, strict=True):
            x = self._scaled(group.gain, product) + offset(product, group.bias)
            formed.append(self._scaled(group.scale, _form(group, x)) + offset(product, group.base))
        return formed

    def _scaled(self, factor: float | Learned, x: Tensor) -> Tensor:
        if isinstance(factor, Learned):
            return self._tensor(factor, ()).to(x.dtype) * x
        return x if factor == 1 else factor * x


def _changes(rule: Streams) -> tuple[list[list[int]], list[list[tuple[Sum, list[int]]]]]:
    """Return, for every sublayer, the streams that stay as they are, and the sums that it makes, each with its streams.

    Streams that nothing reads later are left out.
    """
    unchanged: list[list[int]] = []
    writes: list[list[tuple[Sum, list[int]]]] = []
    there = set(range(1, rule.copies + 1))
    for step, needed in zip(rule.steps, rule.needed[1:], strict=False):
        by_sum: dict[Sum, list[int]] = {}
        for stream, terms in step.writes:
            if stream in needed:
                by_sum.setdefault(terms, []).append(stream)
        written = {stream for stream, _ in step.writes}
        unchanged.append(sorted((there - written) & needed))
        writes.append(list(by_sum.items()))
        there = set(unchanged[-1]) | {stream for numbers in by_sum.values() for stream in numbers}
    return unchanged, writes


def _is_made(weight: Weight) -> bool:
    return not isinstance(weight, int | float)


def _form(group: Group, x: Tensor) -> Tensor:
    """Return what a group's form makes of x, (batch, T, streams that pass the map or 1, gates)."""
    match group.form:
        case "tanh":
            return x.tanh()
        case "sigmoid":
            return x.sigmoid()
        case "relu":
            return x.relu()
        case "sinkhorn":
            return doubly_stochastic(x, group.rounds)
        case "softmax":
            return x.softmax(-2)
    return x


def doubly_stochastic(logits: Tensor, rounds: int) -> Tensor:
    """Return exp(logits) with columns, then rows, divided by their sums, so many times (Sinkhorn and Knopp).

    logits (..., n * n), a matrix row after row -> the same shape.  In logarithms, where nothing overflows.
    """
    n = round(logits.shape[-1] ** 0.5)
    x = logits.unflatten(-1, (n, n))
    for _ in range(rounds):
        x = x - x.logsumexp(-2, keepdim=True)
        x = x - x.logsumexp(-1, keepdim=True)
    return x.exp().flatten(-2)


def _empty(shapes: Mapping[str, tuple[int, ...]]) -> nn.ParameterDict:
    return nn.ParameterDict({name: nn.Parameter(torch.empty(shape)) for name, shape in shapes.items()})
