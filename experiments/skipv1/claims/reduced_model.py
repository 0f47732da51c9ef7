"""The reduced model of SkipV1Former's Eqns. (5) and (6), for the checks: what it predicts, and its exact minimum."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from theory.plans.heads import ORDINARY, SKIP, Heads
from theory.prompts.moments import Array, PromptMoments
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights


def reduced_prediction(
    x: Array, y: Array, w: Weights, heads: Heads, *, once: bool = False, swapped: bool = False
) -> Array:
    """P = sum_h W^h G^h M^h of Eqns. (5) and (6), M^h = K^h A, from the context's x and y (d, n): (d, d).

    Each head sums value times key^T over the tokens that the mask keeps.  The tokens of x_t have x_t for both in every
    head, and those of y_t have u_t for both in an ordinary head, y_t and u_t in a skip head.  What meets the keys is
    W_K^T W_Q times the query's token (A x_{n+1} ; 0), so the first a columns of W_K^T W_Q, K^h, times A x_{n+1}.

    heads      ordinary and skip heads
    once       the second term of G for the last pair only, as if the sum did not reach it
    swapped    u y^T for y u^T in the skip head
    """
    u, labels = np.concatenate([w.a @ x, w.b @ y]), y
    if once:
        u, labels = u[:, -1:], labels[:, -1:]
    grams = {ORDINARY: u @ u.T, SKIP: u @ labels.T if swapped else labels @ u.T}
    total: Array = sum(w.w[h] @ (x @ x.T + grams[head]) @ w.k[h] @ w.a for h, head in enumerate(heads))
    return total


def explained_at_minimum(heads: Heads, d: int, n: int, sigma: float, a: int, w0: Any = None, starts: int = 8) -> float:
    """How far the exact minimum lies below predicting zero, in squared units of y summed over its d entries."""
    if w0 is None:
        return _explained_around_zero(heads, d, n, sigma, a, starts)
    return _explained(PopulationLoss(PromptMoments(d, n, sigma, w0), heads), a, starts)


@cache
def _explained_around_zero(heads: Heads, d: int, n: int, sigma: float, a: int, starts: int) -> float:
    """A claim and its control are compared with one and the same minimum."""
    return _explained(PopulationLoss(PromptMoments(d, n, sigma), heads), a, starts)


def _explained(loss: PopulationLoss, a: int, starts: int) -> float:
    return loss.zero_loss - minimise(loss, a, starts=starts).value
