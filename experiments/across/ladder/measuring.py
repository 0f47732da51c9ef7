"""What is trained on the ladder, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.across.ladder.points import Config, arm, of_trials, points, source, tried
from experiments.across.ladder.reading import settled
from experiments.store.folders import Json, RunFolder
from experiments.training.campaign import of_runs
from experiments.training.restarts import Comparison, trained


def measured(config: Config, seeds: int, run: RunFolder, label: str) -> Json:
    """Of a ladder with one task: losses by point and length, one number a seed; None where the training diverged.

    Raises Unfinished if time is up before two seeds of all points are trained.
    """
    (task,), every = config.tasks, points(config)
    zero, compared = float(task.zero_loss), source(task, config)
    power = compared.power()
    comparison = Comparison(
        models=every,
        make=lambda p, seed, steps, rate: arm(p, config, seed, steps, rate),
        lengths=lambda _: config.lengths,
        tuning=config.tuning,
        restarts=lambda _: config.restarts,
        converged=lambda _, few, many: settled(few, many, zero=zero, signal=task.d**2, power=power),
        tried=lambda training: tried(training, config),
        doublings=config.doublings,
        alike=lambda p: p.rung,
    )
    found = trained(comparison, seeds, run, label)
    return {
        **found.about,
        "power": {task.key: power},
        "power_of_trials": {task.key: of_trials(compared, config).power()},
        "losses": {p.key: {str(n): found.last(p, n, "loss") for n in found.lengths(p)} for p in every},
        "stderr": {p.key: found.last(p, found.lengths(p)[-1], "stderr") for p in every},
        "restarts": found.alone(),
    }


def together(found: Sequence[Json]) -> Json:
    """The measurements of several tasks as one; the seeds that all of them have."""
    seeds = min(one["seeds"] for one in found)
    first, tuning = found[0], [one["tuning"] for one in found]
    by_seed = {
        "losses": {name: {s: x[:seeds] for s, x in by.items()} for one in found for name, by in one["losses"].items()},
        "stderr": {name: x[:seeds] for one in found for name, x in one["stderr"].items()},
        "restarts": {name: x[:seeds] for one in found for name, x in one["restarts"].items()},
    }
    tables = {
        what: {name: x for one in tuning for name, x in one[what].items()}
        for what in ("losses", "finals", "best")
        if what in tuning[0]
    }
    return {
        "seeds": seeds,
        "tuning": {**first["tuning"], **tables},
        **{what: {name: x for one in found for name, x in one[what].items()} for what in ("power", "power_of_trials")},
        **by_seed,
        "diverged": [x for one in found for x in one["diverged"]],
        "provenance": _provenance([one["provenance"] for one in found]),
    }


def _provenance(parts: Sequence[Json]) -> Json:
    """Devices, versions and commits of all trainings, each once where they differ; seconds and trainings added up."""
    counted = ("training_seconds", "trainings")
    merged = of_runs([{**part, "seconds": part["training_seconds"]} for part in parts])
    return {**merged, **{name: round(sum(part[name] for part in parts), 1) for name in counted}}
