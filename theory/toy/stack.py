"""Linear attention with a residual stream, token by token, in numpy: the reference for claims on deeper toys.

It knows projections, heads and tokens, and nothing of polynomials, Gram matrices or gradient steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Value:
    """A value: weight * V times the stream into layer `source`, or the raw tokens if that is 0; matrix V: (2d, 2d)."""

    source: int
    matrix: Array
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class AttentionHead:
    """One head: the sum of its values, its query, key and output projections, each (2d, 2d)."""

    values: tuple[Value, ...]
    output: Array
    query: Array
    key: Array


Layers = Sequence[Sequence[AttentionHead]]


def run(tokens: Array, layers: Layers, raw: Array | None = None) -> list[Array]:
    """Return the streams into layers 1, 2, ... and out of the last one.

    Every token attends over all but the last one.

    Args:
        tokens: (..., T, width), one token per row.
        layers: The heads of each layer.
        raw: The tokens for source 0, from before `tokens` were made; by default `tokens`.
    """
    streams = [tokens if raw is None else raw, tokens]
    for heads in layers:
        now = streams[-1]
        update = np.zeros_like(now)
        for head in heads:
            values = np.sum([v.weight * streams[v.source] @ v.matrix.T for v in head.values], axis=0)
            scores = (now @ head.query.T) @ (now @ head.key.T).mT
            update = update + (scores[..., :-1] @ values[..., :-1, :]) @ head.output.T
        streams.append(now + update)
    return streams[1:]


def side_by_side(x: Array, y: Array, query: Array) -> Array:
    """Return tokens (x_t ; y_t) and (query ; 0) as rows, from x and y: (d, n), query: (d,)."""
    return np.concatenate([np.concatenate([x, y]).T, np.concatenate([query, 0 * y[:, 0]])[None]])


def x_slot(matrix: Array) -> Array:
    """Return a projection that reads and writes the x slot alone; matrix: (d, d)."""
    zero = np.zeros_like(matrix)
    return np.block([[matrix, zero], [zero, zero]])


def y_slot(matrix: Array) -> Array:
    """Return a projection that reads and writes the y slot alone; matrix: (d, d)."""
    zero = np.zeros_like(matrix)
    return np.block([[zero, zero], [zero, matrix]])


def descent_layers(steps: Sequence[Mapping[int, Array]]) -> list[list[AttentionHead]]:
    """Return one head per source from B_lm, (d, d) each, by source m, for layers 1, 2, ..."""
    eye = np.eye(len(next(iter(steps[0].values()))))
    look = x_slot(eye)
    return [
        [AttentionHead((Value(source, y_slot(eye)),), y_slot(-b), look, look) for source, b in weights.items()]
        for weights in steps
    ]


def predicts(tokens: Array, layers: Layers, expected: Array) -> bool:
    """Return whether minus the y slot of the last token is `expected`, to rounding.

    The tolerance is that of sums over T tokens in k layers.
    """
    streams = run(tokens, layers)
    d = len(expected)
    size = max(float(np.linalg.norm(s)) for s in streams) + float(np.linalg.norm(expected))
    terms = 2 * d * len(tokens) * (len(layers) + 1)
    return bool(np.linalg.norm(-streams[-1][-1, d:] - expected) <= 8 * np.finfo(float).eps * terms * size)


def prompt(rng: np.random.Generator, d: int, n: int, sigma: float) -> tuple[Array, Array, Array]:
    """Return x and y: (d, n), and a query (d,)."""
    x = rng.standard_normal((d, n))
    return x, rng.standard_normal((d, d)) @ x + sigma * rng.standard_normal((d, n)), rng.standard_normal(d)


def polynomial_prediction(residual: Sequence[float], x: Array, y: Array, query: Array) -> Array:
    """Return S_yx q(S_xx) query, with p = 1 - s q given by its coefficients, ascending."""
    out, power = np.zeros(len(query)), query
    for coefficient in residual[1:]:
        out = out - coefficient * (y @ (x.T @ power))
        power = x @ (x.T @ power)
    return out
