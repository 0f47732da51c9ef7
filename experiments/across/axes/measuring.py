"""What is trained for the axes, and what is kept of it."""

from __future__ import annotations

from experiments.across.axes.points import ITSELF, Config, Point, arm, points, source
from experiments.across.ladder.reading import settled
from experiments.store.folders import Json, RunFolder
from experiments.training.restarts import Comparison, Losses, trained


def measured(config: Config, seeds: int, run: RunFolder, label: str) -> Json:
    """Losses by point and test, one number a seed; None where the training diverged, or the loss is no number.

    Raises Unfinished if time is up before two seeds of all points are trained.
    """
    every = points(config)
    power = {t.name: {test.name: source(t, test, config).power() for test in t.every} for t in config.trained}

    def converged(p: Point, few: Losses, many: Losses) -> bool:
        home = source(p.trained, p.trained.every[0], config)
        signal = float(home.regression.signal)
        zero = signal + home.d * home.sigma**2
        return settled(few, many, zero=zero, signal=signal, power=power[p.trained.name][ITSELF])

    comparison = Comparison(
        models=every,
        make=lambda p, seed, steps, rate: arm(p, config, seed, steps, rate),
        lengths=lambda _: config.lengths,
        tuning=config.tuning,
        restarts=lambda _: config.restarts,
        converged=converged,
        doublings=config.doublings,
        alike=lambda p: (p.rung, p.trained),
    )
    found = trained(comparison, seeds, run, label)

    def by_test(p: Point, what: str) -> dict[str, list[float | None]]:
        longest = found.lengths(p)[-1]
        ends = [[r["held_out"], *r.get("elsewhere", [])] for r in (of_seed[p, longest] for of_seed in found.rounds)]
        return {test.name: [end[i] and end[i][what][-1] for end in ends] for i, test in enumerate(p.trained.every)}

    return {
        **found.about,
        "power": power,
        "by_length": {p.key: {str(n): found.last(p, n, "loss") for n in found.lengths(p)} for p in every},
        "losses": {p.key: by_test(p, "loss") for p in every},
        "stderr": {p.key: by_test(p, "stderr") for p in every},
        "restarts": found.alone(),
    }
