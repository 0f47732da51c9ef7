"""The verdicts of `svformer-length`: the paper's directions, its explanation, and what the toy says otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean

from experiments.resformer.length.points import (
    AXES,
    CAUSE,
    CRITICAL,
    EARLY,
    LATE,
    LAYERS,
    LEARNING_RATE,
    LENGTH,
    RATE,
    SVFORMER,
    WARMUP,
    WORDS,
    critical_point,
    cumulated,
    mean_between,
)
from experiments.store.folders import Json
from experiments.training.campaign import TWIN, expected
from experiments.verdicts.checks import Expectation
from experiments.verdicts.crossings import Trend, trend
from experiments.verdicts.intervals import Interval, contrast, t_interval
from icl.recipe import Recipe

LEVEL = 0.05
LOST = "training loss less vanilla's, nats a token"
CLAIMS = {LENGTH: CRITICAL, LEARNING_RATE: RATE, WARMUP: RATE, LAYERS: CRITICAL}
Measure = Callable[[Json, int, str], float]

early: Measure = partial(mean_between, begin=0.0, end=EARLY)
late: Measure = partial(mean_between, begin=LATE, end=1.0)


def verdicts(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    yield from _each_case(prediction, measurement)
    yield from _along(prediction, measurement)
    yield from _orders(prediction, measurement)
    yield _cumulated(prediction, measurement)


def of_case(measurement: Json, key: str, arm: str, of: Measure, family: int = 1) -> Interval:
    """Over seeds."""
    return t_interval(_by_case(measurement, [key], arm, of)[0], family)


def slope(prediction: Json, measurement: Json, axis: str, arm: str, of: Measure, family: int = 1) -> Interval:
    """What a doubling of the axis's value adds, by least squares over its cases."""
    weights = _weights(prediction, axis)
    return contrast(_by_case(measurement, list(weights), arm, of), list(weights.values()), family)


def _weights(prediction: Json, axis: str) -> dict[str, float]:
    """Of each case in that slope."""
    points = prediction["axes"][axis]
    x = [math.log2(value) for value in points["values"]]
    spread = sum((b - fmean(x)) ** 2 for b in x)
    return {key: (a - fmean(x)) / spread for key, a in zip(points["cases"], x, strict=True)}


def _by_case(measurement: Json, keys: Sequence[str], arm: str, of: Measure) -> list[list[float]]:
    seeds = range(measurement["seeds"])
    return [[of(measurement["cases"][key], seed, arm) for seed in seeds] for key in keys]


def trend_of(prediction: Json, measurement: Json, axis: str, arm: str) -> Trend:
    window, cases = prediction["window"], [measurement["cases"][key] for key in prediction["axes"][axis]["cases"]]
    seeds = range(measurement["seeds"])
    return trend([[critical_point(case, seed, arm, window) for case in cases] for seed in seeds])


def common(positions: int, case: Json, seed: int, arm: str) -> float:
    """The final held-out difference over the first `positions`, which are those of the first octaves."""
    ours, base = case["positions"][arm][seed], case["positions"]["vanilla"][seed]
    if ours is None or base is None:
        return math.nan
    octaves = [i for i, first in enumerate(ours["first"]) if first <= positions]
    return sum(ours["first"][i] * (ours["loss"][i] - base["loss"][i]) for i in octaves) / positions


def positions_of_all(prediction: Json) -> int:
    """The first positions that every length has, in whole octaves: 1, 3, 7, ..."""
    shortest = int(min(prediction["axes"][LENGTH]["values"]))
    return int(2 ** ((shortest + 1).bit_length() - 1)) - 1


def _each_case(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Faster at first, surpassed in the end, in every setting; and, by the toy, not surpassed at any length."""
    cases = list(measurement["cases"])
    lengths = prediction["axes"][LENGTH]["cases"]
    asked: tuple[tuple[str, str, Measure, float, list[str]], ...] = (
        ("early", f"ahead over the first {EARLY:.0%} of the steps", early, prediction["early"], cases),
        ("late", f"surpassed: behind over the last {1 - LATE:.0%} of the steps", late, prediction["late"], cases),
        ("toy", "ahead at the end, as in the toy at every length", late, prediction["toy"]["late"], lengths),
    )
    for name, words, of, said, keys in asked:
        for key in keys:
            ours, twin = (of_case(measurement, key, arm, of, len(keys)) for arm in (SVFORMER, TWIN))
            text = f"SVFormer is {words}, at {key}"
            group = f"SVFormer {words}"
            yield expected(f"{name}/{key}", group, CRITICAL, text, "sign", said, ours, twin, quantity=LOST)


def _along(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """What a doubling of an axis's value does to the final difference."""
    axes, shared = prediction["axes"], positions_of_all(prediction)
    judged = [axis for axis in AXES if len(axes[axis]["cases"]) > 1]
    family = len(judged) + 2
    quantity = "nats a token for a doubling"

    def both(axis: str, of: Measure) -> tuple[Interval, Interval]:
        ours, twin = (slope(prediction, measurement, axis, arm, of, family) for arm in (SVFORMER, TWIN))
        return ours, twin

    for axis in judged:
        if axis == LAYERS:
            effect = both(LENGTH, late)[0]
            yield _similar(prediction, both(axis, late)[0], effect, quantity)
        elif axis != WARMUP:
            said = axes[axis]["late"]
            words = f"SVFormer's final difference {'falls' if said < 0 else 'rises'} with the {WORDS[axis]}"
            yield expected(
                f"late/{axis}", words, CLAIMS[axis], words, "sign", said, *both(axis, late), quantity=quantity
            )
    if LENGTH in judged:
        words = f"SVFormer's held-out difference at the first {shared} positions alone falls with the length"
        intervals = both(LENGTH, partial(common, shared))
        said = axes[LENGTH]["late"]
        yield expected(f"common/{LENGTH}", words, CAUSE, words, "sign", said, *intervals, quantity=quantity)
    if LEARNING_RATE in judged and WARMUP in judged:
        yield _small_warmup(prediction, measurement, family, quantity)


def _similar(prediction: Json, measured: Interval, effect: Interval, quantity: str) -> Expectation:
    """No effect of depth beyond a slack; control: the length's, which there should be."""
    words, slack = f"SVFormer's final difference stays with the {WORDS[LAYERS]}", prediction["similar"]
    return Expectation(
        id=f"late/{LAYERS}",
        group=words,
        claim=CLAIMS[LAYERS],
        statement=f"{words}, give or take {slack:g}",
        rule="none",
        predicted=0.0,
        measured=measured.mean,
        stderr=measured.stderr,
        tolerance=measured.half_width,
        controls=((effect.mean, effect.half_width),),
        slack=slack,
        quantity=quantity,
    )


def _small_warmup(prediction: Json, measurement: Json, family: int, quantity: str) -> Expectation:
    """The rate's effect less that of warm-up, whichever sign the latter is given: the smaller of the two."""

    def least(arm: str) -> Interval:
        rates, warmups = (_weights(prediction, axis) for axis in (LEARNING_RATE, WARMUP))
        keys = list(rates | warmups)
        values = _by_case(measurement, keys, arm, late)
        both = ([rates.get(key, 0) + s * warmups.get(key, 0) for key in keys] for s in (-1, 1))
        return min((contrast(values, weights, family) for weights in both), key=lambda i: i.mean)

    words = "a doubling of the learning rate raises SVFormer's final difference by more than one of warm-up moves it"
    ours, twin = least(SVFORMER), least(TWIN)
    return expected("late/warmup", words, RATE, words, "sign", 1.0, ours, twin, quantity=quantity)


def _orders(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    """Do critical points come later, or earlier, along an axis?  Censored ones count as far as they are known."""
    asked = [axis for axis in (LENGTH, LEARNING_RATE) if len(prediction["axes"][axis]["cases"]) > 1]
    for axis in asked:
        found, twin = (trend_of(prediction, measurement, axis, arm) for arm in (SVFORMER, TWIN))
        widest = float(found.widest_by_chance(LEVEL / len(asked)))
        control = (float(twin.balance), float(twin.widest_by_chance(LEVEL / len(asked))))
        said = prediction["axes"][axis]["critical"]
        words = f"the critical point comes {'later' if said > 0 else 'earlier'} with a larger {WORDS[axis]}"
        yield Expectation(
            id=f"critical/{axis}",
            group=words,
            claim=CLAIMS[axis],
            statement=f"{words}; of {found.pairs} pairs within a seed, exact permutation p = {found.p:.2g}",
            rule="sign",
            predicted=said,
            measured=float(found.balance),
            stderr=sum(p * b**2 for b, p in found.chance.items()) ** 0.5,
            tolerance=widest,
            controls=(control, (-control[0], control[1])),
            quantity="pairs that come later, less those that come earlier",
        )


def octaves_of_sum(prediction: Json, measurement: Json) -> list[float]:
    """Each seed's log2 of the summed learning rate at its critical point, at the highest rate over the lowest.

    nan where one of the two is not seen.
    """
    keys, recipes = (prediction["axes"][LEARNING_RATE][name] for name in ("cases", "recipes"))
    found = []
    for seed in range(measurement["seeds"]):
        sums = []
        for key, recipe in zip(keys, recipes, strict=True):
            at = critical_point(measurement["cases"][key], seed, SVFORMER, prediction["window"])
            sums.append(cumulated(Recipe(**{**recipe, "betas": tuple(recipe["betas"])}), at.last) if at.seen else None)
        low, high = sums[0], sums[-1]
        found.append(math.log2(high / low) if low and high else math.nan)
    return found


def _cumulated(prediction: Json, measurement: Json) -> Expectation:
    """The paper's reason: what matters is the sum of the learning rates.  Then it is the same at every critical point.

    Control: that steps matter, so that the sum at the critical point grows as the rate does.
    """
    interval = t_interval(octaves_of_sum(prediction, measurement))
    values, slack = prediction["axes"][LEARNING_RATE]["values"], prediction["octaves"]
    words = "at the critical point the summed learning rate is the same, whatever its peak"
    return Expectation(
        id="critical/summed rate",
        group=words,
        claim=RATE,
        statement=f"{words}: from {values[0]:g} to {values[-1]:g}, to {slack:g} of an octave",
        rule="none",
        predicted=0.0,
        measured=interval.mean,
        stderr=interval.stderr,
        tolerance=interval.half_width,
        controls=((math.log2(values[-1] / values[0]), interval.half_width),),
        slack=slack,
        quantity="octaves of the summed learning rate",
    )
