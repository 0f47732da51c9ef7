"""Claims on mixing: how fast streams become one, and what finite Sinkhorn iterations leave."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from experiments.hyper.claims.streams import CLOSE, MHC
from experiments.hyper.networks import (
    aligned,
    doubly_stochastic,
    floats,
    fractions,
    mixing,
    nonlinear,
    passed,
)
from experiments.ledger.claim import Claim, Conditions
from theory.hyper import merging
from theory.hyper import sinkhorn as sinkhorn_theory
from theory.hyper.merging import least_shrinking, shrinking, spread_bound, toward_mean
from theory.hyper.paper import PAPER
from theory.hyper.sinkhorn import (
    column_excess,
    crowded,
    drift,
    excess_bound,
    gain_bound,
    sinkhorn,
    slowest,
    steepest,
    two_stream_excess,
)
from theory.hyper.streams import Sublayer, rows

if TYPE_CHECKING:
    from theory.hyper.streams import Array

MERGING = Claim(
    "hyper.merging",
    PAPER.ours,
    place=f"theory/hyper/merging.py; bears on {MHC}, section 4.1",
    statement="Doubly stochastic mixing acts on the mean of the streams and on their differences apart, and shrinks "
    "differences by its second singular value s.  With s < 1 streams keep within a distance of their mean that does "
    "not grow with depth, and what reads can do to tell outputs apart fades as s to the power of their distance.",
    assumes="H exactly doubly stochastic; bounded outputs",
    verdict="verified",
    proof=merging,
    uses=("hyper.doubly-stochastic",),
)


def _differences(x: Array) -> float:
    return float(np.linalg.norm(x - x.mean(0)))


@MERGING.check(
    "aligned networks whose mixing shrinks all differences by s: their size after 1 to 200 sublayers attains the bound",
    states=lambda s, count: (1 - s**count) / (1 - s),
    control=lambda s, count: count,
    wrong="differences add up, as the mean does",
)
def differences_are_bounded(law: Callable[[float, int], float]) -> Conditions:
    """Compare in units of what one sublayer writes to differences."""
    for n, s, count in product((2, 4), (0.0, 0.5, 0.9), (1, 3, 200)):
        write = 1 + 0.3 * np.eye(n)[0]
        weights = [Sublayer(np.ones(n), toward_mean(n, s), write)] * count
        found = passed(weights, np.ones(n), np.eye(2)[0], aligned([2.0] * count, [1.0] * count)).streams[-1]
        expected = law(s, count) * 2 * _differences(write)
        yield abs(_differences(found) - expected) <= 1e-9 * expected
        yield abs(spread_bound(weights, [2.0] * count) - expected) <= 1e-9 * expected


@MERGING.check(
    "random sublayers and mixing: the size of differences over its bound, 2 and 5 streams",
    states=1.0,
    control=0.5,
    wrong="half the bound",
)
def differences_keep_below(factor: float) -> Conditions:
    count = 6
    for n in (2, 5):
        rng = np.random.default_rng(n)
        weights = floats(mixing(n, [doubly_stochastic(n, rng) for _ in range(count)], rng))
        found = passed(weights, np.ones(n), np.ones(4), nonlinear(count, 4, seed=n))
        sizes = [float(np.linalg.norm(v)) for v in found.outputs[1:]]
        for i, streams in enumerate(found.streams[1:], 1):
            yield _differences(streams) <= factor * spread_bound(weights[:i], sizes[:i]) * (1 + CLOSE)


@MERGING.check(
    "what a read holds of output j beyond a residual stream's weight: times s for every sublayer between, in fractions",
    states=lambda s, between: s**between,
    control=lambda s, between: 1,
    wrong="as much at every distance, as with H = I",
    kind="exact",
)
def choice_fades(law: Callable[[Fraction, int], Fraction]) -> Conditions:
    for n, s in ((3, Fraction(2, 3)), (4, Fraction(1, 2))):
        rng = np.random.default_rng(n)
        sublayers = mixing(n, [toward_mean(n, s)] * 5, rng)
        last = fractions(rng.integers(1, 9, n))
        row = rows(sublayers, last)[-1]
        for j, sublayer in enumerate(sublayers, 1):
            plain = last.sum() * sublayer.write.sum() / n
            apart = ((last - last.sum() / n) * sublayer.write).sum()
            yield row[j] - plain == law(s, 5 - j) * apart


@MERGING.check(
    "s(H) lies below 1 - n times the least entry, and is it where all differences shrink alike",
    states=lambda mix: least_shrinking(mix),
    control=lambda mix: 1 - mix.min() * 2 * len(mix),
    wrong="twice as fast",
    others={"as if of two streams": lambda mix: 1 - 2 * mix.min()},
)
def least_entry_bounds(bound: Callable[[Array], float]) -> Conditions:
    rng = np.random.default_rng(0)
    for n in (2, 3, 5):
        mix = doubly_stochastic(n, rng).astype(float)
        for matrix in (mix, 0.5 * mix + 0.5 / n, toward_mean(n, 0.25)):
            yield shrinking(matrix) <= bound(matrix) + CLOSE
        yield abs(shrinking(toward_mean(n, 0.25)) - bound(toward_mean(n, 0.25))) <= CLOSE
        yield abs(shrinking(np.eye(n)[::-1]) - 1) <= CLOSE  # a permutation shrinks nothing
    yield shrinking(np.ones((1, 1))) == 0


@MERGING.check(
    "circulant mixing of three streams: s is the modulus of the weights' Fourier coefficient",
    states=lambda x, y, z: (x * x + y * y + z * z - x * y - y * z - z * x) ** 0.5,
    control=lambda x, y, z: 1 - 3 * min(x, y, z),
    wrong="1 - n times the least entry, attained",
)
def circulant_mixing(modulus: Callable[[float, float, float], float]) -> Conditions:
    for weights in ((0.5, 0.3, 0.2), (0.0, 0.9, 0.1), (0.2, 0.2, 0.6)):
        mix = np.array([np.roll(weights, i) for i in range(3)])
        yield abs(shrinking(mix) - modulus(*weights)) <= CLOSE
        yield abs(least_shrinking(mix) - 1 + 3 * min(weights)) <= CLOSE


SINKHORN = Claim(
    "hyper.sinkhorn",
    PAPER.ours,
    place=f"theory/hyper/sinkhorn.py; bears on {MHC}, Eqn. 9 (20 iterations) and section 5.4 (gains over depth)",
    statement="Finite iterations leave rows that sum to 1 and columns that sum to 1 + delta at most.  Bounds on "
    "streams hold as they are; through the mixing of L sublayers gradients grow by at most (1 + delta)^L, which is "
    "attained for L < n and delta <= 1 / (n - 1), and by at most n, whatever the depth and the number of iterations, "
    "which is approached.  On two streams delta < 1 / (2 t) after t iterations, so 2.5 % after 20, and no smaller "
    "number will do; on three and more no number of iterations is enough for every matrix: delta can stay at n - 2.  "
    "For logits in [-B, B], delta <= exp(2 B tanh(B)^(2 t - 1)) - 1.",
    assumes="positive matrices; columns divided first, rows last; exact arithmetic",
    verdict="verified",
    proof=sinkhorn_theory,
)
TINY = Fraction(1, 10**40)


@SINKHORN.check(
    "two streams: the slowest matrices come as near to this as one likes, and none of many lies beyond, 1 to 20 "
    "iterations",
    states=lambda t: 1 / (2 * t),
    control=lambda t: 1 / (2 * t + 1),
    wrong="1 / (2 t + 1)",
    others={"a geometric sequence": lambda t: 0.5**t, "half of it for ten times the iterations": lambda t: t**-0.3 / 2},
)
def two_streams(law: Callable[[int], float]) -> Conditions:
    rng = np.random.default_rng(0)
    yield slowest(TINY).tolist() == [[TINY, TINY**2], [1, 1]]
    for t in (1, 2, 5, 20):
        found = float(column_excess(sinkhorn(slowest(TINY), t)))
        yield abs(found - law(t)) <= CLOSE
        yield abs(two_stream_excess(t) - law(t)) <= CLOSE
        logits = rng.uniform(0, 20, (1000, 1, 1)) * rng.standard_normal((1000, 2, 2))
        yield (column_excess(sinkhorn(np.exp(logits), t)) < law(t)).all()


@SINKHORN.check(
    "the largest column sum of a product of up to n - 1 matrices with rows of 1 and columns of 1 + delta at most, in "
    "fractions, 2 to 5 streams",
    states=lambda delta, count: (1 + delta) ** count,
    control=lambda delta, count: 1 + count * delta,
    wrong="excesses add up",
    kind="exact",
)
def excess_compounds(law: Callable[[Fraction, int], Fraction]) -> Conditions:
    for n in (5, 3, 2):
        for delta in (Fraction(1, n - 1), Fraction(1, 7 * n)):
            yield len(steepest(n, delta)) == n - 1
            product_so_far = np.eye(n, dtype=int) * Fraction(1)
            for count, matrix in enumerate(steepest(n, delta), 1):
                yield (matrix >= 0).all() and (matrix.sum(1) == 1).all() and column_excess(matrix) == delta
                product_so_far = product_so_far @ matrix
                gain = column_excess(product_so_far) + 1
                yield gain == law(delta, count)
                yield gain == gain_bound(n, count, delta)


@SINKHORN.check(
    "one matrix that every stream loses a little by to the first: its powers' largest column sum, and its limit",
    states=lambda n: n,
    control=lambda n: n * n,
    wrong="a gain beyond the number of streams",
    others={"a gain of at most 2": lambda n: 2},
)
def gain_ends_at_the_streams(limit: Callable[[int], int]) -> Conditions:
    for n, delta in ((3, 0.25), (4, 0.025)):
        matrix = drift(n, delta)
        yield abs(matrix[:, 0].sum() - 1 - delta) <= CLOSE and np.allclose(matrix.sum(1), 1, rtol=CLOSE)
        yield abs(column_excess(matrix) - delta) <= CLOSE
        for count in (1, 10, 5000):
            gain = column_excess(np.linalg.matrix_power(matrix, count)) + 1
            expected = limit(n) - (limit(n) - 1) * (1 - delta / (n - 1)) ** count
            yield abs(gain - expected) <= 1e-9
            yield gain <= gain_bound(n, count, delta) * (1 + CLOSE)
        yield abs(gain - gain_bound(n, 5000, delta)) <= 1e-9


@SINKHORN.check(
    "largest gradients and sums of streams through 200 products of one iteration each, over their bound",
    states=1.0,
    control=0.25,
    wrong="no growth at all, as with exact mixing of four streams",
)
def gains_keep_below(factor: float) -> Conditions:
    """Check row sums too: streams do not grow."""
    rng = np.random.default_rng(0)
    for n in (2, 4):
        matrices = [sinkhorn(np.exp(3 * rng.standard_normal((n, n))), 1) for _ in range(200)]
        worst = max(column_excess(m) for m in matrices)
        through = reduce(np.matmul, matrices)
        yield np.allclose(through.sum(1), 1, rtol=1e-9)
        for count in (1, 200):
            part = reduce(np.matmul, matrices[:count])
            yield column_excess(part) + 1 <= factor * gain_bound(n, count, worst) * (1 + CLOSE)


@SINKHORN.check(
    "crowded matrices: columns that stay this far off after 1, 20 and 100 iterations, three to five streams",
    states=lambda n: n - 2,
    control=lambda n: 0.0,
    wrong="iterations converge for all matrices alike",
)
def crowded_stay_off(least: Callable[[int], float]) -> Conditions:
    yield crowded(3, 0.1).tolist() == [[1, 0.1, 0.1], [1, 0.1, 0.1], [1, 1, 1]]
    for n, t in product((3, 4, 5), (1, 20, 100)):
        yield crowded(n, 0.5).max() == 1
        found = float(column_excess(sinkhorn(crowded(n, 1e-200), t)))
        yield least(n) - CLOSE <= found <= least(n) + 1 / (n * n - n + 1) + CLOSE


@SINKHORN.check(
    "logits in an interval: columns keep within the bound, at its ends too",
    states=lambda b, t: np.expm1(2 * b * np.tanh(b) ** (2 * t - 1)),
    control=lambda b, t: np.expm1(2 * b * np.tanh(b) ** (4 * t - 1)),
    wrong="twice as fast",
)
def logits_bound(law: Callable[[float, int], float]) -> Conditions:
    rng = np.random.default_rng(0)
    for b, t in product((0.0, 0.5, 2.0, 4.0), (1, 3, 20)):
        bound = law(b, t)
        yield abs(excess_bound(b, t) - bound) <= CLOSE * (1 + bound)
        for n in (2, 4):
            size = (200, n, n)
            for logits in (rng.uniform(-b, b, size), rng.choice([-b, b], size)):
                yield (column_excess(sinkhorn(np.exp(logits), t)) <= bound + CLOSE).all()


TYPICAL = Claim(
    "hyper.sinkhorn-typical",
    PAPER.ours,
    place=f"{MHC}, Eqn. 9: 20 iterations",
    statement="Four streams, normal logits, 20 iterations: half of the matrices have columns within 1e-11 of 1 at a "
    "deviation of 1, within 0.0003 at 3 and within 0.01 at 5; the worst of a hundred is off by 1e-6, 0.02 and 0.05.",
    assumes="independent logits of one deviation; trained logits may be otherwise",
    verdict="verified",
    proof=sinkhorn_theory,
    uses=("hyper.sinkhorn",),
)


@TYPICAL.check(
    "2,000 draws at each deviation of the logits: the median and the 99th percentile of delta lie in these decades",
    states={1: (-13, -7), 3: (-4, -2), 5: (-3, -2)},
    control={1: (-13, -7), 3: (-13, -7), 5: (-13, -7)},
    wrong="20 iterations are as good for spread logits",
    kind="sampled",
)
def typical_excess(decades: dict[int, tuple[int, int]]) -> Conditions:
    for deviation, powers in decades.items():
        logits = deviation * np.random.default_rng(deviation).standard_normal((2000, 4, 4))
        drawn = column_excess(sinkhorn(np.exp(logits), 20))
        found = (np.median(drawn), np.quantile(drawn, 0.99))
        yield tuple(int(np.floor(np.log10(x))) for x in found) == powers


@TYPICAL.check(
    "after five iterations at a deviation of 1, the 99th percentile",
    states=-2,
    control=-7,
    wrong="as after 20",
    kind="sampled",
)
def five_iterations(power: int) -> bool:
    drawn = column_excess(sinkhorn(np.exp(np.random.default_rng(0).standard_normal((2000, 4, 4))), 5))
    return int(np.floor(np.log10(np.quantile(drawn, 0.99)))) == power
