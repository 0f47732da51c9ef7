"""What trained networks are expected to do, beside what must hold (`identities`)."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.attnres.dilution.identities import identities
from experiments.attnres.dilution.points import (
    CLAIM,
    OWN,
    PRENORMS,
    at_both_rates,
    cell,
    compared,
    exponents,
    last_effective,
    paper_speaks_of,
    place,
    rates,
    words,
)
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected, unpredicted
from experiments.training.tuning import mark
from experiments.verdicts.checks import Judgement
from experiments.verdicts.intervals import Interval, against_baseline


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    depths = prediction["depths"]
    found: list[Judgement] = [check for depth in depths for check in identities(prediction, measurement, depth)]
    for reading in (OWN, PRENORMS) if measurement["tuning"]["tuned"] else (OWN,):
        for depth in depths:
            found += _effective(prediction, measurement, depth, reading)
        if len(depths) > 1:
            found += _exponents(prediction, measurement, reading)
    return found


def differences(prediction: Json, measurement: Json, depth: int, reading: str) -> dict[str, Interval]:
    """Of log effective numbers in the last read, less PreNorm's, by rule and for the twin."""
    rules = [rule for rule in _of(prediction, reading) if cell(rule, depth) not in prediction["same"]]
    values = {rule: last_effective(measurement, cell(rule, depth), reading) for rule in (*rules, TWIN)}
    return against_baseline(last_effective(measurement, cell(BASELINE, depth)), values)


def exponent_differences(prediction: Json, measurement: Json, reading: str) -> dict[str, Interval]:
    """Of exponents over the number of outputs, less PreNorm's."""
    rules = [rule for rule in _of(prediction, reading) if _of_its_own(prediction, rule)]
    values = {rule: exponents(prediction, measurement, rule, reading) for rule in (*rules, TWIN)}
    return against_baseline(exponents(prediction, measurement, BASELINE), values)


def _of(prediction: Json, reading: str) -> list[str]:
    return compared(prediction) if reading == OWN else at_both_rates(prediction)


def _of_its_own(prediction: Json, rule: str) -> bool:
    return any(cell(rule, depth) not in prediction["same"] for depth in prediction["depths"])


def _effective(prediction: Json, measurement: Json, depth: int, reading: str) -> Iterator[Judgement]:
    found = differences(prediction, measurement, depth, reading)
    for rule in at_both_rates(prediction):
        if rule not in found:
            continue
        quantity = "log of the effective number, difference"
        group = (
            f"outputs in the last read: {words(rule)} less PreNorm, trained, {rates(measurement, reading)}"
            f"{_marks(prediction, measurement, rule, [depth])}"
        )
        if not paper_speaks_of(rule):
            statement = f"at {depth} layers, outputs in the last read of {words(rule)} against PreNorm's"
            yield unpredicted(f"{reading}/{rule}/{depth}", group, statement, found[rule], quantity=quantity)
            continue
        yield expected(
            f"{reading}/{rule}/{depth}",
            group,
            CLAIM,
            f"at {depth} layers the last read of {words(rule)} is of effectively fewer outputs than PreNorm's, "
            f"{rates(measurement, reading)}{_rates(measurement, rule, depth, reading)}",
            "sign",
            -1.0,
            found[rule],
            found[TWIN],
            quantity=quantity,
        )


def _exponents(prediction: Json, measurement: Json, reading: str) -> Iterator[Judgement]:
    found = exponent_differences(prediction, measurement, reading)
    for rule in at_both_rates(prediction):
        if rule not in found:
            continue
        quantity = "difference of exponents"
        group = (
            f"exponent of outputs in the last read: {words(rule)} less PreNorm, trained, {rates(measurement, reading)}"
            f"{_marks(prediction, measurement, rule, prediction['depths'])}"
        )
        if not paper_speaks_of(rule):
            statement = f"the power of depth by which outputs in the last read of {words(rule)} grow, against PreNorm's"
            yield unpredicted(f"exponent-{reading}/{rule}", group, statement, found[rule], quantity=quantity)
            continue
        yield expected(
            f"exponent-{reading}/{rule}",
            group,
            CLAIM,
            f"the effective number of outputs in the last read of {words(rule)} grows with depth by a smaller power "
            f"than PreNorm's, {rates(measurement, reading)}",
            "sign",
            -1.0,
            found[rule],
            found[TWIN],
            quantity=quantity,
        )


def _marks(prediction: Json, measurement: Json, rule: str, depths: list[int]) -> str:
    """What stands behind a comparison with an arm of which no best rate is known."""
    cells = [place(prediction, one, depth) for one in (rule, BASELINE) for depth in depths]
    return max((mark(at, measurement) for at in cells), key=len)


def _rates(measurement: Json, rule: str, depth: int, reading: str) -> str:
    best = measurement["tuning"].get("best")
    if not best:
        return ""
    own, prenorms = (best[cell(one, depth)] for one in (rule, BASELINE))
    return f" ({own:g} and {prenorms:g})" if reading == OWN else f" ({prenorms:g})"
