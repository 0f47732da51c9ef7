"""Coefficients of every output in every read, for depth rules that do not look at contents: at the start, or averages.

Output 0 is the embedding, output i that of sublayer i, v_i; read l, counted from 0, comes after l outputs and is
    h_l = sum_{i <= l} A_li v_i.
A rule whose weights do not depend on the v_i is this lower triangular matrix A.  Rows are reads, of which the last
feeds the head.

Start.  Zero queries give every source the weight 1 / (number of sources), or 1/2 under sigmoid, whatever the contents
(`theory.attnres.bounds`): A is 1 for a residual stream, 1 / (l + 1) for Full, 1 / (1 + ceil(l / S)) for Block, and 0
for outputs that a window leaves out.

Averages (DenseFormer).  Y_n = sum_{i <= n} a_ni X_i, X_0 = v_0, and X_n is Y_{n-1} with layer n's outputs added.  So
the rows of X_n and Y_n follow one from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from theory.attnres.mixing import mixing_matrix
from theory.errors import BadInput, at_least
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture, misfits
from theory.plans.plan import DepthAttention, Plan

Matrix = tuple[tuple[Any, ...], ...]


def start_matrix(config: Architecture, plan: Plan) -> Matrix:
    """Return A at initial weights, in Fractions; row l has l + 1 entries.

    Raises BadInput if plan and sizes do not fit.
    """
    for misfit in misfits(config, plan):
        raise BadInput(misfit)
    reads = depth_reads(config, plan)
    matrix = mixing_matrix(reads, [[_weight(plan, sources)] * len(sources) for sources in reads])
    return tuple(tuple(row[: i + 1]) for i, row in enumerate(matrix))


def average_matrix(weights: Sequence[Sequence[Any]], per_layer: int) -> Matrix:
    """Return A for learned averages over depth.

    weights     of layer n, at place n - 1: a_n0, ..., a_nn
    per_layer   sublayers per layer

    Raises BadInput if layer n has not n + 1 weights, InvalidSize for per_layer < 1.
    """
    at_least("per_layer", per_layer, 1)
    finished: list[list[Any]] = [[1]]
    stream: list[Any] = [1]
    rows = [tuple(stream)]
    for n, average in enumerate(weights, 1):
        if len(average) != n + 1:
            raise BadInput(f"layer {n} averages {n + 1} results, got {len(average)} weights")
        for _ in range(per_layer):
            stream = [*stream, 1]
            rows.append(tuple(stream))
        finished.append(stream)
        stream = [
            sum(a * row[i] for a, row in zip(average, finished, strict=True) if i < len(row))
            for i in range(len(stream))
        ]
        rows[-1] = tuple(stream)
    return tuple(rows)


def _weight(plan: Plan, sources: Sequence[range]) -> Fraction:
    if not isinstance(plan.depth, DepthAttention):
        return Fraction(1)
    return Fraction(1, 2) if plan.depth.score == "sigmoid" else Fraction(1, len(sources))
