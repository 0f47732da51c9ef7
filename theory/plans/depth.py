"""Depth rules: how a sublayer's input is made from what the sublayers before it put out.  Standard library only.

A rule answers for itself: its words, its sources, its counts.  A rule that is made of streams is data
(`theory.plans.streams`); the rules here are those that are simpler without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isqrt
from typing import Any, ClassVar, Literal, Self

from theory.errors import BadInput, field_problems

Start = float | tuple[float, ...] | None  # the first value of a parameter, one for each of its rows; None: random


class Depth:
    """A depth rule.  What a subclass does not say is that of a residual stream.

    A rule of an installed paper is a frozen dataclass that derives from this one, in a module of the paper.  It says
    what it counts, and in `module` what computes it; a folder of a training names it by its module and its class.

    Sublayers are counted from 0; read number i feeds sublayer i, and the last one the head.  Output 0 is the embedding,
    output i that of the i-th sublayer.  `per_layer` is the number of sublayers of a layer: 1 or, with feed-forward, 2.

    once_a_layer   sources are weighed after every layer alone: the other reads are of an existing stream
    reads_apart    some attention has one input for its queries, one for its keys and one for its values
    terms          the number of terms of every read, of a rule whose reads are no sums of sources; else None
    coefficients   what a picture says of the coefficients of the outputs that are read
    """

    once_a_layer: ClassVar[bool] = False
    coefficients: ClassVar[Literal["fixed", "learned", "gate"]] = "fixed"

    @property
    def reads_apart(self) -> bool:
        return False

    @property
    def terms(self) -> tuple[int, ...] | None:
        return None

    def words(self) -> str:
        """Describe the rule in a few words."""
        return "a residual stream"

    def problems(self, layers: int, per_layer: int) -> Iterator[str]:
        """Yield why the rule makes no sense in a plan of these layers, one reason per line."""
        yield from ()

    def misfits(self, d: int, layers: int, per_layer: int) -> Iterator[str]:
        """Yield why the rule has no meaning on a model of width d, one reason per line."""
        yield from ()

    def sources(self, after: int, per_layer: int) -> list[range]:
        """Return what the read after so many sublayers weighs: each source is a sum of neighbouring outputs."""
        return [range(after + 1)]

    def parameters(self, d: int, layers: int, per_layer: int) -> int:
        """Return the number of parameters at width d."""
        return 0

    def starts(self) -> Mapping[str, Start]:
        """Return the first values of the parameters that the rule names itself."""
        return {}

    def flops(self, d: int, reads: Sequence[int]) -> int:
        """Return the forward FLOPs of one token, where every read has so many sources; a product and a sum are two."""
        return 2 * d * sum(reads)

    def saved(self, d: int, layers: int, per_layer: int) -> int:
        """Return the numbers per token that a training step keeps for the gradient, besides inputs of sublayers."""
        return 0

    def alive(self, reads: Sequence[int]) -> int:
        """Return the vectors of the model's width per token that are alive at once, at most."""
        return max(reads)

    def module(self, config: Any, plan: Any) -> Any:
        """Return what computes the rule, an `icl.models.depth.DepthRule`, for a decoder of this architecture and plan.

        Its parameters start as `starts` says, at zero where it says nothing.  The rules here need none of it.
        """
        raise BadInput(f"nothing says how to compute the depth rule {self!r}: it has no `module`")

    def to_json(self) -> dict[str, Any]:
        """Return the rule's fields as JSON content, for `from_json`."""
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return the rule with these fields.  Raises TypeError or ValueError for what are none of its fields."""
        return cls(**fields)


@dataclass(frozen=True)
class Residual(Depth):
    """Every sublayer reads the sum of all outputs before it, the embedding included: the residual stream."""


@dataclass(frozen=True)
class Chain(Depth):
    """Every sublayer reads only the output of the one before it: no residual stream."""

    def words(self) -> str:
        return "no residual stream"

    def sources(self, after: int, per_layer: int) -> list[range]:
        return [range(after, after + 1)]


@dataclass(frozen=True)
class DepthAverage(Depth):
    """DenseFormer (ResFormer, section 3.4): after every layer the stream becomes a learned sum of all layers' outputs.

    X_n = what layer n makes of Y_{n-1}, residual connections included; Y_n = sum_{i=0..n} a_{n,i} X_i with X_0 the
    embedding.  At the start a_{n,n} = 1 and the others are 0: a residual network.
    """

    once_a_layer: ClassVar[bool] = True

    def words(self) -> str:
        return "a learned sum of all layers' outputs after every layer"

    def parameters(self, d: int, layers: int, per_layer: int) -> int:
        return sum(n + 1 for n in range(1, layers + 1))

    def sources(self, after: int, per_layer: int) -> list[range]:
        summed = after - after % per_layer
        sources = [range(1), *(range(i, i + per_layer) for i in range(1, summed, per_layer))]
        return sources if summed == after else [*sources, range(summed + 1, after + 1)]

    def saved(self, d: int, layers: int, per_layer: int) -> int:
        return layers * d


@dataclass(frozen=True)
class DepthAttention(Depth):
    """Attention Residuals: a sublayer reads a softmax-weighted sum of the outputs before it.

    block      sublayers per block; outputs within a block are summed.  1 is the Full form.
    score      softmax, or sigmoid without normalisation
    query      learned: one vector per sublayer; input: that plus a matrix times the RMS-normed newest source; static: a
               learned logit for every pair, which does not look at the outputs
    key_norm   RMSNorm on the keys
    window     read the embedding and only the newest `window` others
    heads      parts of the width with a softmax of their own
    """

    block: int = 1
    score: Literal["softmax", "sigmoid"] = "softmax"
    query: Literal["learned", "input", "static"] = "learned"
    key_norm: bool = True
    window: int | None = None
    heads: int = 1

    def words(self) -> str:
        form = "Full AttnRes" if self.block == 1 else f"Block AttnRes, {self.block} sublayers a block"
        unusual = {
            str(self.score): self.score != "softmax",
            f"{self.query} query": self.query != "learned",
            "no key norm": not self.key_norm,
            f"window {self.window}": self.window is not None,
            f"{self.heads} heads": self.heads != 1,
        }
        return ", ".join([form, *(word for word, applies in unusual.items() if applies)])

    def problems(self, layers: int, per_layer: int) -> Iterator[str]:
        for problem in field_problems(self):
            yield f"depth attention: {problem}"
        numbers = {"block": self.block, "heads": self.heads}
        numbers |= {} if self.window is None else {"window": self.window}
        for name, value in numbers.items():
            if not isinstance(value, int) or value < 1:
                yield f"depth attention: {name} must be a whole number from 1, got {value}"

    def misfits(self, d: int, layers: int, per_layer: int) -> Iterator[str]:
        if d % self.heads:
            yield f"{self.heads} parts of the depth attention do not divide the width {d}"

    def sources(self, after: int, per_layer: int) -> list[range]:
        block = self.block
        sources = [range(1), *(range(i, min(i + block, after + 1)) for i in range(1, after + 1, block))]
        return sources if self.window is None else [sources[0], *sources[1:][-self.window :]]

    def parameters(self, d: int, layers: int, per_layer: int) -> int:
        reads = range(layers * per_layer + 1)
        if self.query == "static":
            return self.heads * sum(len(self.sources(after, per_layer)) for after in reads)
        return len(reads) * (d + d * self.key_norm + d * d * (self.query == "input"))

    def flops(self, d: int, reads: Sequence[int]) -> int:
        """Count a sum over sources, and a product of each source with the query."""
        if self.query == "static":
            return 2 * d * sum(reads)
        return 4 * d * sum(reads) + (2 * d * d * len(reads) if self.query == "input" else 0)

    def saved(self, d: int, layers: int, per_layer: int) -> int:
        """Count every read and, in two phases, the partial reads that something is added to."""
        reads = layers * per_layer + 1
        together = reads_together(self, reads)
        parts = sum(read % together > 0 for read in range(together, reads)) if two_phases(self) else 0
        return (reads + parts) * d


def two_phases(rule: DepthAttention) -> bool:
    """Return whether reads can be computed in two phases (`icl.models.depth_attention`).

    They can if the query that weighs the sources does not depend on the input, and the weights add up to 1 over all
    sources from the first one on.
    """
    return rule.query == "learned" and rule.score == "softmax" and rule.window is None


def reads_together(rule: DepthAttention, reads: int) -> int:
    """Return how many reads share one first phase.

    Those are the reads of a block.  The Full form takes sqrt(reads), where its traffic is least
    (`theory.attnres.traffic`).
    """
    return rule.block if rule.block > 1 else isqrt(reads)


def depth_problems(depth: object, layers: int, per_layer: int) -> Sequence[str]:
    """Return why a depth rule makes no sense in a plan of so many layers, one reason per line."""
    if not isinstance(depth, Depth):
        rules = "Residual(), Chain(), DepthAverage(), DepthAttention(...) and Streams(...)"
        return [f"a depth rule is one of {rules}, not {depth!r}"]
    return list(depth.problems(layers, per_layer))
