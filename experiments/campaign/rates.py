"""An arm's own learning rate, at which a parabola through its held-out losses, over the rate's logarithm, is lowest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.campaign.setting import Sweep
from experiments.store.folders import Json
from experiments.training.arms import Arm

Swept = Mapping[float, Sequence[Mapping[float, Arm]]]  # by rate, of every seed, trainings by length


@dataclass(frozen=True)
class OwnRate:
    """Where an arm's loss is lowest.

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
    found = {}
    for name, swept in sweeps.items():
        if all(arm in there for arm in each_swept(swept)):
            losses = {rate: [there[of_seed[sweep.until]]["loss"] for of_seed in seeds] for rate, seeds in swept.items()}
            found[name] = own_rate(losses)
    return found


def each_swept(swept: Swept) -> list[Arm]:
    """Return all trainings of an arm's sweep."""
    return [arm for seeds in swept.values() for of_seed in seeds for arm in of_seed.values()]


def own_rate(losses: Mapping[float, Sequence[float | None]]) -> OwnRate:
    """Return where an arm's mean loss is lowest.

    Args:
        losses: by rate, one a seed, the same seeds in the same order; None where a training diverged.  A rate at which
            one did is no candidate.

    Raises:
        ValueError: if trainings diverged at every rate.
    """
    stable = sorted(rate for rate, of_seed in losses.items() if None not in of_seed)
    if not stable:
        raise ValueError("trainings diverged at every learning rate")
    places = np.log2(stable)
    values = np.array([losses[rate] for rate in stable], dtype=float)
    seeds = values.shape[1]
    lowest = _lowest(places, values.mean(1))
    without = [_lowest(places, np.delete(values, i, axis=1).mean(1)) for i in range(seeds)] if seeds > 1 else []
    spread = math.sqrt((seeds - 1) / seeds * sum((x - np.mean(without)) ** 2 for x in without)) if without else math.nan
    edge = any(math.isclose(lowest, math.log2(end), abs_tol=1e-9) for end in (min(losses), max(losses)))
    return OwnRate(float(2**lowest), spread, edge)


def _lowest(places: np.ndarray, values: np.ndarray) -> float:
    """Return where the parabola through the points is lowest, or the place of the lowest, if that is at an end."""
    if 0 < (at := int(values.argmin())) < len(places) - 1:
        near = slice(at - 1, at + 2)
        curved, slope, _ = np.polyfit(places[near] - places[at], values[near], 2)
        return float(places[at] - slope / 2 / curved)
    return float(places[at])


def at_width(rate: float, width: int, other: int) -> float:
    """Return what a rate of one width is at another: it falls with the root of the width, here to two digits."""
    return float(f"{rate * math.sqrt(width / other):.2g}")
