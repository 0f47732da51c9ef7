"""A proved bound on the loss of softmax skip heads at finite logits, by exact Gaussian moments.

Notation of `theory.skipv1.softmax`: z_t = tau g_t with tau = eps s and s^2 ~ chi^2_a, C = 1 + v the mean of the
cosh z_t over the n pairs.  For every v >= 0, by Taylor's formula with alternating signs,

    1/C >= 1 - v,      1/C^2 <= 1 - 2 v + 3 v^2,

and what they are multiplied with in X, Y and Q is never negative: N = sum g_t sinh z_t term by term, the others as
squares.  So

    X >= E[(s/eps) N (1 - v)],      Y <= eps^-2 E[(N^2 + (d - 1 + sigma^2) sum sinh^2 z_t)(1 - 2 v + 3 v^2)],

and likewise Q.  Given s, the right sides are products of sums over the pairs: E prod_j sum_t phi_j(g_t) is a sum over
the partitions of the factors into groups that share a pair, B groups having n (n - 1) ... (n - B + 1) choices.  A group
has a moment E g^p e^(m tau g) = e^(m^2 tau^2 / 2) times 1, m tau or 1 + m^2 tau^2 for p = 0, 1, 2; more does not occur.
Last, E s^(2 i) e^(k eps^2 s^2 / 2) = a (a + 2) ... (a + 2 i - 2) (1 - k eps^2)^(-a/2 - i), for k eps^2 < 1.  The
largest k is 16, of four equal pairs in sinh^2 (cosh - 1)^2, so that eps < 1/4 is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache, reduce
from math import fsum, perm, prod
from sys import float_info

from theory.errors import BadInput, check_sizes
from theory.prompts.setting import Number
from theory.skipv1.softmax_moments import Moments

LARGEST_LOGITS = 0.25

Term = tuple[int, int, int, int]  # a sum over the pairs of g^p sinh^i (cosh - 1)^j cosh^l
Series = dict[tuple[int, int], Fraction]  # sum of coefficients times tau^i e^(k tau^2 / 2), by (k, i)

N, V, SINH_SQUARED = (1, 1, 0, 0), (0, 0, 1, 0), (0, 2, 0, 0)  # V over n is v
COSH_SQUARED, G_COSH = (0, 0, 0, 2), (1, 0, 0, 1)


def certified(d: int, n: int, sigma: Number, rank: int, logit_scale: float) -> Moments:
    """Return moments that prove a lower bound on what is explained: signal from below, square and even from above.

    With all rounding on the safe side.  Raises InvalidSize, and BadInput for rank 0 or logits outside of (0, 1/4).
    """
    check_sizes(d, n, sigma, rank)
    if not rank or not 0 < logit_scale < LARGEST_LOGITS:
        raise BadInput(f"the bound is proved for ranks from 1 and logits from 0 to {LARGEST_LOGITS}, both excluded")
    noise = float(sigma) ** 2

    def mean(terms: Sequence[Term], orders: Sequence[int], side: int) -> float:
        """Return eps^-2 E[prod of sums * sum_j orders_j v^j], times s eps for a single sum.

        side: of the rounding.
        """
        series: Series = defaultdict(Fraction)
        for power, weight in enumerate(orders):
            for key, coefficient in _expectation((*terms, *[V] * power), n).items():
                series[key] += weight * coefficient / Fraction(n) ** power
        return _over_queries(series, rank, float(logit_scale), signal=len(terms) == 1 and terms[0] == N, side=side)

    above = (1, -2, 3)
    square = mean((N, N), above, 1) + (d - 1 + noise) * mean((SINH_SQUARED,), above, 1)
    lengths = (1 + 1 / d) * mean((G_COSH, G_COSH), above, 1)
    even = lengths + (d - 1 + (rank - 1) / d + noise) * mean((COSH_SQUARED,), above, 1)
    return Moments(max(0.0, mean((N,), (1, -1), -1)), square, even)


def _over_queries(series: Series, rank: int, eps: float, signal: bool, side: int) -> float:
    """Return eps^-2 E of a series over s^2 ~ chi^2_rank, times s eps for the signal.

    Rounding is added on one side.  The powers of 1 - k eps^2 have most of it: as many units as their exponent, and more
    near eps = 1/4.
    """
    unit = (16 + rank) * float_info.epsilon / (1 - (eps / LARGEST_LOGITS) ** 2)
    terms = []
    for (k, power), coefficient in series.items():
        half = (power + signal) // 2
        growth = (1 - k * eps**2) ** (-rank / 2 - half)
        terms.append(
            float(coefficient) * eps ** (power + signal - 2) * prod(rank + 2 * i for i in range(half)) * growth
        )
    return fsum(terms) + side * unit * fsum(map(abs, terms))


@cache
def _expectation(terms: tuple[Term, ...], n: int) -> Series:
    """Return E of the product of the sums, given s."""
    total: Series = defaultdict(Fraction)
    for partition in _partitions(terms):
        for key, coefficient in reduce(_times, map(_moment, partition)).items():
            total[key] += perm(n, len(partition)) * coefficient
    return {key: coefficient for key, coefficient in total.items() if coefficient}


def _partitions(terms: tuple[Term, ...]) -> Iterator[tuple[Term, ...]]:
    """Yield every way of sharing pairs among the sums; sums that share one are multiplied."""
    if not terms:
        yield ()
        return
    first, rest = terms[0], terms[1:]
    for mask in range(2 ** len(rest)):
        chosen = [term for i, term in enumerate(rest) if mask >> i & 1]
        shared: Term = tuple(map(sum, zip(first, *chosen, strict=True)))  # type: ignore[assignment]
        for others in _partitions(tuple(term for i, term in enumerate(rest) if not mask >> i & 1)):
            yield (shared, *others)


@cache
def _moment(term: Term) -> Series:
    """Return E g^p sinh^i (cosh - 1)^j cosh^l of one pair."""
    p, i, j, more = term
    half = Fraction(1, 2)
    sinh, less, cosh = {1: half, -1: -half}, {1: half, 0: Fraction(-1), -1: half}, {1: half, -1: half}
    laurent = reduce(_convolved, [sinh] * i + [less] * j + [cosh] * more, {0: Fraction(1)})
    series: Series = defaultdict(Fraction)
    for m, weight in laurent.items():
        if p != 1:
            series[m * m, 0] += weight
        if p == 1:
            series[m * m, 1] += weight * m
        if p == 2:
            series[m * m, 2] += weight * m * m
    return dict(series)


def _convolved(left: dict[int, Fraction], right: dict[int, Fraction]) -> dict[int, Fraction]:
    out: dict[int, Fraction] = defaultdict(Fraction)
    for a, x in left.items():
        for b, y in right.items():
            out[a + b] += x * y
    return out


def _times(left: Series, right: Series) -> Series:
    out: Series = defaultdict(Fraction)
    for (k, i), x in left.items():
        for (m, j), y in right.items():
            out[k + m, i + j] += x * y
    return out
