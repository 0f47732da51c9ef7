"""What the scale experiments share: complete rounds of seeds, tuned learning rates, what a result says of its runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from experiments.store.folders import Json, RunFolder, Unfinished
from experiments.training.arms import Arm
from experiments.training.pool import train_all
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval
from icl.recipe import Recipe

Name = TypeVar("Name")
Trainer = Callable[
    [Sequence[Arm], RunFolder, str], dict[Arm, Json]
]  # `experiments.training.pool.train_all`, or its like
BASELINE, TWIN = "vanilla", "twin"  # the same model with other initial weights: no difference is there to find
TUNING_SEED = 500_000  # and those that follow, apart from the seeds that are compared
APART = 10_000  # between the restarts of one seed
FARTHEST = 4.0  # factor by which a grid of learning rates is widened at a time, at most


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Learning rates to try for each arm, on `share` of its steps and on so many `seeds` that are not compared, whose
    mean decides; of each the best of its random `restarts`, if it has several.

    Where an arm's best rate is the lowest or highest of them, the next one beyond is tried too, `widenings` times at
    most.  An empty grid: the rate of the recipe is used for all arms, untuned.
    """

    grid: tuple[float, ...] = ()
    share: float = 0.25
    widenings: int = 3
    seeds: int = 1
    restarts: int = 1

    def described(self, each: str = "variant") -> str:
        """What a prediction says of it, of arms that differ by `each`."""
        if not self.grid:
            return "not tuned: one learning rate for all arms"
        best = f", each the best of {self.restarts} random restarts" if self.restarts > 1 else ""
        return (
            f"per {each} from {self.grid}, widened up to {self.widenings} times where the best is at an end, on "
            f"{self.share:.0%} of the steps, {'one seed' if self.seeds == 1 else f'the mean of {self.seeds} seeds'}"
            f"{best}"
        )


def rounds(
    arms: Callable[[int], Mapping[Name, Arm]], seeds: int, run: RunFolder, label: str, train: Trainer | None = None
) -> list[dict[Name, Json]]:
    """For every seed, the records of `arms(seed)`: for as many seeds, at least two, as the slot's time allows.

    Raises Unfinished for fewer.
    """
    wanted = [arms(seed) for seed in range(seeds)]
    every = [arm for round_ in wanted for arm in round_.values()]
    records = (train or train_all)(every, run, label)
    complete: list[dict[Name, Json]] = []
    for round_ in wanted:
        if not all(arm in records for arm in round_.values()):
            break
        complete.append({name: records[arm] for name, arm in round_.items()})
    if len(complete) < 2:
        done = sum(arm in records for arm in every)
        raise Unfinished(f"{label}: {done} of {len(every)} trainings are finished; a comparison needs two seeds of all")
    return complete


def tuned(
    arms: Mapping[str, Arm], tuning: Tuning, run: RunFolder, label: str, train: Trainer | None = None
) -> tuple[dict[str, float], Json]:
    """The best learning rate for each arm by held-out loss, and what was found; a training that diverged never wins.

    `untuned` finds the arms whose best is at an end of what was tried.  Raises Unfinished if time is up before.
    """
    if not tuning.grid:
        return {name: arm.recipe.learning_rate for name, arm in arms.items()}, {"tuned": False}
    rates = {name: sorted(tuning.grid) for name in arms}
    for widening in range(tuning.widenings + 1):
        losses = _losses_by_rate(arms, rates, tuning, run, label, train)
        best = {
            name: min(by_rate, key=lambda rate: (by_rate[rate] is None, by_rate[rate]))
            for name, by_rate in losses.items()
        }
        ends = [name for name, rate in best.items() if rate in _ends(rates[name])]
        if len(tuning.grid) < 2 or widening == tuning.widenings or not ends:
            break
        for name in ends:
            rates[name] = sorted([*rates[name], _beyond(rates[name], best[name])])
    table = {name: {str(rate): loss for rate, loss in by_rate.items()} for name, by_rate in losses.items()}
    return best, {
        "tuned": True,
        "grid": list(tuning.grid),
        "share_of_steps": tuning.share,
        "losses": table,
        "best": dict(best),
    }


def _losses_by_rate(
    arms: Mapping[str, Arm],
    rates: Mapping[str, Sequence[float]],
    tuning: Tuning,
    run: RunFolder,
    label: str,
    train: Trainer | None,
) -> dict[str, dict[float, float | None]]:
    """The means over the seeds; None where one diverged, with all of its restarts."""
    trials = {
        (name, rate): [
            [
                replace(arm, seed=TUNING_SEED + i + APART * r, recipe=_shorter(arm, rate, tuning.share))
                for r in range(tuning.restarts)
            ]
            for i in range(tuning.seeds)
        ]
        for name, arm in arms.items()
        for rate in rates[name]
    }
    every = dict.fromkeys(arm for seeds in trials.values() for tries in seeds for arm in tries)
    records = (train or train_all)(list(every), run, f"{label}, learning rates")
    if len(records) < len(every):
        raise Unfinished(f"{label}: {len(records)} of {len(every)} learning-rate trials are finished")

    def mean(seeds: Sequence[Sequence[Arm]]) -> float | None:
        ends = ([records[arm]["loss"] for arm in tries] for tries in seeds)
        losses = [min((loss for loss in of_seed if loss is not None), default=None) for of_seed in ends]
        known = [loss for loss in losses if loss is not None]
        return sum(known) / len(known) if len(known) == len(losses) else None

    return {name: {rate: mean(trials[name, rate]) for rate in rates[name]} for name in arms}


def _ends(rates: Sequence[float]) -> tuple[float, float]:
    return min(rates), max(rates)


def _beyond(rates: Sequence[float], end: float) -> float:
    """The rate that follows on an end of at least two, by the factor between the last two there, FARTHEST at most."""
    _, neighbour = sorted(rates, key=lambda rate: abs(math.log(rate / end)))[:2]
    factor = min(max(end / neighbour, 1 / FARTHEST), FARTHEST)
    return float(f"{end * factor:.3g}")


def untuned(measurement: Json) -> dict[str, str]:
    """The arms of a result whose best learning rate is the lowest or highest tried for them, and that in words.

    Beyond there may be a better one, so what is measured of them may be short of what they can do.
    """
    tuning = measurement.get("tuning") or {}
    if not tuning.get("tuned"):
        return {}
    found = {}
    for name, by_rate in tuning["losses"].items():
        best, (lowest, highest) = tuning["best"][name], _ends([float(rate) for rate in by_rate])
        if best in (lowest, highest):
            found[name] = f"its best learning rate, {best:g}, is the {'highest' if best == highest else 'lowest'} tried"
    return found


def mark(arm: str, measurement: Json) -> str:
    """What stands behind the name of an arm wherever its number is shown: nothing, unless it is untuned."""
    return " (untuned)" if arm in untuned(measurement) else ""


def _shorter(arm: Arm, rate: float, share: float) -> Recipe:
    steps = max(arm.recipe.log_every, round(share * arm.recipe.steps))
    return replace(arm.recipe.of_length(steps), learning_rate=rate, evaluate_every=0)


def expected(
    name: str,
    group: str,
    claim: str,
    statement: str,
    rule: Literal["sign", "size"],
    predicted: float,
    measured: Interval,
    twin: Interval | None,
    slack: float = 0.0,
    *,
    quantity: str,
) -> Expectation:
    """An effect, controlled by the twin's on either side; by nothing, where there is no twin to compare.

    quantity: what is measured, with its unit
    """
    controls = () if twin is None else ((twin.mean, twin.half_width), (-twin.mean, twin.half_width))
    numbers = measured.mean, measured.stderr, measured.half_width
    return Expectation(name, group, claim, statement, rule, predicted, *numbers, controls, slack, quantity)


def of_runs(records: Sequence[Json]) -> Json:
    """Device, versions, commit and source of the trainings, each once where they differ, and the text they read."""
    fields = ("device", "versions", "commit", "source", "data", "unique_tokens", "epochs")
    return {
        **{key: _together([record[key] for record in records]) for key in fields if key in records[0]},
        "training_seconds": round(sum(record["seconds"] for record in records), 1),
        "trainings": len(records),
    }


def _together(values: Sequence[object]) -> object:
    different = [value for i, value in enumerate(values) if value not in values[:i]]
    return different[0] if len(different) == 1 else different
