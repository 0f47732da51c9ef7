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

from theory.errors import BadInput, field_problems
from theory.plans.depth import Depth, Start
from theory.plans.mix import Learned

OUTPUT, INPUT = 0, -1  # in place of a stream: what the sublayer put out, and what it read (for its queries)
Form = Literal["linear", "tanh", "sigmoid", "relu", "sinkhorn"]


@dataclass(frozen=True)
class Wide:
    """A learned weight for every coordinate of the width: one vector per name, wherever the rule uses it."""

    name: str
    start: float


@dataclass(frozen=True)
class Gate:
    """A weight that every token computes: number `place`, from 0, of the sublayer's gates."""

    place: int


Weight = float | Learned | Wide | Gate
Sum = tuple[tuple[Weight, int], ...]  # of streams, OUTPUT and INPUT
Write = tuple[int, Sum]  # a stream, and what it becomes


@dataclass(frozen=True)
class Group:
    """Gates that are made alike: scale * form(gain * product + bias) + base.

    count        how many, for every stream where streams pass the map one by one
    form         sinkhorn: a square matrix, row after row, whose exponentials are divided by the sums of their columns
                 and then of their rows, `rounds` times, which makes it doubly stochastic
    bias, base   first values of learned numbers, one for each gate; (): there are none
    """

    count: int
    form: Form = "linear"
    gain: float | Learned = 1.0
    bias: tuple[float, ...] = ()
    scale: float | Learned = 1.0
    base: tuple[float, ...] = ()
    rounds: int = 20


@dataclass(frozen=True)
class Gates:
    """Numbers that every token computes from streams, RMS-normed or as they are, before a sublayer.

    one_by_one   every stream passes the map by itself, and has gates of its own, stream after stream; else the streams
                 pass it side by side
    hidden       width of a hidden layer with GELU; 0: there is none
    random       the map starts at random; else at zero, so that gates start as their groups say
    """

    streams: tuple[int, ...]
    groups: tuple[Group, ...]
    one_by_one: bool = False
    normed: bool = True
    hidden: int = 0
    random: bool = False

    @property
    def passes(self) -> int:
        """The number of times that the map is applied."""
        return len(self.streams) if self.one_by_one else 1

    @property
    def outputs(self) -> int:
        """The numbers that the map puts out."""
        return sum(group.count for group in self.groups)

    @property
    def inputs(self) -> int:
        """The streams that the map takes in side by side."""
        return len(self.streams) // self.passes

    @property
    def count(self) -> int:
        return self.passes * self.outputs

    @property
    def offsets(self) -> tuple[float, ...]:
        """The first values of all biases and bases, group by group."""
        return tuple(start for group in self.groups for start in (*group.bias, *group.base))

    @property
    def learned(self) -> Iterator[Learned]:
        weights = (weight for group in self.groups for weight in (group.gain, group.scale))
        return (weight for weight in weights if isinstance(weight, Learned))


@dataclass(frozen=True)
class Step:
    """One sublayer: one input, or three, for queries, keys and values, and the streams that change after it."""

    reads: tuple[Sum, ...]
    writes: tuple[Write, ...] = ()
    gates: Gates | None = None

    @property
    def sums(self) -> Iterator[Sum]:
        yield from self.reads
        yield from (of_streams for _, of_streams in self.writes)

    @property
    def weights(self) -> Iterator[Weight]:
        return (weight for of_streams in self.sums for weight, _ in of_streams)


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
        return _new((w for w in _scalars(step) if isinstance(w, Learned)) for step in self.steps)

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
        problems = [*_ill_typed(self)] or [*_problems(self, layers, per_layer)]
        return (f"streams: {problem}" for problem in problems)

    def misfits(self, d: int, layers: int, per_layer: int) -> Iterator[str]:
        if len(self.steps) != layers * per_layer + 1:
            yield "streams: they are written for layers with a feed-forward, and this model's have none"

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
        """Count the sums that are more than a stream as it is, and the maps to gates."""
        sums = (of_streams for step in self.steps for of_streams in set(step.sums) if not _bare(of_streams))
        count = 2 * d * sum(len({stream for _, stream in of_streams}) for of_streams in sums)
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
        for i, step in enumerate(self.steps):
            reads = [streams[read[0][1]] if _bare(read) else (i, read) for read in step.reads]
            inputs.update(reads)
            sources = {**streams, INPUT: reads[0], OUTPUT: (i, OUTPUT)}
            for of_streams in step.sums:
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
        return {"copies": self.copies, "steps": [_step_content(step) for step in self.steps]}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        return cls(tuple(_read_step(step) for step in fields["steps"]), fields["copies"])


def _scalars(step: Step) -> Iterator[Weight]:
    yield from step.weights
    yield from (step.gates.learned if step.gates else ())


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


# --- what makes no sense ----------------------------------------------------------------------------------------------


def _ill_typed(rule: Streams) -> Iterator[str]:
    """Yield what is not of its type; nothing else is asked of such a rule."""
    if not isinstance(rule.steps, tuple) or not all(isinstance(step, Step) for step in rule.steps):
        yield "steps must be a tuple of Step(...)"
        return
    if not _whole(rule.copies, 1):
        yield f"copies must be a whole number from 1, got {rule.copies!r}"
    for i, step in enumerate(rule.steps):
        writes = step.writes if isinstance(step.writes, tuple) else (step.writes,)
        if not all(isinstance(write, tuple) and len(write) == 2 for write in writes):
            yield f"step {i}: a write is (stream, sum), got {step.writes!r}"
        elif not all(map(_is_sum, (*step.reads, *(of_streams for _, of_streams in writes)))):
            yield f"step {i}: a sum is a tuple of (weight, stream), weights fixed, Learned, Wide or Gate"
        if step.gates is not None:
            yield from (f"step {i}: {problem}" for problem in _ill_typed_gates(step.gates))


def _is_sum(of_streams: object) -> bool:
    if not isinstance(of_streams, tuple) or not all(isinstance(term, tuple) and len(term) == 2 for term in of_streams):
        return False
    return all(isinstance(stream, int) and isinstance(weight, Weight | int) for weight, stream in of_streams)


def _ill_typed_gates(gates: Gates) -> Iterator[str]:
    if not isinstance(gates, Gates):
        yield f"gates are Gates(...), not {gates!r}"
        return
    yield from field_problems(gates)
    for group in gates.groups:
        yield from field_problems(group)
        if not all(isinstance(weight, int | float | Learned) for weight in (group.gain, group.scale)):
            yield "a gain or a scale is a number or Learned"
        if not all(isinstance(start, int | float) for start in (*group.bias, *group.base)):
            yield "biases and bases are first values"


def _problems(rule: Streams, layers: int, per_layer: int) -> Iterator[str]:
    if len(rule.steps) != layers * per_layer + 1:
        yield f"{layers * per_layer + 1} steps are wanted, one a sublayer and one for the head, not {len(rule.steps)}"
        return
    there = set(range(1, rule.copies + 1))
    starts: dict[str, float] = {}
    for i, step in enumerate(rule.steps):
        for problem in _problems_of_step(step, there):
            yield f"step {i}: {problem}"
        if len(step.reads) != 1 and (len(step.reads) != 3 or i % per_layer or i == layers * per_layer):
            yield f"step {i}: one sum is read, or by attention three, for queries, keys and values"
        if i == layers * per_layer and step.writes:
            yield f"step {i}: after the head's read nothing is written"
        for weight in (*(w for w in step.weights if isinstance(w, Wide)), *_scalars(step)):
            if isinstance(weight, Learned | Wide):
                if not weight.name.isidentifier():
                    yield f"step {i}: a learned weight's name must be an identifier, got {weight.name!r}"
                if isinstance(weight, Learned) and weight != Learned(weight.name, weight.start, weight.shared):
                    yield f"step {i}: the learned weight {weight.name} is a number of its own, as it is, in streams"
                if starts.setdefault(weight.name, weight.start) != weight.start:
                    yield f"step {i}: the learned weight {weight.name} has two starting values"
        there |= {stream for stream, _ in step.writes}


def _problems_of_step(step: Step, there: set[int]) -> Iterator[str]:
    written = [stream for stream, _ in step.writes]
    if any(stream < 1 for stream in written) or len(set(written)) < len(written):
        yield "each stream is written once, and streams are counted from 1"
    count = step.gates.count if step.gates else 0
    for of_streams, sources in (
        *((read, there) for read in step.reads),
        *((of_streams, there | {OUTPUT, INPUT}) for _, of_streams in step.writes),
    ):
        if not of_streams:
            yield "a sum is of nothing"
        for weight, stream in of_streams:
            if stream not in sources:
                yield f"stream {stream} is not there"
            if isinstance(weight, Gate) and not 0 <= weight.place < count:
                yield f"there is no gate {weight.place}: there are {count}"
            start = weight.start if isinstance(weight, Learned | Wide) else weight
            if not isinstance(start, Gate) and not math.isfinite(start):
                yield f"the weight of stream {stream} is not finite"
    if step.gates:
        yield from _problems_of_gates(step.gates, there)


def _problems_of_gates(gates: Gates, there: set[int]) -> Iterator[str]:
    if not gates.streams or not set(gates.streams) <= there:
        yield f"gates are made from streams that are there, not from {gates.streams}"
    if gates.hidden < 0:
        yield f"a hidden layer's width must not be negative, got {gates.hidden}"
    if not gates.groups or any(group.count < 1 for group in gates.groups):
        yield "there are gates in every group"
    for group in gates.groups:
        factors = (weight.start if isinstance(weight, Learned) else weight for weight in (group.gain, group.scale))
        if not all(map(math.isfinite, (*factors, *group.bias, *group.base))):
            yield "gains, scales, biases and bases must be finite"
        if any(len(starts) not in (0, group.count * gates.passes) for starts in (group.bias, group.base)):
            yield f"there is a bias, or a base, for each of {group.count * gates.passes} gates or for none"
        if group.form == "sinkhorn" and (math.isqrt(group.count) ** 2 != group.count or not _whole(group.rounds, 1)):
            yield "a doubly stochastic matrix is square and takes a round"


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


# --- JSON -------------------------------------------------------------------------------------------------------------


def _step_content(step: Step) -> dict[str, Any]:
    content: dict[str, Any] = {"reads": [_sum_content(of_streams) for of_streams in step.reads]}
    if step.writes:
        content["writes"] = [[stream, _sum_content(of_streams)] for stream, of_streams in step.writes]
    if step.gates:
        groups = [{**vars(g), "gain": _number(g.gain), "scale": _number(g.scale)} for g in step.gates.groups]
        content["gates"] = {**vars(step.gates), "groups": groups}
    return content


def _sum_content(of_streams: Sum) -> list[list[Any]]:
    return [[_number(weight), stream] for weight, stream in of_streams]


def _number(weight: Weight) -> Any:
    match weight:
        case Learned(name, start):
            return {"learned": name, "start": start, **({"shared": True} if weight.shared else {})}
        case Wide(name, start):
            return {"wide": name, "start": start}
        case Gate(place):
            return {"gate": place}
    return weight


def _read_step(content: Mapping[str, Any]) -> Step:
    writes = tuple((stream, _read_sum(of_streams)) for stream, of_streams in content.get("writes", ()))
    gates = _read_gates(content["gates"]) if content.get("gates") else None
    return Step(tuple(map(_read_sum, content["reads"])), writes, gates)


def _read_gates(content: Mapping[str, Any]) -> Gates:
    groups = [
        Group(
            **{
                **group,
                **{name: _read_number(group[name]) for name in ("gain", "scale")},
                **_tuples(group, "bias base"),
            }
        )
        for group in content["groups"]
    ]
    return Gates(**{**content, "groups": tuple(groups), **_tuples(content, "streams")})


def _tuples(content: Mapping[str, Any], names: str) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(content[name]) for name in names.split()}


def _read_sum(terms: Sequence[Any]) -> Sum:
    return tuple((_read_number(weight), stream) for weight, stream in terms)


def _read_number(content: Any) -> Any:
    if not isinstance(content, Mapping):
        if not isinstance(content, int | float) or isinstance(content, bool):
            raise TypeError(f"a weight {content!r}")
        return content
    if "gate" in content:
        return Gate(content["gate"])
    if "wide" in content:
        return Wide(content["wide"], content["start"])
    return Learned(content["learned"], content["start"], content.get("shared", False))
