"""Streams: a depth rule as data.  Standard library only.

A stream is a vector of the model's width that every token carries from sublayer to sublayer.  Streams 1 to `copies`
start as the embedding.  A sublayer reads a weighted sum of streams; after it any stream becomes another sum, of streams
and of what the sublayer read and put out.  With x for stream 1, a residual network is

    Step(reads=(((1, 1),),), writes=((1, ((1, 1), (1, OUTPUT))),))        x <- x + f(x)

A stream that is not written is kept and costs nothing, and one that nothing reads any more is gone: so "all outputs so
far" are streams that are written once.  Weights are fixed, learned, or gates, which every token computes from streams.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

from theory.errors import BadInput
from theory.plans.depth import Depth, Start
from theory.plans.mix import Learned
from theory.plans.step_content import known, read_step, step_content
from theory.plans.step_problems import ill_typed, problems
from theory.plans.steps import INPUT, OUTPUT, Form, Gate, Gates, Group, Step, Sum, Weight, Wide, Write, scalars

# What a rule of one's own is written with.
__all__ = [
    "INPUT",
    "OUTPUT",
    "Form",
    "Gate",
    "Gates",
    "Group",
    "Step",
    "Streams",
    "Sum",
    "Weight",
    "Wide",
    "Write",
]


@dataclass(frozen=True)
class Streams(Depth):
    """Streams, and what every sublayer reads of them and writes to them.  Sums are of the streams before the sublayer.

    steps    one for every sublayer, and a last one, which reads for the head
    copies   streams that start as the embedding
    """

    steps: tuple[Step, ...]
    copies: int = 1

    @property
    def reads_apart(self) -> bool:
        return any(len(step.reads) > 1 for step in self.steps)

    @cached_property
    def needed(self) -> tuple[frozenset[int], ...]:
        """The streams that something reads, before every step."""
        needed: list[frozenset[int]] = []
        later: frozenset[int] = frozenset()
        for step in reversed(self.steps):
            written = {stream for stream, _ in step.writes if stream in later}
            used = {s for of_streams in step.reads for _, s in of_streams if s > 0}
            used |= {s for stream, of_streams in step.writes if stream in later for _, s in of_streams if s > 0}
            later = (later - written) | used | set(step.gates.streams if step.gates else ())
            needed.append(later)
        return tuple(reversed(needed))

    @cached_property
    def learned(self) -> tuple[tuple[Learned, ...], ...]:
        """The learned weights of every step, without those of steps before it."""
        return _new((w for w in scalars(step) if isinstance(w, Learned)) for step in self.steps)

    @cached_property
    def wide(self) -> tuple[tuple[Wide, ...], ...]:
        """The weights for every coordinate of every step, without those of steps before it."""
        return _new((w for w in step.weights if isinstance(w, Wide)) for step in self.steps)

    def words(self) -> str:
        counts = {len(needed) for needed in self.needed}
        most = max(counts)
        parts = [f"{'up to ' if len(counts) > 1 else ''}{most} stream{'s' if most > 1 else ''}"]
        gates = [step.gates for step in self.steps if step.gates]
        if gates:
            parts.append("weights of every token's own")
        elif any(self.learned) or any(self.wide):
            parts.append("learned weights")
        if any(group.form == "sinkhorn" for gate in gates for group in gate.groups):
            parts.append("a doubly stochastic mix")
        if self.reads_apart:
            parts.append("three inputs of an attention")
        return ", ".join(parts)

    def problems(self, layers: int, per_layer: int) -> Iterator[str]:
        found = [*ill_typed(self.steps, self.copies)]
        found = found or [*problems(self.steps, self.copies, layers=layers, per_layer=per_layer)]
        return (f"streams: {problem}" for problem in found)

    def misfits(self, d: int, layers: int, per_layer: int) -> Iterator[str]:
        if len(self.steps) != layers * per_layer + 1:
            whole = "attention and feed-forward as two sublayers, and each of this model's layers is one"
            yield f"streams: they are written for {whole}"

    @property
    def terms(self) -> tuple[int, ...]:
        return tuple(max(len({stream for _, stream in read}) for read in step.reads) for step in self.steps)

    def sources(self, after: int, per_layer: int) -> list[range]:
        """Raise BadInput: what a read weighs are streams."""
        raise BadInput("streams are read here, not outputs that a read weighs: this does not cover them")

    @cached_property
    def reach(self) -> tuple[Mapping[int, Literal["fixed", "learned", "gate"]], ...]:
        """The outputs that every read is a sum of, each with the most that is in its coefficient.

        A coefficient is fixed, learned, or, with a gate in it, every token's own.
        """
        streams: dict[int, dict[int, int]] = {stream: {0: 0} for stream in range(1, self.copies + 1)}
        found = []
        for i, step in enumerate(self.steps):
            read: dict[int, int] = {}
            for of_streams in step.reads:
                read = _most(read, _reached(of_streams, streams))
            found.append(read)
            sources = {**streams, OUTPUT: {i + 1: 0}, INPUT: _reached(step.reads[0], streams)}
            streams |= {stream: _reached(of_streams, sources) for stream, of_streams in step.writes}
        kinds: tuple[Literal["fixed", "learned", "gate"], ...] = ("fixed", "learned", "gate")
        return tuple({output: kinds[kind] for output, kind in read.items()} for read in found)

    def parameters(self, d: int, layers: int, per_layer: int) -> int:
        numbers = sum(map(len, self.learned)) + d * sum(map(len, self.wide))
        for gates in (step.gates for step in self.steps if step.gates):
            inner = gates.hidden or gates.inputs * d
            numbers += len(gates.offsets) + gates.outputs * inner + gates.hidden * gates.inputs * d
        return numbers

    def starts(self) -> Mapping[str, Start]:
        """Return the first values of all parameters, by name."""
        starts: dict[str, Start] = {}
        for i, step in enumerate(self.steps):
            for what, weights in (("weights", self.learned[i]), ("wide", self.wide[i])):
                if weights:
                    starts[f"{what}.step_{i}"] = tuple(weight.start for weight in weights)
            if step.gates:
                starts[f"map.step_{i}"] = None if step.gates.random else 0.0
                starts |= {f"offsets.step_{i}": step.gates.offsets} if step.gates.offsets else {}
                starts |= {f"hidden.step_{i}": None} if step.gates.hidden else {}
        return starts

    def flops(self, d: int, reads: Sequence[int]) -> int:
        """Count every read, what is weighed in the sums that are written and read later, and the maps to gates.

        Adding outputs to a stream as they are counts nothing more, as in `Residual`.
        """
        read = sum(len({s for _, s in of_streams}) for step in self.steps for of_streams in set(step.reads))
        written = sum(
            len({s for weight, s in of_streams if weight != 1})
            for step, later in zip(self.steps, self.needed[1:], strict=False)
            for of_streams in {of_streams for stream, of_streams in step.writes if stream in later}
        )
        count = 2 * d * (read + written)
        for gates in (step.gates for step in self.steps if step.gates):
            inner = gates.hidden or gates.inputs * d
            count += 2 * gates.passes * (gates.outputs * inner + gates.hidden * gates.inputs * d)
        return count

    def saved(self, d: int, layers: int, per_layer: int) -> int:
        """Count what learned weights and gates multiply, what gates are made from, and norms of further inputs."""
        streams: dict[int, object] = dict.fromkeys(range(1, self.copies + 1), "embedding")
        multiplied: set[object] = set()
        inputs: set[object] = set()
        numbers = 0
        for i, (step, later) in enumerate(zip(self.steps, (*self.needed[1:], frozenset()), strict=True)):
            reads = [streams[read[0][1]] if _bare(read) else (i, read) for read in step.reads]
            inputs.update(reads)
            sources = {**streams, INPUT: reads[0], OUTPUT: (i, OUTPUT)}
            written = (of_streams for stream, of_streams in step.writes if stream in later)
            for of_streams in (*step.reads, *written):
                multiplied.update(sources[s] for weight, s in of_streams if not isinstance(weight, int | float))
            streams |= {
                s: sources[of_streams[0][1]] if _bare(of_streams) else (i, of_streams) for s, of_streams in step.writes
            }
            numbers += 3 * d * (len(step.reads) - 1)
            if gates := step.gates:
                joined = gates.one_by_one or len(gates.streams) > 1
                if not joined:
                    multiplied.add(sources[gates.streams[0]])
                numbers += d * len(gates.streams) * (joined + gates.normed) + 2 * gates.passes * gates.hidden
                numbers += gates.passes * sum(map(_saved_by, gates.groups))
        return numbers + d * len(multiplied - inputs)

    def alive(self, reads: Sequence[int]) -> int:
        return max(map(len, self.needed))

    def to_json(self) -> dict[str, Any]:
        return {"copies": self.copies, "steps": [step_content(step) for step in self.steps]}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        known(fields, "copies steps", "a rule of streams")
        return cls(tuple(read_step(step) for step in fields["steps"]), fields["copies"])


def _new(by_step: Iterable[Iterable[Any]]) -> tuple[tuple[Any, ...], ...]:
    """Return every step's weights, each name where it stands first."""
    names: set[str] = set()
    found = []
    for weights in by_step:
        new = {weight.name: weight for weight in weights if weight.name not in names}
        names |= new.keys()
        found.append(tuple(new.values()))
    return tuple(found)


def _bare(of_streams: Sum) -> bool:
    """Return whether a sum is one stream as it is."""
    return len(of_streams) == 1 and of_streams[0][0] == 1


def _saved_by(group: Group) -> int:
    """Return the numbers that the forms of a group of gates keep: of a round, both sides' logarithms and their sums."""
    return 2 * group.rounds * (group.count + math.isqrt(group.count)) if group.form == "sinkhorn" else 3 * group.count


def _reached(of_streams: Sum, sources: Mapping[int, Mapping[int, int]]) -> dict[int, int]:
    reached: dict[int, int] = {}
    for weight, stream in of_streams:
        kind = 2 if isinstance(weight, Gate) else 1 if isinstance(weight, Learned | Wide) else 0
        reached = _most(reached, {output: max(kind, before) for output, before in sources[stream].items()})
    return reached


def _most(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {output: max(one.get(output, 0), other.get(output, 0)) for output in {**one, **other}}
