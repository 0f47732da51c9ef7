"""Measure how far softmax rows move when the scores of earlier layers do: the worst that climbing finds, and random.

Nothing here knows the bounds: rows are softmaxes over the scores of all layers, and what is measured is the total
variation between the row in which the earlier layers' scores have moved and the one in which all layers have the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.store.folders import Json

Array = NDArray[np.float64]

TOKENS = 6  # of a row that is climbed on


def weights(scores: Array) -> Array:
    """Return softmax over the layers' and tokens' scores together: (..., layers, tokens)."""
    shifted = np.exp(scores - scores.max(axis=(-2, -1), keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=(-2, -1), keepdims=True))


def variation(own: Array, moves: Array) -> Array:
    """Return that between rows with and without moves: own (..., tokens), moves (..., earlier layers, tokens)."""
    layers = moves.shape[-2] + 1
    still = np.broadcast_to(own[..., None, :], (*own.shape[:-1], layers, own.shape[-1]))
    cross = still.copy()
    cross[..., 1:, :] += moves
    return np.asarray(np.abs(weights(cross) - weights(still)).sum(axis=(-2, -1)) / 2)


def climbed(eps: tuple[float, ...], layers: int, climbs: int, steps: int) -> list[float]:
    """Return, for each eps, the largest total variation that climbs find over rows and moves of up to eps.

    A step changes one score of the own layer, or sends one move anywhere up to eps or to one of its ends; it is kept
    if the variation grows.
    """
    rng = np.random.default_rng(layers)
    batch, most = (len(eps), climbs), np.asarray(eps)[:, None]
    own = rng.standard_normal((*batch, TOKENS))
    moves = most[..., None, None] * rng.uniform(-1, 1, (*batch, layers - 1, TOKENS))
    best = variation(own, moves)
    for step in range(steps):
        tried_own, tried = own.copy(), moves.copy()
        token, layer = rng.integers(TOKENS, size=batch), rng.integers(layers - 1, size=batch)
        at = (*np.indices(batch), token)
        if step % 2:
            tried_own[at] += rng.standard_normal(batch) * 10 ** rng.uniform(-4, 0.5, batch)
        else:
            to = np.clip(rng.uniform(-2, 2, batch), -1, 1) * most
            tried[(*np.indices(batch), layer, token)] = to
        reached = variation(tried_own, tried)
        better = reached > best
        own[better], moves[better], best[better] = tried_own[better], tried[better], reached[better]
    return [float(x) for x in best.max(axis=1)]


def random_rows(eps: tuple[float, ...], layers: int, rows: int) -> list[Json]:
    """Return, for each eps, quantiles of the total variation over normal scores and moves drawn evenly up to eps."""
    rng = np.random.default_rng(100 + layers)
    by_eps = []
    for most in eps:
        own = rng.standard_normal((rows, TOKENS))
        moves = rng.uniform(-most, most, (rows, layers - 1, TOKENS))
        by_eps.append(quantiles(variation(own, moves)))
    return by_eps


def normal_moves(spreads: tuple[float, ...], rows: int) -> list[Json]:
    """Return, for each deviation of normal moves, one earlier layer, the total variation and both bounds of each row.

    Rows have 1, 2, 8 or 64 tokens, as many of each; of the longest, quantiles and means.  worst: the largest share of
    Pinsker's bound, and of kappa at the row's largest move, that any row uses.
    """
    from theory.resformer.blocks import block_form_share, mean_bound

    rng = np.random.default_rng(7)
    by_spread = []
    for spread in spreads:
        worst = {"pinsker": 0.0, "kappa": 0.0}
        for tokens in (1, 2, 8, 64):
            own = rng.standard_normal((rows // 4, tokens))
            moves = spread * rng.standard_normal((rows // 4, 1, tokens))
            shares = np.exp(own) / np.exp(own).sum(axis=1, keepdims=True) / 2
            both = np.concatenate([np.zeros_like(own), moves[:, 0]], axis=1)
            bounds = {
                "pinsker": mean_bound(np.concatenate([shares, shares], axis=1), both),
                "kappa": np.array([block_form_share(x) for x in np.abs(both).max(axis=1)]),
            }
            off = variation(own, moves)
            worst = {name: max(worst[name], float((off / bound).max())) for name, bound in bounds.items()}
        means = {name: float(bound.mean()) for name, bound in bounds.items()}
        by_spread.append({"variation": quantiles(off), **means, "worst": worst})
    return by_spread


def quantiles(values: Array) -> Json:
    low, middle, high = np.quantile(values, (0.025, 0.5, 0.975))
    return {"low": float(low), "middle": float(middle), "high": float(high), "most": float(values.max())}
