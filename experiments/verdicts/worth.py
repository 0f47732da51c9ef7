"""What a variant is worth in size: how large vanilla has to be to do as well.

Vanilla is trained at sizes s_1 < ... < s_k (widths, or parameters), a variant at one size of its own, on the same
seeds.  Between two sizes each seed's vanilla is a straight line in log s, and d(s) is the mean over seeds of what the
variant does better.  The worth is the least size from which on vanilla is nowhere worse, d(s) <= 0, over the variant's
own size.

Its interval inverts a test: a size is left out where the t interval of the paired differences d(s) excludes zero.  On
one straight piece, where a seed's difference is a_i + u b_i with u from 0 to 1, a size stays if

    mean(a + u b)^2 <= t^2 var(a + u b) / seeds,

a quadratic inequality in u (Fieller's), so its ends are exact and no size is tried.  A set of sizes needs no correction
for their number: it misses the true one only if the test errs there.  That is 95 % for differences that are normal, of
the curve that joins the true means at s_1 .. s_k by such lines; whether vanilla follows it in between is not tested.

Beyond its sizes nothing is known of vanilla but that it does not get worse by growing.  So the set goes on below s_1
unless the variant is better than vanilla there, and beyond s_k unless it is worse there.  Where vanilla's means fall
somewhere by growing, sizes that stay need not hang together: the interval is the span of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite, log, nan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from experiments.verdicts.intervals import Interval, quantile

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Worth:
    """Sizes of vanilla over the variant's own.

    factor       of the means; -inf: less than the least size of vanilla; inf: more than the largest; NaN: not known
    least, most  of those that are not rejected: -inf and inf where they reach beyond vanilla's sizes
    """

    factor: float
    least: float
    most: float

    @property
    def bounded(self) -> bool:
        return isfinite(self.least) and isfinite(self.most)

    def holds(self, factor: float) -> bool:
        return self.least <= factor <= self.most

    def of_twin(self) -> Interval | None:
        """Of the logarithm of what is worth 1, about its factor: an end that is not known is taken to lie as far off as
        the other.  None where too little is known."""
        ends = [log(end) for end in (self.least, self.most) if isfinite(end)]
        if not ends or not isfinite(self.factor):
            return None
        middle = log(self.factor)
        return Interval(middle, nan, max(abs(end - middle) for end in ends))

    def told(self) -> str:
        """Such as 1.21 (0.98 to more than is known)."""
        least = f"{self.least:.2f}" if isfinite(self.least) else "less than is known"
        most = f"{self.most:.2f}" if isfinite(self.most) else "more than is known"
        factor = f"{self.factor:.2f}" if isfinite(self.factor) else "beyond vanilla's sizes"
        return f"{factor} ({least} to {most})"


UNKNOWN = Worth(nan, -inf, inf)


def worth(
    own: float,
    values: Sequence[float],
    vanilla: Mapping[float, Sequence[float]],
    *,
    better: Literal["higher", "lower"],
    family: int = 1,
    level: float = 0.95,
) -> Worth:
    """Of a variant of size `own`.

    values   one a seed; vanilla: by size, one a seed, the same seeds in the same order
    better   which values are
    family   how many such intervals are judged together: each is widened (Bonferroni)

    UNKNOWN where a value is none, of a training that diverged.  Raises ValueError for fewer than two sizes or seeds,
    for other numbers of seeds, and for sizes that are not above zero.
    """
    sizes = sorted(vanilla)
    counts = {len(values), *(len(vanilla[s]) for s in sizes)}
    if len(sizes) < 2 or min(counts) < 2 or len(counts) > 1:
        raise ValueError("a worth needs two sizes of vanilla or more, and two seeds or more, as many of each")
    if not (own > 0 and sizes[0] > 0 and all(map(isfinite, (own, *sizes)))):
        raise ValueError(f"sizes must be above zero, got {own} and {sizes}")
    sign = 1.0 if better == "higher" else -1.0
    # How much better the variant is: (sizes, seeds).
    ahead = sign * (np.array(values, dtype=float) - np.array([vanilla[s] for s in sizes], dtype=float))
    if not np.isfinite(ahead).all():
        return UNKNOWN
    allowed = quantile(1 - (1 - level) / 2 / family, len(values) - 1) ** 2 / len(values)
    logs = [log(s) for s in sizes]
    kept = [x for i, (x, y) in enumerate(pairwise(logs)) for x in _kept(x, y, ahead[i], ahead[i + 1], allowed)]
    first, last = (float(ahead[i].mean()) for i in (0, -1))
    below = first <= 0 or _stays(ahead[0], allowed)
    beyond = last >= 0 or _stays(ahead[-1], allowed)
    # Nothing stays only where the variant is ahead everywhere, or nowhere: means that change sides meet in between.
    least, most = (min(kept), max(kept)) if kept else (logs[-1], logs[0])
    return Worth(
        _factor(logs, ahead.mean(axis=1), own),
        -inf if below else _over(least, own),
        inf if beyond else _over(most, own),
    )


def _over(log_size: float, own: float) -> float:
    return float(np.exp(log_size - log(own)))


def _stays(differences: Array, allowed: float) -> bool:
    return bool(differences.mean() ** 2 <= allowed * differences.var(ddof=1))


def _kept(x: float, y: float, at_x: Array, at_y: Array, allowed: float) -> Iterator[float]:
    """The ends of what stays between x and y, in log s: roots of the quadratic, x and y themselves where they stay, and
    where the means meet, which no rounding may lose."""
    slope = at_y - at_x
    (var, cov), (_, var_of_slope) = np.cov(at_x, slope)
    mean, rise = at_x.mean(), slope.mean()
    square = rise**2 - allowed * var_of_slope
    linear, constant = 2 * (mean * rise - allowed * cov), mean**2 - allowed * var
    ends = [complex(u) for u in np.roots([square, linear, constant])]
    inside = [u.real for u in ends if u.imag == 0 and 0 <= u.real <= 1]
    inside += [u for u, at in ((0.0, at_x), (1.0, at_y)) if _stays(at, allowed)]
    if mean * (mean + rise) < 0:
        inside.append(-mean / rise)
    yield from (x + (y - x) * float(u) for u in inside)


def _factor(logs: Sequence[float], ahead: Array, own: float) -> float:
    """The least size from which on the means are nowhere ahead of vanilla's."""
    if ahead[-1] > 0:
        return inf
    for i in range(len(logs) - 2, -1, -1):
        if ahead[i] > 0:
            share = ahead[i] / (ahead[i] - ahead[i + 1])
            return _over(logs[i] + (logs[i + 1] - logs[i]) * float(share), own)
    return _over(logs[0], own) if ahead[0] == 0 else -inf
