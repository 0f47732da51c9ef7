"""`attnres-compute`: planted losses are read as they were put in, and what is predicted follows from theory."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from experiments import catalogue
from experiments.attnres.compute.experiment import PROFILES
from experiments.attnres.compute.points import (
    BLOCK,
    CHOICES,
    DECAYED,
    FULL,
    FULL_EPS,
    HELD,
    MUCH,
    PRENORM,
    SLOW,
    WIDE,
    arms,
    compute,
)
from experiments.attnres.compute.verdicts import factor
from experiments.drawing import style
from experiments.training.arms import TextSource
from experiments.training.campaign import BASELINE, TWIN
from theory.plans.identity import canonical
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention

EXPERIMENT = catalogue.experiment("attnres-compute")
CONFIG = replace(PROFILES["long"].config, widths=(32, 48, 64), tuned=(32,))
NAMES = (*CONFIG.choices, TWIN)
SEEDS = 4
NOISE = np.random.default_rng(0).standard_normal((3, len(NAMES), SEEDS))
SLOPE = 0.2  # nats by which PreNorm's loss falls as its compute grows e times


@pytest.fixture(scope="module")
def prediction():
    return json.loads(json.dumps(EXPERIMENT.predict(CONFIG)))


def measured(worths, spread=1e-4):
    """Losses of arms that are worth so many times their compute."""
    widths = {}
    for k, width in enumerate(CONFIG.widths):
        flops = {name: compute(CONFIG, name, width, CONFIG.vocab) for name in NAMES}

        def loss(name, seed, k=k, flops=flops):
            noise = spread * NOISE[k, NAMES.index(name), seed]
            return 4 - SLOPE * math.log(worths.get(name, 1.0) * flops[name] / 1e12) + 0.05 * seed + noise

        tokens = [1000 * i for i in range(1, 6)]
        widths[str(width)] = {
            "seeds": SEEDS,
            "parameters": dict.fromkeys(NAMES, CONFIG.parameters(width, CONFIG.vocab)),
            "compute": flops,
            "loss": {name: [loss(name, seed) for seed in range(SEEDS)] for name in NAMES},
            "evaluated": tokens,
            "held_out": {n: [[loss(n, seed) + 1 / t for t in tokens] for seed in range(SEEDS)] for n in NAMES},
            "tuned_at": 32,
            "rates": dict.fromkeys(CONFIG.choices, 0.008),
        }
    return {"seeds": SEEDS, "widths": widths, "tuning": {}}


def verdicts(prediction, measurement):
    return {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}


def test_choices_differ_in_what_they_say_and_in_nothing_else():
    made = arms(TextSource("anywhere", "digest"), CONFIG.sizes(32, 512), CONFIG.trained(32, 512), 0, tuple(CHOICES))
    assert next(iter(made)) == BASELINE
    for name, arm in made.items():
        choice = CHOICES[name]
        changed = {"depth_rate": choice.depth_rate, "depth_decay": choice.depth_decay}
        assert arm.recipe == replace(made[BASELINE].recipe, **changed)
        eps = made[BASELINE].architecture.norm_eps if choice.eps is None else choice.eps
        assert arm.architecture == replace(made[BASELINE].architecture, norm_eps=eps)
        depth = resolve(choice.variant, arm.architecture.shape).depth
        assert isinstance(depth, DepthAttention) == (name not in (BASELINE, PRENORM, WIDE))
        assert arm.std == pytest.approx(0.08 if choice.wide else 0.02)
        if isinstance(depth, DepthAttention):
            assert depth.block == (4 if name == BLOCK else 1)
    assert made[HELD].recipe.depth_rate == 0
    assert {name for name, arm in made.items() if arm.recipe.depth_decay} == {DECAYED, MUCH}


def test_decay_is_asked_about_in_a_profile_of_its_own():
    """Elsewhere what is trained is what was, with the keys that it had: their recipes say nothing of that decay."""
    source = TextSource("anywhere", "digest")
    usual = arms(source, CONFIG.sizes(32, 512), CONFIG.trained(32, 512), 0)
    assert not {DECAYED, MUCH} & set(usual)
    assert all("depth_decay" not in arm.to_json()["recipe"] for arm in usual.values())
    assert all("depth_decay" not in canonical(arm.recipe) for arm in usual.values())
    config = PROFILES["decay"].config
    of_decay = arms(source, config.sizes(32, 512), config.trained(32, 512), 0, config.choices)
    assert list(of_decay) == list(config.choices)
    assert of_decay[DECAYED].to_json()["recipe"]["depth_decay"] == 0.1
    assert len({arm.key("cpu") for arm in of_decay.values()}) == len(of_decay)
    found = json.loads(json.dumps(EXPERIMENT.predict(config)))
    assert {(pair["arm"], pair["against"]) for pair in found["compared"]} >= {(DECAYED, FULL_EPS), (MUCH, FULL_EPS)}
    assert set(found["choices"]) == set(config.choices)


def test_eps_takes_something_of_full_s_last_norm_and_nothing_where_it_is_left_out(prediction):
    for width, shrunk in prediction["shrunk"].items():
        sources = 2 * CONFIG.sizes(int(width), 512).n_layers + 1
        assert shrunk[FULL] > 0.15 > 0.02 > max(shrunk["full-wide"], shrunk[BASELINE]) > 0
        of_embedding = 1 - (1 + 1e-5 * sources**2 / 4e-4) ** -0.5  # what sublayers add makes the stream larger
        assert 0.7 * of_embedding < shrunk[FULL] < of_embedding
        assert all(shrunk[name] < 1e-6 for name in (PRENORM, FULL_EPS, HELD, SLOW, BLOCK))


def test_the_paper_s_factors_are_those_of_its_ledger_entry(prediction):
    block = [round(row[0], 2) for row in prediction["printed"]["Block"].values()]
    assert block == [1.22, 1.2, 1.21, 1.22, 1.31]
    assert all(low < middle < high for row in prediction["printed"].values() for middle, low, high in row.values())


def test_reading_over_depth_counts_as_compute():
    flops = {name: compute(CONFIG, name, 32, 512) for name in NAMES}
    assert flops[BASELINE] == flops[PRENORM] == flops[TWIN] < flops[BLOCK] < flops[FULL] == flops[SLOW]
    assert flops[FULL] < 1.1 * flops[BASELINE]


def test_a_factor_that_was_put_in_is_found():
    measurement = measured({FULL: 1.3, BLOCK: 0.8})
    assert factor(measurement, FULL, "48").factor == pytest.approx(1.3, rel=0.01)
    assert factor(measurement, FULL, "48").holds(1.3)
    assert not factor(measurement, FULL, "48").holds(1.2)
    assert factor(measurement, BLOCK, "64").factor == pytest.approx(0.8, rel=0.01)
    assert factor(measurement, FULL, "64").most == math.inf
    assert factor(measurement, TWIN, "48").holds(1.0)


def test_verdicts_follow_what_was_put_in(prediction):
    found = verdicts(prediction, measured({FULL: 1.05, FULL_EPS: 1.15, SLOW: 1.3, BLOCK: 1.23}))
    for name in (f"{FULL}/{BASELINE}", f"{FULL_EPS}/{FULL}", f"{SLOW}/{FULL_EPS}", f"{BLOCK}/{BASELINE}"):
        assert found[f"loss/{name}/48"] == "agrees"
    assert found[f"factor/{BLOCK}/48"] == found[f"factor/{SLOW}/48"] == "agrees"
    assert found[f"factor/{FULL}/48"] == "contradicts"
    worse = verdicts(prediction, measured({FULL: 0.7, FULL_EPS: 0.6, SLOW: 0.5, BLOCK: 0.9, HELD: 0.7}))
    for name in (f"{FULL}/{BASELINE}", f"{FULL_EPS}/{FULL}", f"{SLOW}/{FULL_EPS}", f"{HELD}/{PRENORM}"):
        assert worse[f"loss/{name}/48"] == "contradicts"
    assert worse[f"factor/{SLOW}/48"] == "contradicts"


def test_no_difference_is_no_agreement_unless_full_has_one(prediction):
    same = {PRENORM: 1.0, HELD: compute(CONFIG, BASELINE, 48, 512) / compute(CONFIG, FULL, 48, 512)}
    assert verdicts(prediction, measured({**same, FULL: 0.7}))[f"loss/{HELD}/{PRENORM}/48"] == "agrees"
    alike = dict.fromkeys((FULL, HELD), same[HELD])
    assert verdicts(prediction, measured(alike))[f"loss/{HELD}/{PRENORM}/48"] == "inconclusive"


def test_a_twin_that_differs_decides_nothing(prediction):
    found = verdicts(prediction, measured({FULL: 1.3, TWIN: 1.3}))
    assert found[f"loss/{FULL}/{BASELINE}/48"] == "inconclusive"


def test_what_diverged_decides_nothing_and_is_drawn(prediction):
    measurement = measured({FULL: 1.3})
    for about in measurement["widths"].values():
        about["loss"][FULL][0] = about["held_out"][FULL][0] = None
        about["loss"][SLOW] = about["held_out"][SLOW] = [None] * SEEDS
    found = verdicts(prediction, measurement)
    assert found[f"loss/{FULL}/{BASELINE}/48"] == found[f"factor/{FULL}/48"] == "inconclusive"
    with style.drawing():
        assert len(EXPERIMENT.draw(prediction, measurement).axes) == 4


def test_one_size_has_no_factor(prediction):
    measurement = measured({})
    for width in ("48", "64"):
        del measurement["widths"][width]
    assert not [name for name in verdicts(prediction, measurement) if name.startswith("factor")]
    with style.drawing():
        EXPERIMENT.draw(prediction, measurement)


def test_curves_at_another_rate_are_drawn_at_the_end_alone_and_both_rates_are_named(prediction):
    """A loss on the way follows the learning rate, so nothing is read off two rates before the last step."""
    measurement = measured({})
    with style.drawing():
        before = EXPERIMENT.draw(prediction, measurement).axes[3]
    for about in measurement["widths"].values():
        about["rates"][FULL] = 0.016
    with style.drawing():
        after = EXPERIMENT.draw(prediction, measurement).axes[3]
    assert "Full" in before.get_legend_handles_labels()[1]
    assert "Full" not in after.get_legend_handles_labels()[1]
    assert "Full, at the end" in after.get_legend_handles_labels()[1]
    statements = {check.id: check.statement for check in EXPERIMENT.compare(prediction, measurement)}
    assert statements["loss/full/vanilla/32"].endswith("(rates 0.016 and 0.008)")
    assert "rates" not in statements["loss/full-slow/vanilla/32"]
