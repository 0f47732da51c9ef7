"""The interval at which to save where machines fail at random: what saving costs, and where that is least.

A computation of W seconds saves after every `interval` seconds of work, at `cost` seconds each.  Failures come as a
Poisson process of rate 1 / `mean`; after one it takes `restart` seconds, in which it can fail again, to be where the
last save left it.  A stretch of a seconds of work and its save succeeds with probability exp(-(a + c) / M), and what is
lost by a failure is memoryless, so (Daly 2006, Eqn. 20)

    expected time of a stretch = M exp(R / M) (exp((a + c) / M) - 1),

exact for every M.  Divided by a, it is least where 1 - a / M = exp(-(a + c) / M); to first order in sqrt(c / M) that is
Young's (1974) interval sqrt(2 c M).
"""

from __future__ import annotations

from math import exp, expm1, sqrt


def young(cost: float, mean: float) -> float:
    """Return the interval, in seconds of work, that loses least time, to first order in cost / mean."""
    return sqrt(2 * cost * mean)


def best(cost: float, mean: float) -> float:
    """Return the exact optimum: the root of d/da log(rate) = 0, 1 - a / M = exp(-(a + c) / M), by Newton's steps."""
    a = young(cost, mean)
    for _ in range(100):
        tail = exp(-(a + cost) / mean)
        step = (1 - a / mean - tail) / ((tail - 1) / mean)
        a -= step
        if abs(step) <= 1e-12 * a:
            return a
    raise ArithmeticError(f"no interval is found for a cost of {cost} and a mean of {mean}")


def expected(work: float, interval: float, cost: float, mean: float, restart: float) -> float:
    """Return the mean seconds until so much work is done and saved, without the first start.

    Work is cut into whole intervals and a rest.
    """
    whole, rest = divmod(work, interval)
    grown = whole * expm1((interval + cost) / mean) + (expm1((rest + cost) / mean) if rest else 0.0)
    return mean * exp(restart / mean) * grown
