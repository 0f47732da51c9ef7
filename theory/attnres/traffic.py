"""Memory traffic of depth rules, in vectors of d numbers per token, counted by running them.

What counts.  A vector that an algorithm takes from memory is one read, one that it puts there one write; logits and log
masses are not counted.  What a sublayer does is its own: it writes its output, and *what it reads is handed over* to
it, in registers, by whoever made it (the norm before it is fused).  Where that is put into memory first, every rule but
the residual stream, which is in memory anyway, has one write a sublayer more.  The last read is left out.

    residual           stream and output are read, the stream is written: 3 a sublayer.
    naive Full         every read takes every source: l at sublayer l, (L + 1) / 2 in the mean.
    naive Block        every read takes the embedding, the blocks that are complete, and the partial sum; adding an
                       output to the sum takes 3, but for the first of a block, which is the sum.
    two phases, Full   Phase 1, at the start of a block of S: each earlier source is read once, S parts are written.
                       Phase 2: sublayer j of the block reads its part and the j - 1 outputs since.
    two phases, Block  Phase 1 as above, for the embedding and complete blocks.  Phase 2: sublayer j reads its part, and
                       from j = 2 the output before it, from j = 3 also the partial sum, which it writes with that
                       output added.  The last sublayer adds its own output, too: 3 more, for S >= 2.

Closed forms (`mean_traffic`), L = N S sublayers in N blocks, b = 0 .. N - 1 counting the blocks before:
    naive Full         sublayer l: l,                                        mean (L + 1) / 2;
    naive Block                                                              mean (N + 1) / 2 + 4 - 4 / S;
    two phases, Full   sublayer j of block b: (b S + 1) / S + 2 + (j - 1),   mean (N + S) / 2 + 1 + 1 / S;
    two phases, Block  sublayers 3 to S - 1: (b + 1) / S + 5,                mean (N + 1) / (2 S) + 5 - 2 / S, S >= 2.

The paper (Table 1) prints S + N and N / S + 5, averaged over a block's "N" layers (there are S).  By the count above
the first is the last sublayer of the last block, but for the embedding's 1 / S; the second is the later sublayers of
the last block.  So both are what a late sublayer costs, not a mean.  By phase it prints, for Full, N - 1 read, 1
written and S - 1 read, 1 written: phase 2 then writes what the sublayer reads, but never reads what phase 1 has written
for it; with both it is one more.  So is Block with both the sum and what the sublayer reads written; the paper has one
of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from theory.attnres.two_phase import Array, Part, Sublayer, attend, merge
from theory.errors import BadInput, InvalidSize, at_least
from theory.plans.suggestions import unknown


class Memory:
    """Vectors by name, and the numbers of reads and writes for each sublayer."""

    def __init__(self, sublayers: int) -> None:
        self.counts = [Fraction(0)] * sublayers
        self.charged = range(1)  # the sublayers for which it is done, in equal shares
        self._vectors: dict[str, Array] = {}

    def put(self, name: str, vector: Array) -> None:
        """Store a vector that a sublayer writes, or that exists before all; not counted."""
        self._vectors[name] = vector

    def rename(self, old: str, new: str) -> None:
        """Rename a vector, which moves nothing."""
        self._vectors[new] = self._vectors.pop(old)

    def read(self, *names: str) -> Array:
        self._count(len(names))
        return np.stack([self._vectors[name] for name in names])

    def write(self, name: str, vector: Array) -> None:
        self._count(1)
        self._vectors[name] = vector

    def add(self, output: str, total: str) -> Array:
        """Add the output to the total in memory, forget the output, and return the total."""
        self.write(total, self.read(total, output).sum(axis=0))
        del self._vectors[output]
        return self._vectors[total]

    def handed(self, name: str) -> Array:
        """Return a vector that a sublayer takes from memory itself; not counted."""
        return self._vectors[name]

    def _count(self, vectors: int) -> None:
        for sublayer in self.charged:
            self.counts[sublayer] += Fraction(vectors, len(self.charged))


class Schedule(ABC):
    """A schedule: what sublayers, from 0, are handed, and where their outputs go.  Output 0 is the embedding.

    queries (sublayers, d); block: sublayers per block, of which the last may have fewer.
    """

    def __init__(self, memory: Memory, queries: Array, block: int, eps: float) -> None:
        self.memory, self.queries, self.block, self.eps = memory, queries, block, eps

    @abstractmethod
    def hand(self, sublayer: int) -> Array:
        """Return what the sublayer reads."""

    def take(self, sublayer: int) -> None:  # noqa: B027 - an output may stay where it is
        """Process a sublayer's output, which is in memory under the name of sublayer + 1."""

    def _attend(self, sublayer: int, sources: Array) -> Part:
        return attend(self.queries[sublayer], sources, self.eps)

    def _complete(self, sublayer: int) -> list[str]:
        """Return the names of the embedding and of the sums of complete blocks."""
        return ["0", *(f"block {b}" for b in range(sublayer // self.block))]

    def _sum(self, sublayer: int) -> None:
        """Add an output to the sum of its block."""
        if sublayer % self.block == 0:
            self.memory.rename(str(sublayer + 1), "sum")
        else:
            self.memory.add(str(sublayer + 1), "sum")
        if (sublayer + 1) % self.block == 0:
            self.memory.rename("sum", f"block {sublayer // self.block}")


class ResidualStream(Schedule):
    def hand(self, sublayer: int) -> Array:  # noqa: ARG002
        return self.memory.handed("0")

    def take(self, sublayer: int) -> None:
        self.memory.add(str(sublayer + 1), "0")


class NaiveFull(Schedule):
    def hand(self, sublayer: int) -> Array:
        return self._attend(sublayer, self.memory.read(*map(str, range(sublayer + 1)))).mean


class NaiveBlock(Schedule):
    def hand(self, sublayer: int) -> Array:
        partial = ["sum"] if sublayer % self.block else []
        return self._attend(sublayer, self.memory.read(*self._complete(sublayer), *partial)).mean

    def take(self, sublayer: int) -> None:
        self._sum(sublayer)


class TwoPhases(Schedule):
    """The two-phase schedule: phase 1 when a block begins; phase 2 merges in what the block has made."""

    def __init__(self, memory: Memory, queries: Array, block: int, eps: float) -> None:
        super().__init__(memory, queries, block, eps)
        self._log_masses: dict[int, Array] = {}

    @abstractmethod
    def earlier(self, sublayer: int) -> list[str]:
        """Return the sources from before the block that begins with this sublayer."""

    @abstractmethod
    def recent(self, sublayer: int) -> Array:
        """Return the sources (k, d) that the block has made before this sublayer, which is not its first."""

    def hand(self, sublayer: int) -> Array:
        if sublayer % self.block == 0:
            self._phase_1(sublayer)
        part = Part(self.memory.read(f"part {sublayer}")[0], self._log_masses[sublayer])
        if sublayer % self.block:
            part = merge(part, self._attend(sublayer, self.recent(sublayer)))
        return part.mean

    def _phase_1(self, first: int) -> None:
        block = range(first, min(first + self.block, len(self.queries)))
        self.memory.charged = block
        parts = attend(self.queries[first : block.stop], self.memory.read(*self.earlier(first)), self.eps)
        for sublayer, mean, log_mass in zip(block, *parts, strict=True):
            self.memory.charged = range(sublayer, sublayer + 1)
            self.memory.write(f"part {sublayer}", mean)
            self._log_masses[sublayer] = log_mass
        self.memory.charged = range(first, first + 1)


class TwoPhaseFull(TwoPhases):
    def earlier(self, sublayer: int) -> list[str]:
        return [str(i) for i in range(sublayer + 1)]

    def recent(self, sublayer: int) -> Array:
        begin = sublayer - sublayer % self.block
        return self.memory.read(*map(str, range(begin + 1, sublayer + 1)))


class TwoPhaseBlock(TwoPhases):
    def earlier(self, sublayer: int) -> list[str]:
        return self._complete(sublayer)

    def recent(self, sublayer: int) -> Array:
        if sublayer % self.block == 1:
            return self.memory.read("sum")
        return self.memory.add(str(sublayer), "sum")[None]

    def take(self, sublayer: int) -> None:
        within = sublayer % self.block
        if within in (0, self.block - 1):  # between them, an output is added when the next sublayer looks at it
            self._sum(sublayer)


SCHEDULES: Mapping[str, type[Schedule]] = {
    "residual": ResidualStream,
    "naive Full": NaiveFull,
    "naive Block": NaiveBlock,
    "two-phase Full": TwoPhaseFull,
    "two-phase Block": TwoPhaseBlock,
}


@dataclass(frozen=True)
class Traffic:
    """The traffic of a schedule.

    counts: vectors per token by sublayer; what phase 1 reads is shared out.  inputs: what the sublayers read, (d,).
    """

    counts: tuple[Fraction, ...]
    inputs: tuple[Array, ...]

    @property
    def mean(self) -> Fraction:
        return sum(self.counts, Fraction(0)) / len(self.counts)


def traffic(
    schedule: str, embedding: Array, sublayers: Sequence[Sublayer], queries: Array, block: int, eps: float = 0.0
) -> Traffic:
    """Run sublayers under one of SCHEDULES.  embedding (d,), queries (sublayers, d), block in sublayers.

    Raises BadInput for an unknown schedule, InvalidSize.
    """
    at_least("sublayers", len(sublayers), 1)
    at_least("block", block, 1)
    if schedule not in SCHEDULES:
        raise BadInput(unknown("schedule", schedule, SCHEDULES))
    if queries.shape != (len(sublayers), *embedding.shape):
        raise InvalidSize(f"queries {queries.shape} do not fit {len(sublayers)} sublayers of width {embedding.shape}")
    memory, inputs = Memory(len(sublayers)), []
    running = SCHEDULES[schedule](memory, queries, block, eps)
    memory.put("0", embedding)
    for i, sublayer in enumerate(sublayers):
        memory.charged = range(i, i + 1)
        inputs.append(running.hand(i))
        memory.put(str(i + 1), sublayer(inputs[-1]))
        running.take(i)
    return Traffic(tuple(memory.counts), tuple(inputs))


def mean_traffic(schedule: str, blocks: int, size: int) -> Fraction:
    """Return the closed form of the mean over all sublayers of `blocks` blocks of `size` sublayers.

    Raises as `traffic`.
    """
    at_least("blocks", blocks, 1)
    at_least("size", size, 1)
    n, s = Fraction(blocks), Fraction(size)
    forms = {
        "residual": Fraction(3),
        "naive Full": (n * s + 1) / 2,
        "naive Block": (n + 1) / 2 + 4 - 4 / s,
        "two-phase Full": (n + s) / 2 + 1 + 1 / s,
        "two-phase Block": (n + 1) / (2 * s) + (5 - 2 / s if size > 1 else 2),
    }
    if schedule not in forms:
        raise BadInput(unknown("schedule", schedule, forms))
    return forms[schedule]
