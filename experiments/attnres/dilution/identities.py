"""Identities and bounds of shares: they must hold in every network."""

from __future__ import annotations

import math
from collections.abc import Iterator

from experiments.attnres.dilution.points import CLAIM, cell, compared, of_seeds, words
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.checks import Check

EXACT = 1e-9  # of float64
STORED = 1e-6  # of shares with seven digits
FLOAT32 = 2.0**-23


def identities(prediction: Json, measurement: Json, depth: int) -> Iterator[Check]:
    """Of all rules with a model of their own at this depth, of which a seed did not diverge."""
    for rule in (BASELINE, *compared(prediction)):
        at = cell(rule, depth)
        if at in prediction["same"] or not of_seeds(measurement, at, "end"):
            continue
        yield from _reads(prediction, measurement, rule, depth)
        yield from _law(prediction, measurement, rule, depth)
        yield from _start(prediction, measurement, rule, depth)
        yield from _range(measurement, rule, depth)
        yield from _cap(prediction, measurement, rule, depth)


def _reads(prediction: Json, measurement: Json, rule: str, depth: int) -> Iterator[Check]:
    """Rounding is the model's, in float32: of a logit, a product of d numbers whose partial sums stay below z = length
    * sqrt d, at most about d z eps; of a weight, twice that; of a sum, eps for every output."""
    ends = of_seeds(measurement, cell(rule, depth), "end")
    if any(p["error"] is None for p in ends):
        return
    d, outputs = measurement["d_model"], len(prediction["law"][str(depth)])
    z = max(max(p["lengths"] or [0.0]) for p in ends) * math.sqrt(d)
    rounding = 2 * FLOAT32 * (outputs + d * z)
    # Norms add up to at most sqrt(outputs) times the root of their squares' sum.
    without = [max((s / i) ** 0.5 for i, s in enumerate(p["square"]["newest"], 1) if i > 1) for p in ends]
    yield Check(
        id=f"reads/{rule}/{depth}",
        group=f"{words(rule)}: what is read less coefficients times outputs, trained",
        claim=CLAIM,
        statement=f"at {depth} layers every read of {words(rule)} is the sum of its coefficients times outputs",
        predicted=0.0,
        measured=max(p["error"] for p in ends),
        stderr=0.0,
        tolerance=rounding,
        controls=(min(without),),  # had the newest output been left out
        slack=rounding,
        quantity="norm of the difference over all parts' norms",
    )


def _law(prediction: Json, measurement: Json, rule: str, depth: int) -> Iterator[Check]:
    """Coefficients at zero queries, and PreNorm's at all times."""
    newest = prediction["law"][str(depth)] if rule == BASELINE else prediction["start"].get(cell(rule, depth))
    if newest is None:
        return
    for stage in ("start", "end") if rule == BASELINE else ("start",):
        seeds = of_seeds(measurement, cell(rule, depth), stage)
        ratios = [s / law for p in seeds for s, law in zip(p["coefficient"]["newest"], newest, strict=True)]
        yield Check(
            id=f"law/{rule}/{depth}/{stage}",
            group=f"{words(rule)}: newest output's share of the coefficients over 1 / (l + 1), "
            f"{'at the start' if stage == 'start' else 'trained'}",
            claim=CLAIM,
            statement=f"at {depth} layers the coefficients of {words(rule)} are PreNorm's, 1 / (l + 1) of all",
            predicted=1.0,
            measured=max(ratios, key=lambda ratio: abs(math.log(ratio))),
            stderr=0.0,
            tolerance=STORED,
            controls=(1 / (1 - newest[-1]),),  # were it 1 / l
            slack=STORED,
            quantity="share over what is predicted",
        )


def _start(prediction: Json, measurement: Json, rule: str, depth: int) -> Iterator[Check]:
    """Every share of every read, mean over tokens; after training they are other ones."""
    if cell(rule, depth) not in prediction["start"]:
        return
    start, end = ([p["from_prenorm"] for p in of_seeds(measurement, cell(rule, depth), s)] for s in ("start", "end"))
    yield Check(
        id=f"start/{rule}/{depth}",
        group=f"{words(rule)}: largest difference of a share to PreNorm's with the same weights, at the start",
        claim=CLAIM,
        statement=f"at {depth} layers every share of {words(rule)} is PreNorm's at zero queries and eps = 0",
        predicted=0.0,
        measured=max(start),
        stderr=0.0,
        tolerance=EXACT,
        controls=(min(end),),
        slack=EXACT,
        quantity="difference of shares",
    )


def _range(measurement: Json, rule: str, depth: int) -> Iterator[Check]:
    """Both ends at once, in lengths of queries."""
    ends = of_seeds(measurement, cell(rule, depth), "end")
    if not all(p["lengths"] and p["needed"] for p in ends):
        return
    used = [_used(needed, length) for p in ends for needed, length in zip(p["needed"], p["lengths"], strict=True)]
    yield Check(
        id=f"range/{rule}/{depth}",
        group=f"{words(rule)}: length of a query that its shares need over the length that it has, trained",
        claim=CLAIM,
        statement=f"at {depth} layers no coefficient's share of {words(rule)} leaves the range that its query allows",
        predicted=1.0,
        measured=max(used),
        stderr=0.0,
        tolerance=EXACT,
        controls=(measurement["d_model"] ** -0.5,),  # a normed key's length taken for 1
        relation="at most",
        slack=EXACT,
        quantity="length needed over length",
    )


def _used(needed: float, length: float) -> float:
    if needed <= EXACT:
        return 0.0
    return needed / length if length else math.inf


def _cap(prediction: Json, measurement: Json, rule: str, depth: int) -> Iterator[Check]:
    at = cell(rule, depth)
    if max(prediction["members"].get(at, [1])) == 1:
        return
    yield Check(
        id=f"cap/{rule}/{depth}",
        group=f"{words(rule)}: 1 over the largest share of an output less the outputs in its block, trained",
        claim=CLAIM,
        statement=f"at {depth} layers no output of {words(rule)} has more of the coefficients than 1 / m_b",
        predicted=0.0,
        measured=min(p["spare"] for p in of_seeds(measurement, at, "end")),
        stderr=0.0,
        tolerance=EXACT,
        controls=(1.0,),  # were it 1 / (m_b + 1)
        relation="at least",
        slack=EXACT,
        quantity="outputs",
    )
