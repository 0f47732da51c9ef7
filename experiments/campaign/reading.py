"""Reading what a question has measured of a group: means over parts of curves, and differences to the vanillas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from experiments.campaign.question import BASELINE, VANILLAS
from experiments.store.folders import Json
from experiments.verdicts.intervals import Interval, contrast

Losses = Mapping[str, Sequence[float]]  # by arm, one a seed


def arms(group: Json) -> list[str]:
    """Return the arms of a group beside its vanillas."""
    return [name for name in group["loss"] if name not in VANILLAS]


def over(group: Json, begin: float, end: float) -> Losses:
    """Return each arm's mean training loss over a part of its curve, by seed; nan where one diverged or has no line.

    Args:
        group: as `Question.measure` leaves it.
        begin: tokens per parameter, beyond which lines of the log count.
        end: likewise, up to which they count; what is beyond the constant rate never does.
    """
    end = min(end, group["constant"])
    places = [i for i, at in enumerate(group["curve"]["tokens_per_parameter"]) if begin < at <= end]
    return {
        name: [fmean(curve[i] for i in places) if curve and places else math.nan for curve in group["curve"][name]]
        for name in group["loss"]
    }


def at_length(group: Json, length: str) -> Losses:
    """Return each arm's held-out loss at one of the lengths, by seed; nan where one diverged."""
    return {name: [math.nan if x is None else x for x in by[length]] for name, by in group["loss"].items()}


def planned(measurement: Json, kind: str = "") -> int:
    """Return how many groups are judged together: those measured and those still left out, so that none waits.

    An interval for all at once must not widen as more is trained.

    Args:
        measurement: of a question.
        kind: a part of their names; empty: all.
    """
    return sum(kind in name for name in (*measurement["groups"], *measurement.get("left_out", ())))


def gain(losses: Losses, arm: str, family: int = 1, against: Sequence[str] = BASELINE) -> Interval:
    """Return an arm's mean paired difference to the mean of others, negative where it is better.

    Args:
        losses: of all arms of a group, whose errors are estimated together (`contrast`).
        arm: which of them.
        family: how many differences are judged together.
        against: the arms whose mean is taken off; by default vanilla with two sets of initial weights.
    """
    weights = {name: float(name == arm) - (name in against) / len(against) for name in losses}
    return contrast(list(losses.values()), list(weights.values()), family)
