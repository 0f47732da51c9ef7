"""The verdicts of `scale-magnitude`: bounds and identities that hold, and what trained networks do beside PreNorm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from experiments.attnres.magnitude.points import (
    CLAIM,
    EPS_SLACK,
    ROUNDING,
    RULES,
    STAGES,
    cell,
    compared,
    growth,
    of_seeds,
    unevenness,
)
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected, unpredicted
from experiments.training.comparing import bare, own_names
from experiments.verdicts.checks import Check, Judgement
from experiments.verdicts.intervals import Interval, against_baseline

GROWTH = "log of the growth, difference"
UNEVEN = "unevenness (log), difference"


def verdicts(prediction: Json, measurement: Json) -> Iterator[Judgement]:
    rules, own = compared(prediction), own_names(prediction)
    for depth in prediction["depths"]:
        trained = [rule for rule in (BASELINE, *rules) if of_seeds(measurement, rule, depth, "end")]
        for rule in trained:
            yield from _bounded(measurement, rule, depth)
        for rule in trained[1:] if BASELINE in trained and not own else ():
            yield _convex(measurement, rule, depth)
            yield _same_at_start(prediction, measurement, rule, depth)
        for what, (of, words, quantity) in COMPARED.items():
            intervals = _differences(measurement, depth, rules, of)
            for rule in rules:
                group = f"{what}: {rule} less PreNorm, trained"
                if bare(rule) not in RULES:  # a user's own, of which nobody says anything
                    about = f"at {depth} layers {rule} against PreNorm", intervals[rule]
                    yield unpredicted(f"{what}/{rule}/{depth}", group, *about, quantity=quantity)
                    continue
                yield expected(
                    f"{what}/{rule}/{depth}",
                    group,
                    CLAIM,
                    f"at {depth} layers {rule} {words} than PreNorm",
                    "sign",
                    -1.0,
                    intervals[rule],
                    intervals[TWIN],
                    quantity=quantity,
                )


def _growth(both: Json) -> float:
    return growth(both["end"])


def _by_training(both: Json) -> float:
    """What training adds to it: at the start it is the number of sources that depth attention divides by."""
    return growth(both["end"]) - growth(both["start"])


def _of_parameters(both: Json) -> float:
    return unevenness(both["end"]["layer_gradient"])


def _of_outputs(both: Json) -> float:
    return unevenness(both["end"]["output_gradient"][1:])  # the embedding's stands for all of its tables


COMPARED: Mapping[str, tuple[Callable[[Json], float], str, str]] = {
    "growth": (_growth, "grows less from the first read to the last", GROWTH),
    "training": (_by_training, "gains less growth by training", GROWTH),
    "gradients": (_of_parameters, "has more even gradients over layers", UNEVEN),
    "outputs": (_of_outputs, "sends more even gradients back to what its sublayers put out", UNEVEN),
}


def _differences(
    measurement: Json, depth: int, rules: Sequence[str], of: Callable[[Json], float]
) -> dict[str, Interval]:
    arms = (BASELINE, *rules, TWIN)
    probed = {rule: measurement["magnitudes"][cell(rule, depth)] for rule in arms}
    values = {rule: [of(both) if both["end"] else math.nan for both in by_seed] for rule, by_seed in probed.items()}
    return against_baseline(values.pop(BASELINE), values)


def _bounded(measurement: Json, rule: str, depth: int) -> Iterator[Judgement]:
    """No token's norm at any read but the first, which is the embedding, exceeds the bound of its weights, if any."""
    for stage in STAGES:
        shares = [
            max(norm / bound for norm, bound in zip(p["read_max"][1:], p["bounds"][1:], strict=True))
            for p in of_seeds(measurement, rule, depth, stage)
            if p["bounds"]
        ]
        if not shares:
            continue
        yield Check(
            id=f"bound/{rule}/{depth}/{stage}",
            group=f"{rule}: largest norm over its bound, {'at the start' if stage == 'start' else 'trained'}",
            claim=CLAIM,
            statement=f"at {depth} layers no hidden state of {rule} is larger than its weights allow",
            predicted=1.0,
            measured=max(shares),
            stderr=0.0,
            tolerance=ROUNDING,
            # A bound that takes a normed vector's length for 1 and not sqrt(d) is too low.
            controls=(measurement["d_model"] ** -0.5,),
            relation="at most",
            slack=ROUNDING,
            quantity="norm over its bound",
        )


def _convex(measurement: Json, rule: str, depth: int) -> Check:
    """What depth attention reads is never larger than its largest source, though its first read, of one source, is as
    large; what PreNorm reads is larger.
    """

    def largest(which: str) -> float:
        return max(max(p["ratio"]) for p in of_seeds(measurement, which, depth, "end"))

    return Check(
        id=f"convex/{rule}/{depth}",
        group=f"{rule}: what is read over its largest source, trained",
        claim=CLAIM,
        statement=f"at {depth} layers no read of {rule} is larger than its largest source",
        predicted=1.0,
        measured=largest(rule),
        stderr=0.0,
        tolerance=ROUNDING,
        controls=(largest(BASELINE),),
        slack=ROUNDING,
        quantity="norm of the largest read over its largest source",
    )


def _same_at_start(prediction: Json, measurement: Json, rule: str, depth: int) -> Check:
    """With zero queries every read is PreNorm's over a count, up to eps."""
    scale = prediction["start_scale"][rule][str(depth)]
    both = (measurement["magnitudes"][cell(which, depth)] for which in (rule, BASELINE))
    pairs = ((p["start"], q["start"]) for p, q in zip(*both, strict=True))
    ratios = [[a / (s * b) for a, b, s in zip(p["read_rms"], q["read_rms"], scale, strict=True)] for p, q in pairs]
    farthest = max((r for by_read in ratios for r in by_read), key=lambda r: abs(math.log(r)))
    return Check(
        id=f"start/{rule}/{depth}",
        group=f"{rule}: what is read at the start over PreNorm's by the count of sources",
        claim=CLAIM,
        statement=f"at {depth} layers {rule} starts as PreNorm, divided by the number of its sources",
        predicted=1.0,
        measured=farthest,
        stderr=0.0,
        tolerance=EPS_SLACK,
        controls=(farthest / scale[-1],),
        slack=EPS_SLACK,
        quantity="norm over what is predicted",
    )
