"""The verdicts of `resformer-concentration`: what uniform attention has, and what the paper leads one to expect."""

from __future__ import annotations

import math
from collections.abc import Iterator

from experiments.resformer.concentration.points import (
    SIMILAR,
    STATISTICS,
    UNIFORM,
    Said,
    Statistic,
    said_of,
    together,
)
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.verdicts.checks import Check, Judgement
from experiments.verdicts.intervals import Interval, against_baseline, t_interval

NEARLY = 0.01  # nats, and relative: how far initial weights of deviation 0.02 may move uniform attention


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    """Nothing is expected of trainings where one has diverged."""
    judgements: list[Judgement] = list(_before_training(prediction, measurement["probed"]["start"]))
    told = measurement["probed"]["end"]
    if all(seed for of_seeds in told.values() for seed in of_seeds):
        numbers = {
            name: {arm: [s.of(seed, prediction) for seed in of_seeds] for arm, of_seeds in told.items()}
            for name, s in STATISTICS.items()
        }
        judgements += [
            _said(said, prediction["signs"][said.key], numbers[said.statistic]) for said in said_of(list(told))
        ]
        judgements.append(_together(prediction, told[BASELINE]))
    return judgements


def _before_training(prediction: Json, told: Json) -> Iterator[Check]:
    """Of each arm the layer, seed and length that is farthest from uniform attention."""
    for arm in (arm for arm in told if arm != TWIN):
        entropies = [(value, length) for seed in told[arm] for length, of in seed["entropy"].items() for value in of]
        uniform, largest = prediction["uniform_entropy"], prediction["largest_entropy"]
        value, at = max(entropies, key=lambda pair: abs(pair[0] - uniform[pair[1]]))
        yield _check(
            f"start/entropy/{arm}",
            f"{arm}: before training attention has the entropy of uniform attention",
            uniform[at],
            value,
            NEARLY,
            largest[at],  # of equal importance, and whatever the attention of Eqn. (11) as printed
            "entropy of token importance, nats",
        )
        first = prediction["uniform_first"]
        value = max((value for seed in told[arm] for value in seed["first"]), key=lambda value: abs(value - first))
        even = 1 / prediction["lengths"][-1]
        said = f"{arm}: before training the first token has the importance that uniform attention gives it"
        yield _check(f"start/first/{arm}", said, first, value, NEARLY * first, even, "share of attention")


def _check(
    name: str, statement: str, predicted: float, measured: float, slack: float, control: float, quantity: str
) -> Check:
    return Check(
        id=name,
        group="before training: uniform attention",
        claim=UNIFORM,
        statement=statement,
        predicted=predicted,
        measured=measured,
        stderr=0.0,
        tolerance=slack,
        controls=(control,),
        slack=slack,
        quantity=quantity,
    )


def _said(said: Said, sign: int, numbers: dict[str, list[float]]) -> Judgement:
    statistic = STATISTICS[said.statistic]
    others = {arm: of for arm, of in numbers.items() if arm != BASELINE}
    differences = against_baseline(numbers[BASELINE], others)
    if said.less is None:
        measured, words = t_interval(numbers[said.arm]), _of_one(said, statistic, sign)
        group = f"{said.arm}: {said.statistic} ({said.place})"
    else:
        measured, words = differences[said.arm], _of_two(said, statistic, sign)
        group = f"{said.arm} less {said.less}: {said.statistic} ({said.place})"
    quantity = statistic.quantity
    return expected(
        said.key, group, statistic.claim, words, "sign", float(sign), measured, differences[TWIN], quantity=quantity
    )


def _of_one(said: Said, statistic: Statistic, sign: int) -> str:
    return f"{said.arm}: {statistic.words} is {'high' if sign > 0 else 'low'}"


def _of_two(said: Said, statistic: Statistic, sign: int) -> str:
    return f"{statistic.words} is {'higher' if sign > 0 else 'lower'} with {said.arm} than with {said.less}"


def _together(prediction: Json, told: list[Json]) -> Judgement:
    """Its control: that the correlation has now one sign, now the other, from seed to seed."""
    found = [together(seed, prediction) for seed in told]
    none = t_interval([(-1) ** i * value for i, value in enumerate(found)])
    return expected(
        f"together/{BASELINE}",
        "vanilla: concentration and over-smoothing (Fig. 18)",
        SIMILAR,
        "where the entropy is low, the states that a layer leaves are similar",
        "sign",
        float(prediction["together"]),
        _finite(t_interval(found)),
        none,
        quantity="correlation over layers",
    )


def _finite(interval: Interval) -> Interval:
    """An interval of numbers that are none decides nothing."""
    return interval if math.isfinite(interval.mean) else Interval(math.nan, math.nan, math.nan)
