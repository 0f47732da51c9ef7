"""Depth rules: how a sublayer's input is made from what the sublayers before it put out.  Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from theory.errors import field_problems


@dataclass(frozen=True)
class Residual:
    """Every sublayer reads the sum of all outputs before it, the embedding included: the residual stream."""


@dataclass(frozen=True)
class Chain:
    """Every sublayer reads only the output of the one before it: no residual stream."""


@dataclass(frozen=True)
class DepthAverage:
    """DenseFormer (ResFormer, section 3.4): after every layer the stream becomes a learned sum of all layers' outputs.

    X_n = what layer n makes of Y_{n-1}, residual connections included; Y_n = sum_{i=0..n} a_{n,i} X_i with X_0 the
    embedding.  At the start a_{n,n} = 1 and the others are 0: a residual network.
    """


@dataclass(frozen=True)
class DepthAttention:
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


Depth = Residual | Chain | DepthAverage | DepthAttention


def depth_problems(depth: Depth) -> Iterator[str]:
    """Yield why a depth rule makes no sense, one reason per line."""
    if not isinstance(depth, Depth):
        yield f"a depth rule is one of Residual(), Chain(), DepthAverage() and DepthAttention(...), not {depth!r}"
        return
    for problem in field_problems(depth):
        yield f"depth attention: {problem}"
    if isinstance(depth, DepthAttention):
        numbers = {"block": depth.block, "heads": depth.heads}
        numbers |= {} if depth.window is None else {"window": depth.window}
        for name, value in numbers.items():
            if not isinstance(value, int) or value < 1:
                yield f"depth attention: {name} must be a whole number from 1, got {value}"
