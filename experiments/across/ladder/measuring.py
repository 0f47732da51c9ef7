"""What is trained on the ladder, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.across.ladder.points import Config, Point, arm, held_out_power, lengths, points
from experiments.store.folders import Json, RunFolder
from experiments.training import stacks
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds, tuned


def measured(config: Config, seeds: int, run: RunFolder, label: str) -> Json:
    """Of a ladder with one task: losses by point and length, one number a seed; None where the training diverged.

    Raises Unfinished if time is up before two seeds of all points are trained.
    """
    (task,), every = config.tasks, points(config)
    longest = {p: lengths(p.rung, config)[-1] for p in every}
    trials = {p.key: arm(p, config, 0, steps) for p, steps in longest.items() if p.variant != TWIN}
    rates, tuning = tuned(trials, config.tuning, run, label, stacks.train_stacked)
    rate_of = {p: rates[(replace(p, variant=BASELINE) if p.variant == TWIN else p).key] for p in every}
    cells = [(p, steps) for p in every for steps in lengths(p.rung, config)]
    by_seed = rounds(
        lambda seed: {(p, steps): arm(p, config, seed, steps, rate_of[p]) for p, steps in cells},
        seeds,
        run,
        label,
        stacks.train_stacked,
    )

    def last(p: Point, steps: int, what: str) -> list[float | None]:
        """At the last position."""
        ends = (round_[p, steps]["held_out"] for round_ in by_seed)
        return [end[what][-1] if end else None for end in ends]

    records = [record for round_ in by_seed for record in round_.values()]
    return {
        "seeds": len(by_seed),
        "tuning": tuning,
        "power": {task.key: held_out_power(task, config)},
        "losses": {p.key: {str(steps): last(p, steps, "loss") for steps in lengths(p.rung, config)} for p in every},
        "stderr": {p.key: last(p, steps, "stderr") for p, steps in longest.items()},
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "provenance": of_runs(records),
    }


def together(found: Sequence[Json]) -> Json:
    """The measurements of several tasks as one; the seeds that all of them have."""
    seeds = min(one["seeds"] for one in found)
    first, tuning = found[0], [one["tuning"] for one in found]
    by_seed = {
        "losses": {name: {s: x[:seeds] for s, x in by.items()} for one in found for name, by in one["losses"].items()},
        "stderr": {name: x[:seeds] for one in found for name, x in one["stderr"].items()},
    }
    tables = {
        what: {name: x for one in tuning for name, x in one[what].items()}
        for what in ("losses", "best")
        if what in tuning[0]
    }
    return {
        "seeds": seeds,
        "tuning": {**first["tuning"], **tables},
        "power": {name: x for one in found for name, x in one["power"].items()},
        **by_seed,
        "diverged": [x for one in found for x in one["diverged"]],
        "provenance": _provenance([one["provenance"] for one in found]),
    }


def _provenance(parts: Sequence[Json]) -> Json:
    """Devices, versions and commits of all trainings, each once where they differ; seconds and trainings added up."""
    counted = ("training_seconds", "trainings")
    merged = of_runs([{**part, "seconds": part["training_seconds"]} for part in parts])
    return {**merged, **{name: round(sum(part[name] for part in parts), 1) for name in counted}}
