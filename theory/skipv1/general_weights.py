"""Explicit weights that attain or approach the infima of `theory.skipv1.general`, step (8).

All come with the heads that they are weights of, r of a kind.  Every head h realises one product w_i k_j of the sum
sum_h w^h_i k^h_j = m_ij, the multipliers by which the modes of S_yx are shrunk.
"""

from __future__ import annotations

import numpy as np

from theory.errors import BadInput, check_sizes
from theory.plans.heads import ORDINARY, SKIP, Heads
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1.general import Modes, mha_heads_needed, modes, skip_heads_needed
from theory.toy.population import Weights


def general_skipv1_weights(moments: PromptMoments, rank: int) -> tuple[Heads, Weights]:
    """Return ordinary and skip heads, r_skip of each, with weights whose loss is min L_skipv1(rank).

    Raises BadInput where A's square block cannot be made regular (see the theorem), InvalidSize, and as `modes`.
    """
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    d, of, count = moments.d, modes(moments), skip_heads_needed(moments, rank)
    q = of.of_inputs[:, :rank]
    compress = q.T @ of.whiten
    block = compress[:, :rank]
    if rank and np.linalg.matrix_rank(block) < rank:
        raise BadInput(
            "the best A has a singular square block here: the minimum is approached, by `general_skip_head_weights`"
        )
    a = np.linalg.solve(block, compress)
    readouts, shrink = _factors(of, d, rank, count)
    inner = block.T @ (shrink[:, :, None] * block)  # T_h = R^{-T} diag(k^h) R^{-1}, R = block^{-1}
    keys = a.T @ inner
    doubled = np.eye(d)
    doubled[:rank] += a
    return (ORDINARY,) * count + (SKIP,) * count, Weights(
        a=a,
        b=np.zeros((d - rank, d)),
        w=np.concatenate([-readouts @ np.linalg.inv(doubled), readouts]),
        k=np.concatenate([keys, keys]),
    )


def general_skip_head_weights(moments: PromptMoments, rank: int, beta: float) -> tuple[Heads, Weights]:
    """Return r_skip skip heads alone, with weights whose loss exceeds inf L_skipv1(rank) by the order of 1 / beta^2.

    Raises InvalidSize, and as `modes`.
    """
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    d, of, count = moments.d, modes(moments), skip_heads_needed(moments, rank)
    readouts, shrink = _factors(of, d, rank, count)
    return (SKIP,) * count, Weights(
        a=beta * of.of_inputs[:, :rank].T @ of.whiten,
        b=np.zeros((d - rank, d)),
        w=readouts,
        k=_on_top(shrink / beta**2, d),
    )


def general_mha_weights(moments: PromptMoments, rank: int, beta: float) -> tuple[Heads, Weights]:
    """Return r_mha ordinary heads, with weights whose loss exceeds inf L_mha(rank) by the order of 1 / beta^2.

    Raises InvalidSize, and as `modes`.
    """
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    d, of, count = moments.d, modes(moments), mha_heads_needed(moments, rank)
    u = of.of_outputs[:, : d - rank]
    readouts, shrink = _factors(of, d - rank, rank, count)
    lower = np.eye(d)[rank:]
    return (ORDINARY,) * count, Weights(
        a=of.of_inputs[:, :rank].T @ of.whiten,
        b=beta * u.T,
        w=readouts @ u @ lower / beta,
        k=_on_top(shrink, d),
    )


def _factors(of: Modes, outputs: int, inputs: int, count: int) -> tuple[Array, Array]:
    """Return W^h = U diag(w^h) U^T (count, d, d) and k^h (count, inputs) with sum_h w^h_i k^h_j = m_ij."""
    left, values, right = np.linalg.svd(of.multipliers[:outputs, :inputs])
    size = min(count, len(values))
    shrink, scales = np.zeros((count, inputs)), np.zeros((count, outputs))
    shrink[:size] = right[:size]
    scales[:size] = (left[:, :size] * values[:size]).T
    u = of.of_outputs[:, :outputs]
    return (u * scales[:, None, :]) @ u.T, shrink


def _on_top(shrink: Array, d: int) -> Array:
    """Return (diag(k) ; 0) for every head: (count, a) -> (count, d, a)."""
    return np.eye(d)[:, : shrink.shape[1]] * shrink[:, None, :]
