"""What is trained for the axes, and what is kept of it."""

from __future__ import annotations

from dataclasses import replace

from experiments.across.axes.points import Config, Point, Shift, Trained, arm, points, source
from experiments.store.folders import Json, RunFolder
from experiments.training import stacks
from experiments.training.arms import prompt_task
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds, tuned


def measured(config: Config, seeds: int, run: RunFolder, label: str) -> Json:
    """Losses by point and test, one number a seed; None where the training diverged, or the loss is no number.

    Raises Unfinished if time is up before two seeds of all points are trained.
    """
    every, longest = points(config), config.lengths[-1]
    trials = {p.key: replace(arm(p, config, 0, longest), elsewhere=()) for p in every if p.variant != TWIN}
    rates, tuning = tuned(trials, config.tuning, run, label, stacks.train_stacked)
    rate_of = {p: rates[(replace(p, variant=BASELINE) if p.variant == TWIN else p).key] for p in every}
    by_seed = rounds(
        lambda seed: {(p, n): arm(p, config, seed, n, rate_of[p]) for p in every for n in config.lengths},
        seeds,
        run,
        label,
        stacks.train_stacked,
    )

    def by_test(p: Point, what: str) -> dict[str, list[float | None]]:
        ends = [[r["held_out"], *r.get("elsewhere", [])] for r in (round_[p, longest] for round_ in by_seed)]
        return {test.name: [end[i] and end[i][what][-1] for end in ends] for i, test in enumerate(p.trained.every)}

    records = [record for round_ in by_seed for record in round_.values()]
    return {
        "seeds": len(by_seed),
        "tuning": tuning,
        "power": {t.name: {test.name: power(t, test, config) for test in t.every} for t in config.trained},
        "by_length": {
            p.key: {str(n): [_last(round_[p, n]["held_out"]) for round_ in by_seed] for n in config.lengths}
            for p in every
        },
        "losses": {p.key: by_test(p, "loss") for p in every},
        "stderr": {p.key: by_test(p, "stderr") for p in every},
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "provenance": of_runs(records),
    }


def power(trained: Trained, test: Shift, config: Config) -> float:
    """The mean of ||y_{n+1}||^2 over the held-out prompts of a test: what predicting zero costs there."""
    squares = [
        batch.targets[:, -1].square().sum(-1).mean() for batch in prompt_task(source(trained, test, config)).held_out()
    ]
    return float(sum(squares) / len(squares))


def _last(end: Json | None) -> float | None:
    return end["loss"][-1] if end else None
