"""Problems of streams: values of wrong types, and steps that make no sense.  Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from theory.errors import field_problems
from theory.plans.mix import Learned, ill_typed_learned, is_number
from theory.plans.steps import INPUT, OUTPUT, Gate, Gates, Group, Step, Weight, Wide, scalars


def ill_typed(steps: object, copies: object) -> Iterator[str]:
    """Yield what is not of its type; nothing else can be asked of such steps."""
    if not isinstance(steps, tuple) or not all(isinstance(step, Step) for step in steps):
        yield "steps must be a tuple of Step(...)"
        return
    if not _is_whole(copies, least=1):
        yield f"copies must be a whole number from 1, got {_short(copies)}"
    for i, step in enumerate(steps):
        yield from (f"step {i}: {problem}" for problem in _ill_typed_step(step))


def _ill_typed_step(step: Step) -> Iterator[str]:
    if not isinstance(step.reads, tuple):
        yield f"reads are a tuple of sums, got {_short(step.reads)}"
        return
    if not isinstance(step.writes, tuple) or not all(isinstance(w, tuple) and len(w) == 2 for w in step.writes):
        yield f"a write is (stream, sum), got {_short(step.writes)}"
        return
    for stream, _ in step.writes:
        yield from _ill_typed_stream(stream)
    for of_streams in (*step.reads, *(of_streams for _, of_streams in step.writes)):
        yield from _ill_typed_sum(of_streams)
    if step.gates is not None:
        yield from _ill_typed_gates(step.gates)


def _ill_typed_stream(stream: object) -> Iterator[str]:
    if not _is_whole(stream):
        yield f"a stream is a whole number, got {_short(stream)}"


def _ill_typed_sum(of_streams: object) -> Iterator[str]:
    if not isinstance(of_streams, tuple) or not all(isinstance(term, tuple) and len(term) == 2 for term in of_streams):
        yield "a sum is a tuple of (weight, stream), weights fixed, Learned, Wide or Gate"
        return
    for weight, stream in of_streams:
        yield from _ill_typed_stream(stream)
        yield from _ill_typed_weight(weight)


def _ill_typed_weight(weight: object) -> Iterator[str]:
    if isinstance(weight, Learned):
        yield from ill_typed_learned(weight)
    elif isinstance(weight, Wide):
        if not isinstance(weight.name, str) or not is_number(weight.start):
            yield f"Wide has a name and a number to start at, got {_short(weight)}"
    elif isinstance(weight, Gate):
        if not _is_whole(weight.place):
            yield f"Gate has a whole number for its place, got {_short(weight.place)}"
    elif not is_number(weight):
        yield f"a sum is a tuple of (weight, stream), weights fixed, Learned, Wide or Gate, got {_short(weight)}"


def _ill_typed_gates(gates: object) -> Iterator[str]:
    if not isinstance(gates, Gates):
        yield f"gates are Gates(...), not {_short(gates)}"
        return
    yield from field_problems(gates)
    if not isinstance(gates.streams, tuple) or not all(map(_is_whole, gates.streams)):
        yield f"gates are made from a tuple of streams, got {_short(gates.streams)}"
    if not isinstance(gates.groups, tuple) or not all(isinstance(group, Group) for group in gates.groups):
        yield f"groups are a tuple of Group(...), got {_short(gates.groups)}"
        return
    for group in gates.groups:
        yield from field_problems(group)
        for weight in (group.gain, group.scale):
            if isinstance(weight, Learned):
                yield from ill_typed_learned(weight)
            elif not is_number(weight):
                yield "a gain or a scale is a number or Learned"
        for starts in (group.bias, group.base):
            if not isinstance(starts, tuple) or not all(map(is_number, starts)):
                yield f"biases and bases are first values, in a tuple, got {_short(starts)}"


def problems(steps: Sequence[Step], copies: int, *, layers: int, per_layer: int) -> Iterator[str]:
    """Yield why steps of the right types make no sense in a plan of so many layers, one reason per line."""
    if len(steps) != layers * per_layer + 1:
        if per_layer == 1 and len(steps) == 2 * layers + 1:
            yield "they are written for layers with a feed-forward, and those of this plan have none"
        else:
            yield f"{layers * per_layer + 1} steps are wanted, one a sublayer and one for the head, not {len(steps)}"
        return
    there = set(range(1, copies + 1))
    starts: dict[str, float] = {}
    for i, step in enumerate(steps):
        for problem in _problems_of_step(step, there):
            yield f"step {i}: {problem}"
        if len(step.reads) != 1 and (len(step.reads) != 3 or i % per_layer or i == layers * per_layer):
            yield f"step {i}: one sum is read, or by attention three, for queries, keys and values"
        if i == layers * per_layer and step.writes:
            yield f"step {i}: after the head's read nothing is written"
        for weight in (*(w for w in step.weights if isinstance(w, Wide)), *scalars(step)):
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
            if not _is_finite(weight):
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
        numbers = (group.gain, group.scale, *group.bias, *group.base)
        if not all(map(_is_finite, numbers)):
            yield "gains, scales, biases and bases must be finite"
        if any(len(starts) not in (0, group.count * gates.passes) for starts in (group.bias, group.base)):
            yield f"there is a bias, or a base, for each of {group.count * gates.passes} gates or for none"
        if group.form == "sinkhorn" and (
            math.isqrt(group.count) ** 2 != group.count or not _is_whole(group.rounds, least=1)
        ):
            yield "a doubly stochastic matrix is square and takes a round"
        if group.form == "softmax" and not gates.one_by_one:
            yield "a softmax is over streams that pass the map one by one"


def _is_finite(weight: Weight) -> bool:
    if isinstance(weight, Gate):
        return True
    return math.isfinite(weight.start if isinstance(weight, Learned | Wide) else weight)


def _is_whole(value: object, least: float = -math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _short(value: object) -> str:
    """Return a value as one line shows it."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:56]} ..."
