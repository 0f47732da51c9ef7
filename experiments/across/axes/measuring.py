"""What is trained for the axes, and what is kept of it."""

from __future__ import annotations

from experiments.across.axes.points import Config, Point, arm, points, source
from experiments.store.folders import Json, RunFolder
from experiments.training.restarts import Comparison, trained


def measured(config: Config, seeds: int, run: RunFolder, label: str) -> Json:
    """Losses by point and test, one number a seed; None where the training diverged, or the loss is no number.

    Raises Unfinished if time is up before two seeds of all points are trained.
    """
    every, longest = points(config), config.lengths[-1]
    comparison = Comparison(
        models=every,
        make=lambda p, seed, steps, rate: arm(p, config, seed, steps, rate),
        lengths=lambda _: config.lengths,
        tuning=config.tuning,
        restarts=lambda _: config.restarts,
    )
    found = trained(comparison, seeds, run, label)

    def by_test(p: Point, what: str) -> dict[str, list[float | None]]:
        ends = [[r["held_out"], *r.get("elsewhere", [])] for r in (of_seed[p, longest] for of_seed in found.rounds)]
        return {test.name: [end[i] and end[i][what][-1] for end in ends] for i, test in enumerate(p.trained.every)}

    return {
        **found.about,
        "power": {t.name: {test.name: source(t, test, config).power() for test in t.every} for t in config.trained},
        "by_length": {p.key: {str(n): found.last(p, n, "loss") for n in config.lengths} for p in every},
        "losses": {p.key: by_test(p, "loss") for p in every},
        "stderr": {p.key: by_test(p, "stderr") for p in every},
        "restarts": found.alone(),
    }
