"""The verdicts of `ladder-text`: differences and worths at each size, and where curves cross."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected, unpredicted
from experiments.training.comparing import own_names
from experiments.training.of_widths import differences, rates, relative, untuned, worth_of
from experiments.training.tuning import apart_on_the_way, rates_in_brackets
from experiments.verdicts.checks import Expectation
from experiments.verdicts.crossings import Crossing, crossing, smoothed
from experiments.verdicts.intervals import Interval, t_interval

LOST = "held-out loss less vanilla's, nats a token"
WORTH = "logarithm of vanilla's parameters for the same loss, over those at equal width"
SMOOTHED = 3  # evaluations
EARLY = 0.25  # share of the tokens
SVFORMER, ATTNRES = "svformer", "attnres"
CROSSING = {SVFORMER: 1.0, ATTNRES: -1.0}  # the side of vanilla on which a curve is looked for: behind, ahead


def verdicts(prediction: Json, measurement: Json, claim: str, critical: str) -> Iterator[Expectation]:
    """By size; `critical` is the claim on SVFormer's critical point, `claim` is everything else's."""
    for width in measurement["widths"]:
        yield from _losses(prediction, measurement, width, claim)
        yield from _worths(prediction, measurement, width, claim)
        if SVFORMER in prediction["papers"]:
            yield from _overtaken(measurement, width, critical)


def crossings(measurement: Json, width: str, variant: str, side: float) -> list[Crossing]:
    """Of every seed, the tokens from which the smoothed difference has this sign until the end."""
    tokens, curves = relative(measurement, width, variant)
    return [crossing(*smoothed(tokens, [side * d for d in curve], SMOOTHED)) for curve in curves]


def when(found: list[Crossing], parameters: int) -> Interval | None:
    """In the logarithm of tokens a parameter; None unless every seed's lies among its evaluations."""
    if len(found) < 2 or not all(point.seen for point in found):
        return None
    return t_interval([math.log(point.last / parameters) for point in found])


def told(found: list[Crossing], parameters: int) -> str:
    """When, in words."""
    interval = when(found, parameters)
    if interval is not None:
        low, mid, high = (math.exp(interval.mean + sign * interval.half_width) for sign in (-1, 0, 1))
        return f"from {mid:.2g} tokens a parameter on ({low:.2g} to {high:.2g})"
    seen = sum(point.seen for point in found)
    before = sum(point.last == -math.inf for point in found)
    return f"{seen} of {len(found)} seeds cross for good, {before} are there from the first evaluations on"


def _losses(prediction: Json, measurement: Json, width: str, claim: str) -> Iterator[Expectation]:
    found = differences(measurement, width)
    parameters = measurement["widths"][width]["parameters"][BASELINE]

    def expect(kind: str, name: str, words: str, statement: str, predicted: float, on: str = claim) -> Expectation:
        group = f"{name}{untuned(name, width, measurement)}: {words}"
        apart = rates_in_brackets(*rates(measurement, width, name))
        place = f"{statement}, at {parameters / 1e6:.2f}M parameters{apart}"
        numbers = predicted, found[name], found[TWIN]
        return expected(f"{kind}/{name}/{width}", group, on, place, "sign", *numbers, quantity=LOST)

    for name, said in prediction["papers"].items():
        if said["sign"] is not None:
            better = "better" if said["sign"] < 0 else "worse"
            text = f"{name} ends {better} than vanilla ({said['place']})"
            if name in CROSSING and not apart_on_the_way(*rates(measurement, width, name)):
                text += f"; {told(crossings(measurement, width, name, CROSSING[name]), parameters)}"
            yield expect("paper", name, "the paper's sign", text, float(said["sign"]), said.get("claim", claim))
        if (toy := prediction["toy"][name]) and toy["sign"]:
            better = "better" if toy["sign"] < 0 else "worse"
            yield expect(
                "toy", name, "the toy's sign", f"{name} ends {better} than vanilla, as in the toy", toy["sign"]
            )
        if name in own_names(prediction) and said["sign"] is None and not (toy and toy["sign"]):
            group = f"{name}{untuned(name, width, measurement)} against vanilla"
            apart = rates_in_brackets(*rates(measurement, width, name))
            text = f"{name} against vanilla at the end, at {parameters / 1e6:.2f}M parameters{apart}"
            yield unpredicted(f"own/{name}/{width}", group, text, found[name], quantity=LOST)


def _worths(prediction: Json, measurement: Json, width: str, claim: str) -> Iterator[Expectation]:
    """As much as papers print, or on the side of 1 that their sign gives; nothing where vanilla has one size alone."""
    here = measurement["widths"][width]["parameters"]
    twin = worth_of(measurement, TWIN, width)
    for name, paper in prediction["papers"].items():
        ours, printed = worth_of(measurement, name, width), prediction["papers_worth"][name]
        sign, own = paper["sign"], name in own_names(prediction)
        if ours is None or twin is None or (sign is None and not own):
            continue
        who = f"{name}{untuned(name, width, measurement)}"
        found = f"found {ours.told()}, on {here[name] / here[BASELINE]:.3f} of vanilla's parameters"
        text = f"at {here[BASELINE] / 1e6:.2f}M parameters {name} is worth"
        numbers = ours.in_logs(), twin.of_twin()
        if printed:
            logs = [math.log(factor) for factor in printed.values()]
            said, range_ = fmean(logs), (max(logs) - min(logs)) / 2
            text += f" {math.exp(said):.2f} times vanilla's, as printed losses make it at {_millions(printed)}; {found}"
            yield expected(
                f"worth/{name}/{width}",
                f"{who}: worth what the paper's losses make it",
                claim,
                text,
                "size",
                said,
                *numbers,
                slack=range_,
                quantity=WORTH,
            )
        elif sign is None:
            group, text = f"{who}: worth in vanilla's parameters", f"{text} so many times vanilla's; {found}"
            yield unpredicted(f"worth/{name}/{width}", group, text, ours.in_logs(), quantity=WORTH)
        else:
            more = "more" if sign < 0 else "less"
            yield expected(
                f"worth/{name}/{width}",
                f"{who}: worth {more} than vanilla",
                paper.get("claim", claim),
                f"{text} {more} than vanilla's ({paper['place']}); {found}",
                "sign",
                -float(sign),
                *numbers,
                quantity=WORTH,
            )


def _millions(printed: Json) -> str:
    return ", ".join(f"{float(size) / 1e6:g}M" for size in printed)


def _overtaken(measurement: Json, width: str, claim: str) -> Iterator[Expectation]:
    """SVFormer early in training, and its twin; where it ends is what the paper's sign is about."""
    parameters = measurement["widths"][width]["parameters"][BASELINE]

    def early(variant: str) -> Interval:
        tokens, curves = relative(measurement, width, variant)
        first = [i for i, at in enumerate(tokens) if at <= EARLY * tokens[-1]] or [0]
        means = [fmean(curve[i] for i in first) for curve in curves]
        return t_interval(means) if len(means) > 1 else Interval(math.nan, math.nan, math.nan)

    words = f"ahead over the first {EARLY:.0%} of the tokens"
    crossed = f"behind: {told(crossings(measurement, width, SVFORMER, 1.0), parameters)}"
    apart = apart_on_the_way(*rates(measurement, width, SVFORMER))
    yield expected(
        f"early/{SVFORMER}/{width}",
        f"{SVFORMER}: {words}",
        claim,
        f"{SVFORMER} is {words}, at {parameters / 1e6:.2f}M parameters; {apart or crossed}",
        "sign",
        -1.0,
        early(SVFORMER),
        None if apart else early(TWIN),  # without a control the verdict is inconclusive
        quantity=LOST,
    )
