"""The reduced model of SkipV1Former's Eqns. (5) and (6), for the checks: its prediction, and its exact minimum."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from theory.plans.heads import ORDINARY, Heads
from theory.prompts.moments import Array, PromptMoments
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights


def prediction(x: Array, y: Array, w: Weights, heads: Heads) -> Array:
    """P from the context's x and y (d, n), by sums over tokens: (d, d).  Heads are ordinary or skip heads."""
    u = np.concatenate([w.a @ x, w.b @ y])
    p: Array = sum(
        w.w[h] @ (x @ x.T + (u if head == ORDINARY else y) @ u.T) @ w.k[h] @ w.a for h, head in enumerate(heads)
    )
    return p


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
