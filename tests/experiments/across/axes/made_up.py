"""Made-up measurements of the axes, from what every model is to explain of every test."""

import functools
import json
from zlib import crc32

import numpy as np

from experiments import catalogue
from experiments.across.axes.points import points

EXPERIMENT = catalogue.experiment("ladder-axes")
CONFIG = EXPERIMENT.profiles["long"].config


@functools.cache
def _predicted(config):
    return json.dumps(EXPERIMENT.predict(config), allow_nan=False)


def predicted(config=CONFIG):
    return json.loads(_predicted(config))


def as_the_toy(about, point):
    """What the toy explains; on a pool, and on fresh tasks after one, what the best linear step does."""
    named = "vanilla" if point.variant == "twin" else point.variant
    toy = about["toy"][point.rung.key][named][str(point.width)]
    return about.get("step", 0.5) if toy is None else toy


def measured(prediction, config=CONFIG, *, share=as_the_toy, noise=0.004, seeds=6, doubling=0.0):
    """With noise that all models of a seed share, thrice as large, and noise of their own.

    share: of a point, from the prediction of a test; doubling: what the last doubling of the steps adds
    """
    generator = np.random.default_rng(0)
    common = 3 * noise * generator.standard_normal(seeds)
    losses, stderr, by_length = {}, {}, {}
    for point in points(config):
        tests = prediction["trained"][point.trained.name]["tests"]
        own = noise * np.random.default_rng(crc32(point.key.encode())).standard_normal(seeds)
        losses[point.key] = {
            name: [about["zero_loss"] - about["signal"] * x for x in share(about, point) + common + own]
            for name, about in tests.items()
        }
        stderr[point.key] = {name: [0.01] * seeds for name in tests}
        late, signal = losses[point.key]["as trained"], tests["as trained"]["signal"]
        few, many = config.lengths[-2:]
        by_length[point.key] = {str(few): [x + signal * doubling for x in late], str(many): late}
    return {
        "seeds": seeds,
        "tuning": {"tuned": False},
        "power": {
            name: {test: about["zero_loss"] for test, about in trained["tests"].items()}
            for name, trained in prediction["trained"].items()
        },
        "by_length": by_length,
        "losses": losses,
        "stderr": stderr,
        "diverged": [],
        "provenance": {},
    }


def verdicts(prediction, measurement):
    return {c.id: c.verdict for c in EXPERIMENT.compare(prediction, measurement)}
