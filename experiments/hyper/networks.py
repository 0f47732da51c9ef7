"""Networks over streams, written out sublayer by sublayer, and the weights on which claims are judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from theory.hyper.streams import Sublayer

if TYPE_CHECKING:
    from theory.hyper.streams import Array

    Output = Callable[[int, Array], Array]  # of sublayer 0, 1, ..., from what it reads


@dataclass(frozen=True)
class Passed:
    """A network's reads, outputs and streams for one embedding.

    reads    what every sublayer read and, last, what the last read is, each (d,)
    outputs  the embedding, then what every sublayer put out, each (d,)
    streams  X at the start and after every sublayer, each (n, d)
    """

    reads: list[Array]
    outputs: list[Array]
    streams: list[Array]


def passed(sublayers: Sequence[Sublayer], last: Array, embedding: Array, output: Output) -> Passed:
    """Return what streams hold when they start as copies of an embedding (d,)."""
    streams = np.tile(embedding, (len(last), 1))
    through = Passed([], [embedding], [streams])
    for i, sublayer in enumerate(sublayers):
        through.reads.append(sublayer.read @ streams)
        through.outputs.append(output(i, through.reads[-1]))
        streams = sublayer.mix @ streams + np.outer(sublayer.write, through.outputs[-1])
        through.streams.append(streams)
    through.reads.append(last @ streams)
    return through


def prenorm(embedding: Array, output: Output, sublayers: int) -> list[Array]:
    """Return what the sublayers of a residual stream read, and the last read."""
    reads = [embedding]
    for i in range(sublayers):
        reads.append(reads[-1] + output(i, reads[-1]))
    return reads


def normed(h: Array) -> Array:
    """Return h (d,) at the length sqrt d: a norm with eps = 0."""
    return h * sqrt(len(h)) / np.linalg.norm(h)


def nonlinear(sublayers: int, d: int, seed: int) -> Output:
    """Return random sublayers behind a norm, two layers of tanh each."""
    maps = np.random.default_rng(seed).standard_normal((sublayers, 2, d, d))

    def output(i: int, h: Array) -> Array:
        into, out = maps[i]
        return out @ np.tanh(into @ normed(h))

    return output


def aligned(sizes: Sequence[float], signs: Sequence[float]) -> Output:
    """Return sublayers behind a norm that write along the first axis, outputs of these lengths and signs.

    What they read lies along that axis; a sign is that of the output.
    """

    def output(i: int, h: Array) -> Array:
        through = signs[i] * np.sign(h[0]) * sizes[i] / sqrt(len(h))  # a matrix of one entry
        return np.eye(len(h))[0] * through * normed(h)[0]

    return output


def largest_norm(streams: Array) -> float:
    """Return the largest norm of a stream (n, d)."""
    return float(np.linalg.norm(streams, axis=1).max())


def doubly_stochastic(streams: int, rng: np.random.Generator) -> Array:
    """Return a mixture of three permutations, (n, n), in fractions."""
    parts = [Fraction(int(w)) for w in rng.integers(1, 9, 3)]
    orders = (rng.permutation(streams) for _ in parts)
    one = np.eye(streams, dtype=int)
    return sum((one[order] * (w / sum(parts)) for w, order in zip(parts, orders, strict=True)), 0 * one)


def row_stochastic(streams: int, rng: np.random.Generator) -> Array:
    """Return a positive matrix (n, n) whose rows sum to 1 and whose columns do not, in fractions."""
    entries = fractions(rng.integers(1, 9, (streams, streams)) + np.arange(streams) ** 2)
    return entries / entries.sum(1)[:, None]


def fractions(x: Any) -> Array:
    """Return an array of whole numbers as fractions."""
    return np.vectorize(Fraction, otypes=[object])(x)


def mixing(streams: int, mixes: Sequence[Array], rng: np.random.Generator) -> list[Sublayer]:
    """Return sublayers with these H and reads and writes that are positive fractions."""

    def weights() -> Array:
        return fractions(rng.integers(1, 9, streams)) / 4

    return [Sublayer(weights(), mix, weights()) for mix in mixes]


def floats(sublayers: Sequence[Sublayer]) -> list[Sublayer]:
    """Return the same weights as floating-point numbers."""
    return [Sublayer(s.read.astype(float), s.mix.astype(float), s.write.astype(float)) for s in sublayers]
