"""`attnres-ablations`: what is predicted is what the paper prints, and verdicts turn with what was measured."""

import json

import pytest

from experiments import catalogue
from experiments.attnres.ablations.experiment import PROFILES, _best
from experiments.attnres.ablations.points import BLOCK, FULL, WORDS, by_the_paper, trial
from experiments.attnres.printed import ABLATION
from experiments.drawing import style
from experiments.store.folders import RunFolder
from experiments.training import campaign, tuning
from experiments.training import text as text_data
from experiments.training.arms import TextSource
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.text import Text
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention

EXPERIMENT = catalogue.experiment("attnres-ablations")
SEEDS = 4
CPU = PROFILES["cpu"].config


def test_every_printed_ablation_is_compared_with_the_baseline_and_with_its_own_form():
    pairs = {(pair.arm, pair.against): pair for pair in by_the_paper()}
    assert {arm for arm, against in pairs if against == BASELINE} == set(WORDS) - {TWIN}
    assert len(set(WORDS) - {TWIN}) == len(ABLATION) - 1
    assert pairs[FULL, BASELINE].nats == pytest.approx(-0.029)
    assert pairs["attnres-heads", BLOCK].nats == pytest.approx(0.006)
    assert pairs["attnres-input-query", FULL].sign == -1
    assert pairs["denseformer", BASELINE].sign == 1
    assert not {arm for arm, against in pairs if against not in (BASELINE, BLOCK)} & {"denseformer", FULL}


@pytest.mark.parametrize("profile", PROFILES)
def test_blocks_have_four_sublayers_and_the_window_leaves_something_out(profile):
    config = PROFILES[profile].config
    plans = {name: resolve(variant, config.architecture.shape) for name, variant in config.variants().items()}
    for name in (BLOCK, "attnres-heads"):
        assert isinstance(plans[name].depth, DepthAttention)
        assert plans[name].depth.block == 4
    assert plans["attnres-heads"].depth.heads == 16
    if profile not in ("smoke", "gpu-tiny"):
        assert 2 * config.architecture.n_layers > plans["attnres-window"].depth.window + 1


def measured(gains, spread=0.003):
    """Losses of arms that are below PreNorm by so much, and noise of seeds."""
    names = (BASELINE, *WORDS)
    noise = {name: [spread * ((7 * i + 3 * k) % 5 - 2) for i in range(SEEDS)] for k, name in enumerate(names)}
    return {
        "tuning": {"tuned": False},
        "depth_rates": dict.fromkeys(names, 1.0),
        "loss": {name: [3 - gains.get(name, 0.0) + 0.05 * i + noise[name][i] for i in range(SEEDS)] for name in names},
    }


def verdicts(measurement):
    prediction = json.loads(json.dumps(EXPERIMENT.predict(CPU)))
    return {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}


def test_verdicts_follow_what_was_put_in():
    as_printed = {name: 10 * (ABLATION[BASELINE] - ABLATION.get(name, ABLATION["attnres-block"])) for name in WORDS}
    as_printed[TWIN] = 0.0
    found = verdicts(measured(as_printed, 1e-4))
    assert set(found.values()) == {"agrees"}
    turned = verdicts(measured({name: -gain for name, gain in as_printed.items()}, 1e-4))
    assert set(turned.values()) == {"contradicts"}
    assert set(verdicts(measured({}, 0.01)).values()) == {"inconclusive"}
    assert verdicts(measured({**as_printed, TWIN: 0.2}, 1e-4))[f"{FULL}/{BASELINE}"] == "inconclusive"


def test_what_diverged_decides_nothing_and_is_drawn():
    measurement = measured({FULL: 0.2}, 1e-4)
    measurement["loss"]["attnres-sigmoid"][0] = None
    assert verdicts(measurement)[f"attnres-sigmoid/{FULL}"] == "inconclusive"
    with style.drawing():
        assert len(EXPERIMENT.draw(EXPERIMENT.predict(CPU), measurement).axes) == 2


def test_the_best_rate_over_depth_is_kept():
    table = {trial(FULL, 0.1): {"0.004": 3.0, "0.008": None}, trial(FULL, 1.0): {"0.004": 3.1, "0.008": 2.9}}
    assert _best(FULL, CPU, {"tuned": True, "losses": table}) == 1.0
    table[trial(FULL, 0.1)]["0.008"] = 2.8
    assert _best(FULL, CPU, {"tuned": True, "losses": table}) == 0.1
    assert _best(BASELINE, CPU, {"tuned": True, "losses": {}}) == 1.0


def test_every_arm_is_trained_at_the_rates_that_were_best_for_it(monkeypatch, tmp_path):
    """Of trials, the loss is lowest at a learning rate of 8e-3 and, but for Block, at a tenth of it over depth."""

    def train_all(arms, *_):
        def loss(arm):
            best = 1.0 if "attnres-block" in arm.variant else 0.1
            return 3 + (arm.recipe.learning_rate != 8e-3) + (arm.recipe.depth_rate != best)

        about = {"parameters": 1, "diverged": None, "seconds": 1.0}
        return {arm: {**about, "loss": loss(arm)} for arm in arms}

    for asks in (campaign, tuning):
        monkeypatch.setattr(asks, "train_all", train_all)
    monkeypatch.setattr(text_data, "text", lambda *_: Text(TextSource("anywhere", "digest"), "some", 512, 10**9))
    found = EXPERIMENT.measure(CPU, 2, RunFolder(tmp_path))
    assert set(found["tuning"]["best"].values()) == {8e-3}
    assert found["depth_rates"][BLOCK] == 1.0
    assert {rate for name, rate in found["depth_rates"].items() if name not in (BLOCK, BASELINE, TWIN)} == {0.1}
    assert {loss for name, by_seed in found["loss"].items() for loss in by_seed if name not in (BASELINE, TWIN)} == {3}
