"""Explicit weights for the theorem of `theory.skipv1.gap`: steps (5), (6) and (7) of the proof, as arrays.

Some attain SkipV1Former's minimum, others approach MHA's infimum, and a witness shows why that is never reached.
"""

from __future__ import annotations

import numpy as np

from theory.errors import InvalidSize, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number, identity, signal_share
from theory.toy.population import Weights


def skipv1_weights(d: int, n: int, sigma: Number, rank: int) -> Weights:
    """Return weights of the heads `theory.plans.heads.SKIPV1` whose loss is exactly min L_skipv1(rank).  Step (5)."""
    check_sizes(d, n, sigma, rank)
    step, eye = signal_share(d, n, sigma) / n, identity(d, sigma)
    keep = eye[:rank]
    return Weights(
        a=keep,
        b=0 * eye[rank:],
        w=np.stack([-step * eye / (1 + keep.T @ keep).diagonal(), step * eye]),
        k=np.stack([keep.T, keep.T]),
    )


def mha_weights(d: int, n: int, sigma: Number, rank: int, beta: Number) -> Weights:
    """Return weights of the heads `theory.plans.heads.MHA` whose loss is inf L_mha(rank) + `mha_excess`.  Step (6).

    beta is the size of B.  The second head is switched off: one is enough.
    """
    check_sizes(d, n, sigma, rank)
    step, eye = signal_share(d, n, sigma) / n, identity(d, sigma)
    lower = eye[:, rank:] @ eye[rank:]
    return Weights(
        a=eye[:rank],
        b=beta * eye[rank:],
        w=np.stack([step / beta * lower, 0 * eye]),
        k=np.stack([eye[:, :rank], 0 * eye[:, :rank]]),
    )


def mha_excess(d: int, n: int, sigma: Number, rank: int, beta: Number) -> Number:
    """Return rho lambda a (d-a) / beta^2, by which `mha_weights` stays above the infimum."""
    check_sizes(d, n, sigma, rank)
    rho = signal_share(d, n, sigma)
    return rho * (rho / n) * rank * (d - rank) / beta**2


def unattained_witness(a: Array) -> Array:
    """Return a symmetric S with S_11 = 0, A S A^T = 0 and S_12 != 0, for any A with 0 < rank < d.  Step (7).

    Shapes: a (rank, d) -> (d, d).  Raises InvalidSize if there is nothing to the right of, or in, A's square block.
    """
    rank, d = a.shape
    if not 0 < rank < d:
        raise InvalidSize(f"the witness exists for 0 < rank < d, got rank {rank} and d {d}")
    square, rest = a[:, :rank], a[:, rank:]
    _, singular, vt = np.linalg.svd(square)
    s = np.zeros((d, d))
    if singular[-1] <= singular[0] * rank * np.finfo(float).eps:
        s[:rank, rank] = vt[-1]
    elif not rest.any():
        s[0, rank] = 1.0
    else:
        s[:rank, rank:] = np.linalg.solve(square, rest)
        s[rank:, rank:] = -np.eye(d - rank)  # half of -2 I: the sum with the transpose below doubles it
    return s + s.T
