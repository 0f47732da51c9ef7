"""Explicit weights that approach the bounds of `theory.toy.raw_keys`, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from theory.errors import InvalidSize, check_sizes
from theory.plans.heads import Head, Heads
from theory.prompts.moments import Array
from theory.prompts.setting import Number, identity, signal_share
from theory.toy.population import Weights


def shared_key_heads(readers: int) -> Heads:
    """Return heads with copied values and raw keys: ResFormer, section 4.8, Fig. 16."""
    return (Head(copied=1, raw=0, key_copied=0, key_raw=1),) * readers


def residual_key_heads(readers: int) -> Heads:
    """Return heads with copied values, and keys of both kinds under one W: ResFormer, section 4.3, Fig. 7."""
    return tuple(Head(1, 0, key_copied=1 - raw, key_raw=raw, readout=h) for h in range(readers) for raw in (0, 1))


def shared_key_weights(d: int, n: int, sigma: Number, rank: int, readers: int, beta: Number) -> Weights:
    """Return weights of `shared_key_heads(readers)` that explain min(readers, rank d) entries, minus a small excess.

    The excess is `shared_key_excess`.
    """
    check_sizes(d, n, sigma, rank)
    step, eye = signal_share(d, n, sigma) / n, identity(d, sigma)
    units = [np.outer(eye[i], eye[j]) for i, j in _units(d, rank, readers)]
    units += [0 * eye] * (readers - len(units))
    return Weights(
        a=beta * eye[:rank],
        b=0 * eye[rank:],
        w=step / beta * np.stack(units),
        k=np.stack([unit[:, :rank] for unit in units]) / beta,
    )


def shared_key_excess(d: int, n: int, sigma: Number, rank: int, readers: int, beta: Number) -> Any:
    """Return (lambda / beta)^2 sum E (S_xx)_ij^2 over the units (i, j).

    The expectation is n, and n (n + 2) on the diagonal.
    """
    check_sizes(d, n, sigma, rank)
    step: Any = signal_share(d, n, sigma) / n
    squares = sum(n * (n + 2) if i == j else n for i, j in _units(d, rank, readers))
    return step**2 / beta**2 * squares


def _units(d: int, rank: int, readers: int) -> list[tuple[int, int]]:
    return [(i, j) for j in range(rank) for i in range(d)][:readers]


def residual_key_weights(d: int, n: int, sigma: Number, rank: int, readers: int, s: Number) -> Weights:
    """Return weights of `residual_key_heads(readers)` that explain rank (d - rank) + min(readers, rank^2) entries.

    They do so as s -> 0.  Raises InvalidSize for a rank of 0 or d, and for fewer readers than 2 rank - d + 1.
    """
    check_sizes(d, n, sigma, rank)
    rows = d - rank
    if not (rank and rows and readers > rank - rows):
        raise InvalidSize(f"the construction takes 0 < rank < d and readers > 2 rank - d, got {rank}, {d}, {readers}")
    step, eye = signal_share(d, n, sigma) / n, identity(d, sigma)
    alpha, beta, paired = 1 / s, 1 / s**2, min(rank, rows)
    b = beta * np.concatenate([eye[:paired], eye[rank + paired :]])
    b[:paired] += eye[rank : rank + paired]
    outside = [eye[rank + i] - eye[i] / beta for i in range(paired)] + list(eye[paired:rank])  # orthogonal to B's rows
    kappa = step / (s * alpha**2)
    readout, keys = np.zeros((readers, d, d), dtype=b.dtype), np.zeros((2 * readers, d, rank), dtype=b.dtype)
    beyond = range(rows, rank)
    columns = [(0, 0), *((0, m) for m in beyond)]
    columns += [(i, j) for i in range(rank) for j in range(rank) if (i, j) not in columns]
    for h, (i, j) in enumerate(columns[:readers]):
        v = outside[i]
        readout[h, :, j] = step * v / (v @ v) / alpha
        keys[2 * h + 1, :, j] = v / alpha
    for h, m in enumerate(beyond, 1):
        keys[2 * h, 0, m] = -kappa
    readout[0, :, rank:] = b.T / (b * b).sum(axis=1) * s  # the pseudo-inverse: the rows of B are orthogonal
    keys[0, :rank] = kappa * eye[:rank, :rank]
    keys[0, rank : rank + paired] = (1 + alpha**2) * kappa / beta * eye[:paired, :rank]
    keys[1] -= b.T @ keys[0, rank:]
    return Weights(alpha * eye[:rank], b, readout, keys)


def realignment(t: Array) -> Array:
    """Return a linear map t[i, j, k, l] Z[k, l] on d x d matrices, as a matrix of rows (i, l) and columns (k, j)."""
    d = t.shape[0]
    return t.transpose(0, 3, 2, 1).reshape(d * d, d * d)
