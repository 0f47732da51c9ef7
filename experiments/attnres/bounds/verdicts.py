"""What was measured against what theory says, and what trained networks do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, linear_regression

from experiments.attnres.bounds.points import (
    BOUNDED,
    GROWTH,
    INITIAL,
    KINDS,
    RULES,
    SHARPENED,
    STARTS,
    TRAINED,
    TYPICAL,
    cell,
    largest,
    places,
)
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.verdicts.checks import Check, Judgement
from experiments.verdicts.intervals import Interval, against_baseline, t_interval

ATTAINED = 1e-4  # of a law: queries and gates are long, not infinite
ROUNDING = 1e-9  # of float64 norms
ANY = ("largest", "random")  # by ascents or by chance
WHEN = {"start": "of networks before they are trained", "end": "of trained networks"}


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    return [
        *_starts(prediction, measurement),
        *_preset(prediction, measurement),
        *_attained(prediction, measurement),
        *_sublayers(prediction, measurement),
        *_sharpened(prediction, measurement),
        *_exponents(prediction, measurement),
    ]


def _starts(prediction: Json, measurement: Json) -> list[Judgement]:
    """The last read's mean square over the closed form: PreNorm's, once for all rules, and theirs over it."""
    found: list[Judgement] = []
    depths = prediction["depths"]
    scaling = {"start": "at the start, outputs as all else", "scaled": "at the start, outputs scaled by depth"}
    for kind, other in (("start", "scaled"), ("scaled", "start")):
        expected, squares = prediction[kind], measurement[kind]
        for depth in depths:
            at = cell(BASELINE, depth)
            interval = t_interval([x / expected[at] for x in squares[at]], len(STARTS) * len(depths))
            found.append(
                Check(
                    id=f"{kind}/{depth}",
                    group=f"{scaling[kind]}: mean square of the last read over the closed form",
                    claim=INITIAL,
                    statement=f"at {depth} layers of initial weights the last read is as large as said, "
                    "all rules alike",
                    predicted=1.0,
                    measured=interval.mean,
                    stderr=interval.stderr,
                    tolerance=interval.half_width,
                    controls=(prediction[other][at] / expected[at],),
                    quantity="mean square over the closed form",
                )
            )
        found.append(_alike(kind, scaling[kind], prediction, measurement))
    return found


def _alike(kind: str, words: str, prediction: Json, measurement: Json) -> Check:
    """Of the rules: the mean square over PreNorm's with the same weights, over what theory says, in the worst cell."""
    expected, squares = prediction[kind], measurement[kind]
    ratios = []
    for at, square in expected.items():
        rule, depth = at.rsplit("/", 1)
        same = cell(BASELINE, int(depth))
        if rule != BASELINE:
            law = square / expected[same]
            ratios += [(x / y / law, law) for x, y in zip(squares[at], squares[same], strict=True)]
    worst = max(ratios, key=lambda found: abs(found[0] - 1))[0]
    return Check(
        id=f"{kind}/alike",
        group=f"{words}: mean square of the last read over PreNorm's, over the square of the number of sources",
        claim=INITIAL,
        statement="every rule's last read is PreNorm's divided by the number of its sources, whatever the weights",
        predicted=1.0,
        measured=worst,
        stderr=0.0,
        tolerance=ROUNDING,
        controls=(min(1 / math.sqrt(law) for _, law in ratios),),  # a mean square divided as a norm
        slack=ROUNDING,
        quantity="mean square over the closed form",
    )


def _preset(prediction: Json, measurement: Json) -> list[Judgement]:
    """As a preset starts, by place in a prompt; the first token stands alone."""
    expected, found = prediction["preset"], []
    judged = places(len(expected["squares"]))
    for place in judged:
        square = expected["squares"][place - 1]
        interval = t_interval([of_seed[place - 1] / square for of_seed in measurement["preset"]], len(judged))
        slack = 0.0 if place == 1 else expected["uneven"]
        # Outputs that are not scaled by depth; else tokens that stand alone, or stay unrelated.
        wrong = [expected["unscaled"]] if place == 1 else [expected["lone"], expected["unrelated"][place - 1]]
        found.append(
            Check(
                id=f"preset/{place}",
                group="at a preset's start: mean square of the last read over theory, by place",
                claim=INITIAL,
                statement=f"at a preset's start the last read at place {place} is as large as said",
                predicted=1.0,
                measured=interval.mean,
                stderr=interval.stderr,
                tolerance=interval.half_width + slack,
                controls=tuple(other / square for other in wrong),
                slack=slack,
                quantity="mean square over theory's",
            )
        )
    return list(found)


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
            _within_its_bound(
                f"bound/{at}",
                kind,
                kind,
                f"no input of width {width} makes the output of {kind} larger than its bound",
                max(shares),
                float(width),
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


def _within_its_bound(id: str, kind: str, of: str, statement: str, largest: float, width: float) -> Check:
    """Of a sublayer of this kind, the largest norm found over its bound."""
    return Check(
        id=id,
        group=f"{of}: largest output found over its bound",
        claim=KINDS[kind],
        statement=statement,
        predicted=1.0,
        measured=largest,
        stderr=0.0,
        tolerance=ROUNDING,
        controls=(width**-0.5,),  # a bound that takes a normed vector's length for 1
        relation="at most",
        slack=ROUNDING,
        quantity="norm over its bound",
    )


def _sharpened(prediction: Json, measurement: Json) -> list[Judgement]:
    """Of networks that are trained, before it and after: the largest output found over its bound."""
    found: list[Judgement] = []
    width = prediction["trained_width"]
    for rule in SHARPENED:
        for when, words in WHEN.items():
            for kind in ("attention", "SwiGLU"):
                shares = [x for of_seed in sharpened(measurement, rule, when, kind, ANY) for x in of_seed]
                if not shares:
                    continue
                found.append(
                    _within_its_bound(
                        f"{when}/{rule}/{kind}",
                        kind,
                        f"sublayers {words}",
                        f"{words}, no input makes the output of {RULES[rule]}'s {kind} larger than its bound",
                        max(shares),
                        float(width),
                    )
                )
    return found


def sharpened(measurement: Json, rule: str, when: str, kind: str, what: Sequence[str]) -> list[list[float]]:
    """By seed and layer, the largest of these norms over their bound; of trainings that did not diverge."""
    records = [of_seed[when][kind] for of_seed in measurement["sharpened"][rule] if of_seed[when]]
    return [
        [max(norms) / bound for *norms, bound in zip(*(x[name] for name in what), x["bound"], strict=True)]
        for x in records
    ]


def of_layers(measurement: Json, rule: str, when: str, kind: str, what: str) -> list[float]:
    """By seed, the mean over layers of a norm over its bound."""
    return [fmean(of_seed) for of_seed in sharpened(measurement, rule, when, kind, (what,))]


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
