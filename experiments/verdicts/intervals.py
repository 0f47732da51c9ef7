"""The statistics of every comparison: a mean over paired seeds, its t interval, corrected for the number of checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Interval:
    """An interval, mean +- half_width at family-wise 95 %; stderr is the standard error of the mean."""

    mean: float
    stderr: float
    half_width: float

    def root(self) -> Interval:
        """Return the interval of a mean square's root, to first order."""
        mean = math.sqrt(self.mean)
        return Interval(mean, self.stderr / 2 / mean, self.half_width / 2 / mean)

    def widened(self, stderr: float, times: float) -> Interval:
        """Return the interval against a number that is itself sampled: wider by `times` the number's standard error."""
        return Interval(self.mean, math.hypot(self.stderr, stderr), self.half_width + times * stderr)


def quantile(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t with so many degrees of freedom."""
    from scipy.special import stdtrit  # scipy.stats asks the same, and takes a hundred times as long

    return float(stdtrit(freedom, probability))


def t_interval(values: Sequence[float], family: int = 1) -> Interval:
    """Return Student's t interval for the mean of one value per seed.

    `family` is how many such intervals are judged together: each is widened (Bonferroni) so that all hold at once with
    probability 95 %.  Raises ValueError for fewer than two seeds, which have no spread.
    """
    if len(values) < 2:
        raise ValueError("an interval needs at least two seeds")
    stderr = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return Interval(float(np.mean(values)), stderr, quantile(1 - 0.025 / family, len(values) - 1) * stderr)


@lru_cache(maxsize=4096)
def share_interval(successes: int, trials: int, method: Literal["wilson", "exact"] = "wilson") -> tuple[float, float]:
    """Return a 95 % interval for a probability, from the number of successes and of trials.

    It is Wilson's, which has its level on the average; or the exact one, Clopper and Pearson's, which always has it.
    """
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(0.95, method=method)
    return float(interval.low), float(interval.high)


def against_baseline(baseline: Sequence[float], arms: Mapping[str, Sequence[float]]) -> dict[str, Interval]:
    """Return each arm's mean paired difference to the baseline, with intervals that hold for all arms at once at 95 %.

    baseline, and each of the arms: one value per seed, the same seeds in the same order.  The errors are
    `paired_differences`', of which these are as many as there are arms.  Raises ValueError for fewer than two seeds.
    """
    differences = _contrasts([*arms.values(), baseline], [(i, len(arms)) for i in range(len(arms))])
    return dict(zip(arms, differences, strict=True))


def paired_differences(
    arms: Mapping[str, Sequence[float]], pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Interval]:
    """Return the mean paired difference of each (arm, other), with intervals that hold for all pairs at once at 95 %.

    arms    one value per seed, the same seeds in the same order

    The model is a block design, value = arm + seed + error, with errors of equal variance in all arms, estimated from
    all of them together: (arms - 1)(seeds - 1) degrees of freedom where a single difference has seeds - 1, which at
    three seeds and ten arms beside a baseline is the difference between 3 and 14 standard errors.  Some arms may be
    noisier than others: where the pair's own standard error is the larger one, it counts in place of theirs, with its
    seeds - 1 degrees of freedom.  Bonferroni over the pairs.  An arm with a value that is none (nan) tells nothing of
    the errors of others.  Raises ValueError for fewer than two seeds.
    """
    place = {name: i for i, name in enumerate(arms)}
    differences = _contrasts(list(arms.values()), [(place[arm], place[other]) for arm, other in pairs])
    return dict(zip(pairs, differences, strict=True))


def _contrasts(values: Sequence[Sequence[float]], pairs: Sequence[tuple[int, int]]) -> list[Interval]:
    places = range(len(values))
    return [contrast(values, [(i == a) - (i == b) for i in places], len(pairs)) for a, b in pairs]


def contrast(cases: Sequence[Sequence[float]], weights: Sequence[float], family: int = 1) -> Interval:
    """Return sum_c weights_c mean_c, where the weights sum to zero, such as the slope of a straight line.

    cases: of each, one value per seed, the same seeds in the same order.  Model and Bonferroni as in
    `paired_differences`; of two cases it is the t interval of their paired difference.

    Raises ValueError for fewer than two cases or seeds, and for weights that do not sum to zero.
    """
    values, w = np.array(cases, dtype=float), np.array(weights, dtype=float)
    if values.ndim != 2 or w.shape != values.shape[:1]:
        raise ValueError("a contrast needs a weight for each case, and as many seeds in each")
    if min(values.shape) < 2:
        raise ValueError("an interval needs at least two seeds, and a contrast two cases")
    if abs(w.sum()) > 1e-9 * abs(w).sum():
        raise ValueError("a contrast's weights must sum to zero")
    used = w != 0
    of_seeds = w[used] @ values[used]
    values = values[used | np.isfinite(values).all(1)]
    count, seeds = values.shape
    residuals = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
    freedom = (count - 1) * (seeds - 1)
    together = float(np.sqrt((w**2).sum() / seeds * (residuals**2).sum() / freedom))
    alone = float(of_seeds.std(ddof=1) / np.sqrt(seeds))
    stderr, freedom = max((together, freedom), (alone, seeds - 1))
    return Interval(float(of_seeds.mean()), stderr, quantile(1 - 0.025 / family, freedom) * stderr)
