"""Reading what `by_width` has measured: losses of a width, what a variant is worth, curves less vanilla's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.optimal import cell
from experiments.training.tuning import apart_on_the_way, mark
from experiments.verdicts.intervals import Interval, against_baseline, t_interval
from experiments.verdicts.worth import Worth, worth


def losses_of(measurement: Json, width: str) -> dict[str, list[float]]:
    """By name, one a seed; nan where a training diverged."""
    return {name: _numbers(by_seed) for name, by_seed in measurement["widths"][width]["loss"].items()}


def _numbers(losses: Sequence[float | None]) -> list[float]:
    return [math.nan if loss is None else loss for loss in losses]


def untuned(name: str, width: str, measurement: Json) -> str:
    """What stands behind a variant whose rate, where it was tuned for this width, was best at an end of its grid."""
    return mark(cell(name, measurement["widths"][width]["tuned_at"]), measurement)


def differences(measurement: Json, width: str) -> dict[str, Interval]:
    """Every variant's paired difference to vanilla in the final loss, family-wise over the variants and the twin."""
    losses = losses_of(measurement, width)
    return against_baseline(losses[BASELINE], {name: x for name, x in losses.items() if name != BASELINE})


def worth_of(
    measurement: Json, variant: str, width: str, size: Callable[[str, Json], float] | None = None
) -> Worth | None:
    """Of as many seeds as there are at this width, against vanilla at the widths that have as many.

    size: of a name and what was measured at a width, such as its compute; by default vanilla's parameters.  None where
    those are fewer than two widths.
    """
    seeds = measurement["widths"][width]["seeds"]
    by_width = {**measurement["widths"], **measurement.get("ahead", {})}  # older measurements have none
    widths = [w for w, about in by_width.items() if about["seeds"] >= seeds]
    if len(widths) < 2:
        return None

    def parameters(_: str, about: Json) -> float:
        return float(about["parameters"][BASELINE])

    size = size or parameters
    known = [by_width[at] for at in widths]
    vanilla = {size(BASELINE, about): _numbers(about["loss"][BASELINE])[:seeds] for about in known}
    return worth(
        size(variant, measurement["widths"][width]), losses_of(measurement, width)[variant], vanilla, better="lower"
    )


def relative(measurement: Json, width: str, variant: str) -> tuple[list[int], list[list[float]]]:
    """Tokens, and of every seed the held-out loss less vanilla's after them; of seeds where neither diverged."""
    here = measurement["widths"][width]
    pairs = zip(here["held_out"][variant], here["held_out"][BASELINE], strict=True)
    return here["evaluated"], [
        [x - y for x, y in zip(ours, base, strict=True)]
        for ours, base in pairs
        if ours is not None and base is not None
    ]


def rates(measurement: Json, width: str, variant: str, against: str = BASELINE) -> tuple[float, float]:
    """Return the learning rates of two variants at a width."""
    found = measurement["widths"][width]["rates"]
    mine, theirs = (found[BASELINE if name == TWIN else name] for name in (variant, against))
    return mine, theirs


@dataclass(frozen=True)
class Curve:
    """A variant's held-out loss less vanilla's, 95 % point by point.

    Args:
        x: tokens per parameter of vanilla.
        points: at each of them.
        whole: whether it is the training; at another rate than vanilla's it is the end alone.
    """

    x: list[float]
    points: list[Interval]
    whole: bool


def drawn(measurement: Json, width: str, variant: str) -> Curve | None:
    """Return what of a variant's curve may be drawn; None of fewer than two seeds that did not diverge."""
    tokens, curves = relative(measurement, width, variant)
    if len(curves) < 2:
        return None
    whole = not apart_on_the_way(*rates(measurement, width, variant))
    shown = slice(0 if whole else -1, None)
    parameters = measurement["widths"][width]["parameters"][BASELINE]
    points = [t_interval(at) for at in list(zip(*curves, strict=True))[shown]]
    return Curve([token / parameters for token in tokens[shown]], points, whole)
