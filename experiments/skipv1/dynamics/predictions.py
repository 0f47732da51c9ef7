"""What theory says beforehand of the staircases and of the Gaussian starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from experiments.skipv1.dynamics.points import Shares, Staircase, rows
from experiments.skipv1.dynamics.training import exact_path
from experiments.store.folders import Json

SAMPLES = 1000  # of Gaussian starts, for the shares that Theorem 3 bounds
RATIOS = [2 ** (i / 2) for i in range(-8, 9)]


def predicted_staircase(stairs: Staircase) -> Json:
    """Heights and times in closed form, and the exact gradient flow from the same start with its own times."""
    from theory.skipv1.dynamics import step_times
    from theory.skipv1.landscape import plateau

    task, path = stairs.size.floats, exact_path(stairs)
    heights = [float(plateau(*task, stairs.rows, k)) for k in range(stairs.rank + 1)]
    return {
        "toy": stairs.toy,
        "d": stairs.size.d,
        "rank": stairs.rank,
        "unit": stairs.size.signal_share * stairs.rows,
        "heights": heights,
        "steps": [float(t) for t in step_times(*task, stairs.scales, stairs.kind)],
        "times": stairs.times,
        "path": path,
        "path_steps": crossings(stairs.times, path, heights),
    }


def crossings(times: Sequence[float], losses: Sequence[float], heights: Sequence[float]) -> list[float]:
    """When the losses first come half way from each plateau to the next, between times by straight lines; NaN: not at
    all."""
    return [_crossing(times, losses, (a + b) / 2) for a, b in pairwise(heights)]


def _crossing(times: Sequence[float], losses: Sequence[float], level: float) -> float:
    for i in range(1, len(times)):
        if losses[i] < level:
            share = (losses[i - 1] - level) / (losses[i - 1] - losses[i]) if losses[i - 1] > level else 0.0
            return times[i - 1] + share * (times[i] - times[i - 1])
    return math.nan


def predicted_shares(shares: Shares) -> Json:
    """The arms, and over the ratio of keys to compression the shares of starts of which Theorem 3 says that one skip
    head's signal will be learned whole, or may be."""
    d = shares.size.d
    arms = [
        {
            "key": arm.key,
            **{name: getattr(arm, name) for name in ("toy", "rank", "heads", "keys")},
            "unit": shares.size.signal_share * rows(arm.toy, d, arm.rank),
        }
        for arm in shares.arms
    ]
    ranks = sorted({arm.rank for arm in shares.arms if arm.bounded})
    return {"d": d, "arms": arms, "ratios": RATIOS, "bounds": {str(rank): _bounds(d, rank) for rank in ranks}}


def _bounds(d: int, rank: int) -> Json:
    import numpy as np

    from theory.skipv1.dynamics import rank_bounds

    rng = np.random.default_rng(0)
    starts = [(rng.standard_normal((rank, rank)), rng.standard_normal((rank, d))) for _ in range(SAMPLES)]
    bounds = np.array([[rank_bounds(ratio * k, a) for k, a in starts] for ratio in RATIOS])
    least, most = (bounds == rank).mean(axis=1).T
    return {"reached": least.tolist(), "reachable": most.tolist()}
