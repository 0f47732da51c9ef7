"""Claims on R^2 as a guide to what a conversion costs: it is none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.reading import variance as variance_theory
from theory.reading.token_values import linear_error, linear_map, r_squared
from theory.reading.variance import (
    HeadExample,
    cost,
    first_kept,
    loss,
    quiet,
    quiet_cost,
    quiet_r_squared,
    refitted_cost,
    sink,
    sink_cost,
    sink_r_squared,
    spare,
    token_values,
)
from theory.skipv1.paper import PAPER

CLOSE = 1e-9

VARIANCE = Claim(
    "reading.explained-variance",
    PAPER.ours,
    place="theory/reading/variance.py; bears on conversion of checkpoints, section 5.1",
    statement="The share of a later value's variance that layer 1's values explain, R^2, says nothing of the cost of "
    "reading them instead.  With a sink, one token of n that most attention goes to and whose own value is zero, "
    "R^2 = 1 - 1/n at any cost, and keeping the first token's value takes the cost away; with variance where no score "
    "depends on it, R^2 = s^2 / (1 + s^2), of values and of what attention reads, at the cost of all that the scores "
    "say; and where another head reads the same, R^2 = 0 costs nothing once the projection is refitted.",
    assumes="patterns as they were; the best linear read of layer 1's values; without an offset for the sink",
    verdict="verified",
    proof=variance_theory,
    uses=("reading.refit", "reading.token-values"),
)


def literal_loss(example: HeadExample, values: list[list[float]], projection: list[list[float]]) -> float:
    """Return the mean cross-entropy in nats, query by query and token by token."""
    total = 0.0
    for query, right in zip(example.pattern, example.right, strict=True):
        read = [sum(a * row[i] for a, row in zip(query, values, strict=True)) for i in range(len(values[0]))]
        scores = [sum(w * x for w, x in zip(row, read, strict=True)) for row in projection]
        total += float(np.logaddexp.reduce(scores)) - scores[right]
    return total / len(example.right)


def literal_cost(example: HeadExample) -> float:
    projection = example.projection.tolist()
    before, after = (literal_loss(example, v.tolist(), projection) for v in (example.own, example.converted))
    return after - before


SINKS = tuple(product((1, 5, 40), (0.3, 0.9), (0.5, 8.0, 60.0)))


@VARIANCE.check(
    "a sink among 3, 11 and 81 tokens, query by query: u of the cost log((1 + e^u) / 2)",
    states=lambda n, share, gain: gain * share * (n - 1) / n,
    control=lambda n, share, gain: gain / n,
    wrong="as R^2 has it, one token in n",
)
def a_sink_costs(score: Callable[[int, float, float], float]) -> Conditions:
    for pairs, share, gain in SINKS:
        example, n = sink(pairs, share, gain), 2 * pairs + 1
        expected = float(np.logaddexp(0, score(n, share, gain)) - np.log(2))
        yield abs(literal_cost(example) - expected) <= CLOSE * (1 + expected)
        yield abs(cost(example) - expected) <= CLOSE * (1 + expected)
        yield abs(sink_cost(pairs, share, gain) - expected) <= CLOSE * (1 + expected)
        values = example.converted.tolist()
        yield abs(loss(example, example.converted, example.projection) - np.log(2) - expected) <= CLOSE * (1 + expected)
        yield abs(literal_loss(example, values, example.projection.tolist()) - np.log(2) - expected) <= CLOSE * (
            1 + expected
        )


@VARIANCE.check(
    "the same sinks: the explained share of the mean square, of n",
    states=lambda n: 1 - 1 / n,
    control=lambda n: 1 - 2 / n,
    wrong="two tokens are missed",
)
def a_sink_is_explained(share: Callable[[int], float]) -> Conditions:
    for pairs, attention, gain in SINKS:
        example, n = sink(pairs, attention, gain), 2 * pairs + 1
        of = token_values(example)
        yield abs(1 - linear_error(of) / float((example.own**2).mean()) - share(n)) <= CLOSE
        yield abs(sink_r_squared(pairs) - share(n)) <= CLOSE
        yield np.allclose(example.converted, example.first @ linear_map(of).T, rtol=0, atol=CLOSE)
        yield np.allclose(example.pattern.sum(1), 1, rtol=0, atol=CLOSE) and bool((example.pattern >= 0).all())
        yield abs(example.own[0, 0]) == 0 < attention == example.pattern[0, 0]


@VARIANCE.check(
    "the same sinks where the first token keeps its own value: the cost",
    states=first_kept,
    control=lambda example: example,
    wrong="it does not",
)
def a_sink_is_kept(kept: Callable[[HeadExample], HeadExample]) -> Conditions:
    for pairs, share, gain in SINKS:
        example = sink(pairs, share, gain)
        conversion = kept(example)
        yield abs(literal_cost(conversion)) <= CLOSE * gain
        yield np.array_equal(conversion.converted[1:], example.converted[1:])
        yield np.array_equal(conversion.own, example.own)
        yield np.array_equal(conversion.projection, example.projection)


@VARIANCE.check(
    "variance s^2 along a direction that no score depends on: R^2 of values and of what attention reads, and the cost",
    states=lambda gain: float(np.log(2) - np.log1p(np.exp(-gain))),
    control=lambda gain: 0.0,
    wrong="nothing, as R^2 near 1 suggests",
)
def loud_where_nothing_listens(nats: Callable[[float], float]) -> Conditions:
    for size, gain in product((0.0, 1.0, 30.0), (0.5, 3.0, 20.0)):
        example, share = quiet(size, gain), size**2 / (1 + size**2)
        of = token_values(example)
        yield abs(r_squared(of) - share) <= CLOSE
        yield abs(quiet_r_squared(size) - share) <= CLOSE
        yield np.allclose(example.converted, example.first @ linear_map(of).T, rtol=0, atol=CLOSE)
        read, after = example.pattern @ example.own, example.pattern @ example.converted
        yield abs(1 - ((read - after) ** 2).sum() / (read**2).sum() - share) <= CLOSE
        yield abs(literal_cost(example) - nats(gain)) <= CLOSE
        yield abs(quiet_cost(gain) - nats(gain)) <= CLOSE
        yield abs(cost(example) - nats(gain)) <= CLOSE


@VARIANCE.check(
    "two heads that read the same, one of them given an independent value: costs with the projection as it was, and "
    "refitted",
    states=(0.5, 0.0),
    control=(0.5, 0.5),
    wrong="a refit does not help",
    others={"a value that is not explained costs as all": (1.0, 0.0)},
)
def a_spare_head(shares: tuple[float, float]) -> Conditions:
    """Compare in units of what all that the scores say is worth."""
    for gain in (0.5, 3.0, 20.0):
        example = spare(gain)
        whole = float(np.log(2) - np.log1p(np.exp(-gain)))
        of = token_values(example)
        yield abs(r_squared(of)) <= CLOSE
        yield abs(literal_cost(example) - shares[0] * whole) <= CLOSE
        yield abs(cost(example) - shares[0] * whole) <= CLOSE
        yield abs(refitted_cost(example) - shares[1] * whole) <= CLOSE
        yield example.converted[:, 0].tolist() == example.first[:, 0].tolist()
