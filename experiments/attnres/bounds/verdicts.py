"""What was measured against what theory says, and what trained networks do."""

from __future__ import annotations

import math
from statistics import linear_regression

from experiments.attnres.bounds.points import BOUNDED, GROWTH, INITIAL, KINDS, RULES, TRAINED, TYPICAL, cell, largest
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.verdicts.checks import Check, Judgement
from experiments.verdicts.intervals import Interval, against_baseline, t_interval

ATTAINED = 1e-4  # of a law: queries and gates are long, not infinite
ROUNDING = 1e-9  # of float64 norms


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    return [
        *_starts(prediction, measurement),
        *_attained(prediction, measurement),
        *_sublayers(prediction, measurement),
        *_exponents(prediction, measurement),
    ]


def _starts(prediction: Json, measurement: Json) -> list[Judgement]:
    """The last read's mean square over the closed form."""
    found: list[Judgement] = []
    family = len(prediction["start"])
    for at, square in prediction["start"].items():
        rule, depth = at.rsplit("/", 1)
        interval = t_interval([x / square for x in measurement["start"][at]], family)
        found.append(
            Check(
                id=f"start/{at}",
                group=f"at the start, {RULES[rule]}: mean square of the last read over the closed form",
                claim=INITIAL,
                statement=f"at {depth} layers of initial weights the last read of {RULES[rule]} is as large as said",
                predicted=1.0,
                measured=interval.mean,
                stderr=interval.stderr,
                tolerance=interval.half_width,
                controls=(prediction["scaled"][at] / square,),  # outputs scaled by depth
                quantity="mean square over the closed form",
            )
        )
    return found


def _attained(prediction: Json, measurement: Json) -> list[Judgement]:
    found: list[Judgement] = []
    for at, law in prediction["largest"].items():
        rule, depth = at.rsplit("/", 1)
        others = {prediction["largest"][cell(other, int(depth))] for other in RULES} - {law}
        found.append(
            Check(
                id=f"attained/{at}",
                group=f"{RULES[rule]}: the worst network's last read over its law",
                claim=GROWTH,
                statement=f"at {depth} layers a network attains the largest read of {RULES[rule]}",
                predicted=1.0,
                measured=measurement["attained"][at] / law,
                stderr=0.0,
                tolerance=ATTAINED,
                controls=tuple(sorted(other / law for other in others)),  # other rules' laws
                slack=ATTAINED,
                quantity="norm over the law",
            )
        )
    return found


def _sublayers(prediction: Json, measurement: Json) -> list[Judgement]:
    found: list[Judgement] = []
    for at, square in prediction["typical"].items():
        kind, width = at.split("/")
        norms = measurement["sharp"][at]
        shares = [max(x["largest"], x["random"]) / x["bound"] for x in norms]
        found.append(
            Check(
                id=f"bound/{at}",
                group=f"{kind}: largest output found over its bound",
                claim=KINDS[kind],
                statement=f"no input of width {width} makes the output of {kind} larger than its bound",
                predicted=1.0,
                measured=max(shares),
                stderr=0.0,
                tolerance=ROUNDING,
                controls=(float(width) ** -0.5,),  # a bound that takes a normed vector's length for 1
                relation="at most",
                slack=ROUNDING,
                quantity="norm over its bound",
            )
        )
        interval = t_interval([x["typical"] ** 2 / square for x in norms], len(prediction["typical"]))
        found.append(
            Check(
                id=f"typical/{at}",
                group=f"{kind}: mean square of the output over the closed form",
                claim=TYPICAL,
                statement=f"at width {width} the output of {kind} is typically as large as said",
                predicted=1.0,
                measured=interval.mean,
                stderr=interval.stderr,
                tolerance=interval.half_width,
                controls=(1 / float(width),),  # the same mistake
                quantity="mean square over the closed form",
            )
        )
    return found


def _exponents(prediction: Json, measurement: Json) -> list[Judgement]:
    """Trained: of the largest read as a power of the number of layers."""
    intervals = exponents(prediction, measurement)
    found: list[Judgement] = []
    for rule, interval in intervals.items():
        if rule == TWIN:
            continue
        statement = f"trained, the largest read of {RULES[rule]} grows with depth by a smaller power than PreNorm's"
        name, group = f"exponent/{rule}", "trained: exponent of the largest read over depth, less PreNorm's"
        quantity = "difference of exponents"
        found.append(
            expected(name, group, BOUNDED, statement, "sign", -1.0, interval, intervals[TWIN], quantity=quantity)
        )
    return found


def exponents(prediction: Json, measurement: Json) -> dict[str, Interval]:
    """Less PreNorm's, by rule and for the twin."""
    values = {rule: slopes(prediction, measurement, rule) for rule in (*TRAINED, TWIN)}
    return against_baseline(values.pop(BASELINE), values)


def slopes(prediction: Json, measurement: Json, rule: str) -> list[float]:
    """Of the logarithm of the largest read over that of the number of layers, by seed; nan where one diverged."""
    depths = [math.log(depth) for depth in prediction["trained_depths"]]
    cells = (measurement["trained"][cell(rule, depth)] for depth in prediction["trained_depths"])
    return [
        linear_regression(depths, [math.log(largest(x)) if x else math.nan for x in of_seed]).slope
        for of_seed in zip(*cells, strict=True)
    ]
