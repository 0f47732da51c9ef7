"""An arm's own learning rate, at which a parabola through its held-out losses, over the rate's logarithm, is lowest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from experiments.campaign.setting import Sweep
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.verdicts.intervals import Interval, quantile

Losses = Mapping[float, Sequence[float | None]]  # by rate, one a seed; None where a training diverged
Swept = Mapping[float, Sequence[Mapping[float, Arm]]]  # by rate, of every seed, trainings by length


@dataclass(frozen=True)
class OwnRate:
    """The learning rate at which an arm's loss is lowest.

    Args:
        rate: of that place.
        octaves: standard error of the place over seeds, in doublings of the rate (jackknife).
        edge: whether it is the lowest or the highest rate of the sweep, beyond which the best one may lie.
    """

    rate: float
    octaves: float
    edge: bool


OwnRates = Mapping[str, OwnRate]


def own_rates(sweeps: Mapping[str, Swept], there: Mapping[Arm, Json], sweep: Sweep) -> dict[str, OwnRate]:
    """Return the rate of every arm whose sweep is complete.

    Args:
        sweeps: the trainings, by arm.
        there: records of those that are finished.
        sweep: which of them decide.
    """
    rates = {}
    for name, swept in sweeps.items():
        if all(arm in there for arm in each_swept(swept)):
            losses = {rate: [there[of_seed[sweep.until]]["loss"] for of_seed in seeds] for rate, seeds in swept.items()}
            rates[name] = own_rate(losses)
    return rates


def each_swept(swept: Swept) -> list[Arm]:
    """Return all trainings of an arm's sweep."""
    return [arm for seeds in swept.values() for of_seed in seeds for arm in of_seed.values()]


def own_rate(losses: Losses) -> OwnRate:
    """Return where an arm's mean loss is lowest.

    Args:
        losses: by rate, one per seed, the same seeds in one order; None where a training diverged.  A rate at which
            one did is no candidate.

    Raises:
        ValueError: if trainings diverged at every rate.
    """
    place = _place(losses)
    edge = any(math.isclose(place, math.log2(end), abs_tol=1e-9) for end in (min(losses), max(losses)))
    return OwnRate(2**place, _jackknife([_place(_without(losses, i)) for i in range(seeds_of(losses))]), edge)


def octaves_apart(losses: Losses, others: Losses) -> Interval:
    """Return by how many doublings one best rate is above another, with a 95 % interval over paired seeds."""
    seeds = seeds_of(losses)
    without = [_place(_without(losses, i)) - _place(_without(others, i)) for i in range(seeds)]
    stderr = _jackknife(without)
    return Interval(_place(losses) - _place(others), stderr, quantile(0.975, max(1, seeds - 1)) * stderr)


def seeds_of(losses: Losses) -> int:
    """Return how many seeds there are."""
    return len(next(iter(losses.values())))


def _place(losses: Losses) -> float:
    """Return the logarithm to base 2 of the rate of lowest mean loss."""
    means = {
        rate: fmean(x for x in losses[rate] if x is not None) for rate in sorted(losses) if None not in losses[rate]
    }
    if not means:
        raise ValueError("trainings diverged at every learning rate")
    return _lowest(np.log2(list(means)), np.array(list(means.values())))


def _without(losses: Losses, seed: int) -> dict[float, list[float | None]]:
    return {rate: [x for i, x in enumerate(of_seed) if i != seed] for rate, of_seed in losses.items()}


def _jackknife(without: Sequence[float]) -> float:
    """Return the standard error of what was computed again without each of the seeds."""
    count = len(without)
    return math.sqrt((count - 1) / count * sum((x - fmean(without)) ** 2 for x in without))


def _lowest(places: np.ndarray, values: np.ndarray) -> float:
    """Return where the parabola through the lowest point and its neighbours is lowest; at an end, the end."""
    if 0 < (at := int(values.argmin())) < len(places) - 1:
        near = slice(at - 1, at + 2)
        curved, slope, _ = np.polyfit(places[near] - places[at], values[near], 2)
        return float(places[at] - slope / 2 / curved)
    return float(places[at])


def at_width(rate: float, width: int, other: int) -> float:
    """Return what a rate of one width is at another: it falls with the root of the width, here to two digits."""
    return float(f"{rate * math.sqrt(width / other):.2g}")
