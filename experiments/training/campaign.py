"""Common parts of the scale experiments: complete rounds of seeds, expectations, and what a result says of its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Literal, TypeVar

from experiments.store.folders import Json, RunFolder, Unfinished
from experiments.training.arms import Arm
from experiments.training.pool import Trainer, train_all
from experiments.training.printed import BASELINE as BASELINE
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval

Name = TypeVar("Name")
TWIN = "twin"  # the baseline with other initial weights: no difference is there to find


def rounds(
    arms: Callable[[int], Mapping[Name, Arm]], seeds: int, run: RunFolder, label: str, train: Trainer | None = None
) -> list[dict[Name, Json]]:
    """Return, for every seed, the records of `arms(seed)`: for as many seeds, at least two, as the slot's time allows.

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
    """Return an expected effect, with the twin's on either side as its control; none where there is no twin.

    quantity: what is measured, with its unit
    """
    controls = () if twin is None else (twin, replace(twin, mean=-twin.mean))
    about: Json = {"id": name, "group": group, "claim": claim, "statement": statement, "quantity": quantity}
    return Expectation.sampled(measured, *controls, rule=rule, predicted=predicted, slack=slack, **about)


def unpredicted(name: str, group: str, statement: str, measured: Interval, *, quantity: str) -> Expectation:
    """Return a difference of which nobody predicts anything: it is shown, and nothing is judged."""
    about: Json = {"id": name, "group": group, "claim": "", "statement": statement, "quantity": quantity}
    return Expectation.sampled(measured, rule="unpredicted", predicted=nan, **about)


def of_runs(records: Sequence[Json]) -> Json:
    """Return device, versions, commit and source of trainings, each once where they differ, and the text they read."""
    fields = ("device", "versions", "commit", "source", "data", "unique_tokens", "epochs")
    return {
        **{key: _together([record[key] for record in records]) for key in fields if key in records[0]},
        "training_seconds": round(sum(record["seconds"] for record in records), 1),
        "trainings": len(records),
    }


def _together(values: Sequence[object]) -> object:
    different = [value for i, value in enumerate(values) if value not in values[:i]]
    return different[0] if len(different) == 1 else different
