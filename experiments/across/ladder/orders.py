"""The order of the variants at the first width, rung by rung, against the toy's."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from experiments.across.ladder.reading import Results
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import t_interval
from experiments.verdicts.orders import Pairs, agreement, null_balances, widest_by_chance

WIDTH = "toy.width"
LEVEL = 0.05


def order(results: Results, rung: str, task: str) -> Pairs:
    """The pairs (better, worse) at the first width whose paired difference is told from zero, family-wise."""
    width = results.width(task)
    arms = [v for v in results.distinct(rung, task, width) if results.converged(rung, task, v, width)]
    pairs = list(combinations(arms, 2))
    found = []
    for a, b in pairs:
        shares = zip(results.shares(rung, task, a, width), results.shares(rung, task, b, width), strict=True)
        difference = t_interval([x - y for x, y in shares], len(pairs))
        if abs(difference.mean) > difference.half_width:
            found.append((a, b) if difference.mean > 0 else (b, a))
    return found


def places(models: Iterable[str], told: Pairs) -> dict[str, float]:
    """Ranks from 1, for the model that is better than all others: the middle of the places that a model may have.

    told: the pairs (better, worse)
    """
    models = list(models)
    worse = {model: sum(b == model for _, b in told) for model in models}  # so many are better
    better = {model: sum(a == model for a, _ in told) for model in models}
    return {model: 1 + (len(models) - 1 + worse[model] - better[model]) / 2 for model in models}


def levels(results: Results, task: str) -> dict[str, int]:
    """The toy's order at the first width, of what it covers: 0 for the best, equal numbers for ties."""
    width = str(results.width(task))
    shares = {v: by_width[width] for v, by_width in results.tasks[task]["share"].items()}
    known = {v: round(share, 9) for v, share in shares.items() if share is not None}
    best_first = sorted(set(known.values()), reverse=True)
    return {v: best_first.index(share) for v, share in known.items()}


def of_order(results: Results, rung: str, task: str) -> Expectation:
    """Beside the exact permutation distribution: 95 % of it lie inside the interval.

    Undecided where no order of all variants lies outside of that: the toy tells too few apart.
    """
    models = results.distinct(rung, task, results.width(task))
    known = {v: level for v, level in levels(results, task).items() if v in models}
    possible = null_balances(known, list(combinations(known, 2)))
    pairs = [pair for pair in order(results, rung, task) if pair[0] in known and pair[1] in known]
    null, found = null_balances(known, pairs), agreement(known, pairs)
    widest = float(widest_by_chance(null, LEVEL))
    return Expectation(
        id=f"order/{rung}/{task}",
        group=f"rung {rung}: order of the variants at width {results.at_width(task)}",
        claim=WIDTH,
        statement=f"variants that differ stand in the toy's order ({task}): {found.concordant} pairs do, "
        f"{found.discordant} stand in the opposite one, {found.tied} differ that the toy ties",
        rule="sign",
        predicted=1.0,
        measured=float(found.balance),
        stderr=sum(p * balance**2 for balance, p in null.items()) ** 0.5,
        tolerance=widest,
        controls=((0.0, widest),),  # a toy that tells no pair apart
        quantity="pairs in the toy's order, less those against it",
        decided=max(possible) > widest_by_chance(possible, LEVEL),
    )
