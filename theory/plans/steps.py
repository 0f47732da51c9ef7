"""Steps of streams: what one sublayer reads of streams and writes to them, with which weights.  Standard library only.

`theory.plans.streams` makes a depth rule of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from theory.plans.mix import Learned

OUTPUT, INPUT = 0, -1  # in place of a stream: what the sublayer put out, and what it read (for its queries)
Form = Literal["linear", "tanh", "sigmoid", "relu", "sinkhorn", "softmax"]


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
                 and then of their rows, `rounds` times, which makes it doubly stochastic; softmax: of streams that
                 pass the map one by one, the exponentials over their sum over streams
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


def scalars(step: Step) -> Iterator[Weight]:
    """Yield the weights of a step's sums, and those in its gates."""
    yield from step.weights
    yield from (step.gates.learned if step.gates else ())
