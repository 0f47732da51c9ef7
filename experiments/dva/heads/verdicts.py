"""The verdicts of `dva-heads`: slopes over the logarithm of the number of heads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from experiments.dva.heads.points import ALONE, DYNAMIC, ONE_HEAD, ORDINARY, REDUNDANCY, WORDS, cell
from experiments.store.folders import Json
from experiments.training.campaign import TWIN
from experiments.training.tuning import untuned
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, contrast, t_interval

MORE, REDUNDANT = "more than dynamic", "redundant"
STATEMENTS = {
    ORDINARY: "more heads end at a lower loss (section 2.2: they mitigate static values)",
    DYNAMIC: "more heads end no lower (abstract: all but one are redundant)",
    ALONE: "more heads end no lower (abstract: all but one are redundant)",
    MORE: "more heads help ordinary values more than dynamic ones",
    REDUNDANT: "the more heads there are, the larger is the share that can be left out",
}
OF = {MORE: (ORDINARY, DYNAMIC), REDUNDANT: (ORDINARY,)}  # families that it tells of, where it is not of itself
CALLED = {**WORDS, MORE: "ordinary values less dynamic ones", REDUNDANT: "ordinary values, heads left out"}


def verdicts(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    found, controls = slopes(prediction, measurement), _controls(prediction, measurement)
    short = {name.split("/")[0] for name in untuned(measurement)}
    idle = {family for family, rise in without_heads(measurement).items() if rise < prediction["in_use"]}
    for name, said in prediction["said"].items():
        families = set(OF.get(name, (name,)))
        marked = " (some untuned)" if short & families else ""
        control = controls[REDUNDANT if name == REDUNDANT else "sign" if said else "not less"]
        yield Expectation(
            name,
            f"{CALLED[name]}{marked}",
            REDUNDANCY if name == REDUNDANT else ONE_HEAD,
            STATEMENTS[name],
            "sign" if said else "not less",
            said,
            found[name].mean,
            found[name].stderr,
            found[name].half_width,
            ((control.mean, control.half_width), *([(-control.mean, control.half_width)] if said else [])),
            0.0 if said else prediction["similar"],
            quantity=f"{'share of heads' if name == REDUNDANT else 'nats a token'}, a doubling of heads",
            decided=not idle & families,
        )


def without_heads(measurement: Json) -> dict[str, float]:
    """By family: how much the loss rises if all heads are left out, the least over its models of the mean of seeds."""
    found = dict.fromkeys(WORDS, math.inf)
    for name, seeds in measurement["without"].items():
        family = ORDINARY if name == TWIN else name.split("/")[0]
        found[family] = min(found[family], fmean([x[-1] - x[0] for x in seeds if x is not None] or [math.inf]))
    return found


def slopes(prediction: Json, measurement: Json) -> dict[str, Interval]:
    """A doubling of heads: by family, ordinary less dynamic, and of the share of ordinary ones that can be left out."""
    heads, family = prediction["heads"], len(prediction["said"])
    losses = {name: _numbers(of) for name, of in measurement["loss"].items()}

    def slope(weights: dict[str, float]) -> Interval:
        by_cell = {
            cell(name, h): sign * w
            for name, sign in weights.items()
            for h, w in zip(heads, doubling(heads), strict=True)
        }
        return contrast(list(losses.values()), [by_cell.get(name, 0.0) for name in losses], family)

    left_out = [spared(measurement, cell(ORDINARY, h), prediction["spared"]) for h in heads]
    return {
        **{name: slope({name: 1.0}) for name in (ORDINARY, DYNAMIC, ALONE)},
        MORE: slope({ORDINARY: 1.0, DYNAMIC: -1.0}),
        REDUNDANT: contrast(left_out, doubling(heads), family),
    }


def doubling(heads: Sequence[int]) -> list[float]:
    """Weights of the least-squares slope over the logarithm to base 2."""
    logs = [math.log2(h) for h in heads]
    mean = sum(logs) / len(logs)
    squares = sum((x - mean) ** 2 for x in logs)
    return [(x - mean) / squares for x in logs]


def spared(measurement: Json, name: str, most: float) -> list[float]:
    """By seed: the share of all heads that can be left out, in the order of what each costs, before it costs more;
    between two numbers of heads by a straight line, as a share of few heads would be rounded by more."""
    return [math.nan if losses is None else _spared(losses, most) for losses in measurement["without"][name]]


def _spared(losses: Sequence[float], most: float) -> float:
    count, heads = 0, len(losses) - 1
    while count < heads and losses[count + 1] - losses[0] <= most:
        count += 1
    if count == heads:
        return 1.0
    part = (most - (losses[count] - losses[0])) / (losses[count + 1] - losses[count])
    return (count + part) / heads


def _controls(prediction: Json, measurement: Json) -> dict[str, Interval]:
    """What is no effect, a model and its twin with other initial weights; and what is one, the lower of two models
    less the other."""
    heads = prediction["heads"]
    most, loss = cell(ORDINARY, heads[-1]), {name: _numbers(of) for name, of in measurement["loss"].items()}

    def between(one: Sequence[float], other: Sequence[float]) -> Interval:
        return t_interval([a - b for a, b in zip(one, other, strict=True)])

    apart = between(loss[cell(ALONE, heads[0])], loss[cell(DYNAMIC, heads[0])])
    shares = (spared(measurement, name, prediction["spared"]) for name in (TWIN, most))
    return {
        "sign": between(loss[TWIN], loss[most]),
        "not less": replace(apart, mean=-abs(apart.mean)),
        REDUNDANT: between(*shares),
    }


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if x is None else x for x in values]
