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
from experiments.verdicts.intervals import Interval, quantile, t_interval

Losses = Mapping[float, Sequence[float | None]]  # by rate, one a seed; None where a training diverged
Swept = Mapping[float, Sequence[Mapping[float, Arm]]]  # by rate, of every seed, trainings by length


@dataclass(frozen=True)
class OwnRate:
    """The learning rate at which an arm's loss is lowest.

    Args:
        rate: of that place.
        octaves: standard error of the place over seeds, in doublings of the rate (jackknife); None where that says
            nothing, as the place is an end of what was tried, or would be one without one of the seeds.
        edge: whether it is the lowest or the highest rate at which nothing diverged, beyond which the best one may lie.
    """

    rate: float
    octaves: float | None
    edge: bool


OwnRates = Mapping[str, OwnRate]


def own_rates(sweeps: Mapping[str, Swept], there: Mapping[Arm, Json], sweep: Sweep) -> dict[str, OwnRate]:
    """Return the rate of every arm whose sweep is complete; none where a training diverged at every rate.

    Args:
        sweeps: the trainings, by arm.
        there: records of those that are finished.
        sweep: which of them decide.
    """
    rates = {}
    for name, swept in sweeps.items():
        if all(arm in there for arm in each_swept(swept)):
            losses = {rate: [there[of_seed[sweep.until]]["loss"] for of_seed in seeds] for rate, seeds in swept.items()}
            if candidates(losses):
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
    if not (known := candidates(losses)):
        raise ValueError("trainings diverged at every learning rate")
    place, edge = _place(known)
    without = [_place(_without(known, i)) for i in range(seeds_of(known))]
    at_end = edge or any(at_end for _, at_end in without)
    return OwnRate(2**place, None if at_end else _jackknife([other for other, _ in without]), edge)


def octaves_apart(losses: Losses, others: Losses) -> Interval:
    """Return by how many doublings one best rate is above another, with a 95 % interval over paired seeds.

    All of it is nan where either has no error (`OwnRate.octaves`): at an end of what was tried only a bound is known.
    """
    known, other = candidates(losses), candidates(others)
    if not (known and other) or None in (own_rate(known).octaves, own_rate(other).octaves):
        return Interval(math.nan, math.nan, math.nan)
    seeds = seeds_of(losses)
    stderr = _jackknife([_place(_without(known, i))[0] - _place(_without(other, i))[0] for i in range(seeds)])
    apart = _place(known)[0] - _place(other)[0]
    return Interval(apart, stderr, quantile(0.975, max(1, seeds - 1)) * stderr)


def ends(losses: Losses) -> tuple[float, float] | None:
    """Return the 95 % interval of an arm's own rate, over seeds; None where it has no error (`OwnRate.octaves`)."""
    best = own_rate(losses)
    if best.octaves is None:
        return None
    reach = quantile(0.975, max(1, seeds_of(losses) - 1)) * best.octaves
    return best.rate * 2**-reach, best.rate * 2**reach


def costs(losses: Losses) -> dict[float, Interval]:
    """Return how far each rate's loss lies above the lowest, with 95 % intervals over paired seeds, each alone."""
    known = candidates(losses)
    least = min(known.values(), key=fmean)
    return {rate: t_interval([a - b for a, b in zip(of_seed, least, strict=True)]) for rate, of_seed in known.items()}


def candidates(losses: Losses) -> dict[float, Sequence[float]]:
    """Return the losses at rates at which nothing diverged, in the order of these."""
    known = {rate: [x for x in losses[rate] if x is not None] for rate in sorted(losses)}
    return {rate: of_seed for rate, of_seed in known.items() if len(of_seed) == len(losses[rate])}


def seeds_of(losses: Losses) -> int:
    """Return how many seeds there are."""
    return len(next(iter(losses.values())))


def _place(losses: Mapping[float, Sequence[float]]) -> tuple[float, bool]:
    """Return the logarithm to base 2 of the rate of lowest mean loss, and whether it is the first or the last.

    It is where the parabola through the lowest point and its neighbours is lowest; at an end, the end.
    """
    places, values = np.log2(list(losses)), np.array([fmean(of_seed) for of_seed in losses.values()])
    at = int(values.argmin())
    if at in (0, len(places) - 1):
        return float(places[at]), True
    near = slice(at - 1, at + 2)
    curved, slope, _ = np.polyfit(places[near] - places[at], values[near], 2)
    return float(places[at] - slope / 2 / curved), False


def _without(losses: Mapping[float, Sequence[float]], seed: int) -> dict[float, list[float]]:
    return {rate: [x for i, x in enumerate(of_seed) if i != seed] for rate, of_seed in losses.items()}


def _jackknife(without: Sequence[float]) -> float:
    """Return the standard error of what was computed again without each of the seeds."""
    count = len(without)
    return math.sqrt((count - 1) / count * sum((x - fmean(without)) ** 2 for x in without))


def at_width(rate: float, width: int, other: int) -> float:
    """Return what a rate of one width is at another: it falls with the root of the width, here to two digits."""
    return float(f"{rate * math.sqrt(width / other):.2g}")
