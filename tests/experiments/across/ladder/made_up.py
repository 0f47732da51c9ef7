"""Made-up measurements of the ladder, from what every model is to explain."""

import functools
import json
from dataclasses import replace

import numpy as np

from experiments import catalogue
from experiments.across.ladder.points import VARIANTS, points
from experiments.across.ladder.rungs import INGREDIENTS
from experiments.training.restarts import Restarts
from theory.plans.setting import Setting

EXPERIMENT = catalogue.experiment("ladder")
CONFIG = replace(
    EXPERIMENT.profiles["cpu"].config,
    tasks=(Setting(2, 8, 0.1),),
    widths=(1.0, 1.5, 2.0),
    wider=(4.0,),
    variants=VARIANTS,
    orders=(INGREDIENTS[::-1],),
)
RUNGS = tuple("23456")
TWO_TASKS = replace(CONFIG, tasks=(Setting(2, 4, 0.1), Setting(3, 5, 0.1)), orders=(), restarts=Restarts())


@functools.cache
def _predicted(config):
    return json.dumps(EXPERIMENT.predict(config), allow_nan=False)


def predicted(config=CONFIG):
    return json.loads(_predicted(config))


def as_the_toy(prediction, point):
    """What rung 1 explains; what it knows nothing of does as vanilla."""
    share = prediction["tasks"][point.task.key]["share"]
    known = share.get(point.variant, share["vanilla"])[str(point.width)]
    return share["vanilla"][str(point.width)] if known is None else known


def measured(prediction, config=CONFIG, *, share=as_the_toy, noise=0.004, seeds=6, doubling=0.0):
    """With noise that all models of a seed share, thrice as large, and noise of their own.

    share: of a point, from the prediction; doubling: what the last doubling of the steps adds
    """
    generator = np.random.default_rng(0)
    common = 3 * noise * generator.standard_normal(seeds)
    losses, stderr = {}, {}
    for point in points(config):
        task = prediction["tasks"][point.task.key]
        of_seeds = share(prediction, point) + common + noise * generator.standard_normal(seeds)
        late = [task["zero_loss"] - task["d"] ** 2 * x for x in of_seeds]
        early = [x + task["d"] ** 2 * doubling for x in late]
        few, many = config.lengths[-2:]
        losses[point.key] = {str(few): early, str(many): late}
        stderr[point.key] = [0.01] * seeds
    return {
        "seeds": seeds,
        "tuning": {"tuned": False},
        "power": {name: task["zero_loss"] for name, task in prediction["tasks"].items()},
        "losses": losses,
        "stderr": stderr,
        "diverged": [],
        "provenance": {},
    }


def verdicts(prediction, measurement):
    return {c.id: c.verdict for c in EXPERIMENT.compare(prediction, measurement)}


def judged(found, start):
    return {verdict for name, verdict in found.items() if name.startswith(start)}
