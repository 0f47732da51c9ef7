"""The statistics of every comparison: a mean over paired seeds, its t interval, corrected for the number of checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """mean +- half_width at family-wise 95 %; stderr is the standard error of the mean."""

    mean: float
    stderr: float
    half_width: float


def t_interval(values: Sequence[float], family: int = 1) -> Interval:
    """Student's t interval for the mean of one value per seed.

    `family` is how many such intervals are judged together: each is widened (Bonferroni) so that all hold at once with
    probability 95 %.  Raises ValueError for fewer than two seeds, which have no spread.
    """
    from scipy.stats import t

    if len(values) < 2:
        raise ValueError("an interval needs at least two seeds")
    stderr = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return Interval(float(np.mean(values)), stderr, float(t.ppf(1 - 0.025 / family, len(values) - 1)) * stderr)
