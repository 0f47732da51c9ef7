"""`scale-uptrain`: planted losses are read as they were put in, and trainings begin with what they should."""

import json
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest

from experiments.drawing import style
from experiments.skipv1.uptraining.experiment import EXPERIMENT, PROFILES
from experiments.skipv1.uptraining.training import (
    CHOICES,
    CONTINUED,
    CONTINUED_TWIN,
    MEAN,
    REORDERED,
    SKIPV1,
    SPLIT,
    WAYS,
    WHOLE,
)
from experiments.store.folders import RunFolder, Slot, Unfinished, UserError
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.pool import MODELS, beginning
from experiments.training.tuning import Tuning
from icl.models.saved import load
from tests.experiments.committed import RESULTS, as_stored, committed
from tests.experiments.committed import verdicts as judged_by
from theory.plans.names import gqa, mla, resolve
from theory.skipv1.conversion import DISTANCES

CONFIG = PROFILES["cpu"].config
verdicts = partial(judged_by, EXPERIMENT)
SEEDS = 3
NAMES = [*CHOICES, CONTINUED_TWIN, REORDERED]
NOISE = np.random.default_rng(0).standard_normal((30, SEEDS)) * 1e-4


@pytest.fixture(scope="module")
def prediction():
    return as_stored(EXPERIMENT.predict(CONFIG))


def planted(first=None, loss=None, scratch=None, begins=None):
    """Losses of all seeds, near to what is given, else to 3."""

    def near(names, given, shift):
        return {n: (NOISE[shift + i] + (given or {}).get(n, 3.0)).tolist() for i, n in enumerate(names)}

    losses = near(NAMES, loss, 0)
    exact = dict.fromkeys([n for n, c in CHOICES.items() if c.exact], 3.0)
    return {
        "seeds": SEEDS,
        "first": near(WAYS, first, 10),
        "distance": {way: [1.0] * SEEDS for way in WAYS},
        "scratch": near((BASELINE, SKIPV1, TWIN), scratch, 20),
        "begins": {n: [(exact | (begins or {})).get(n, 4.0)] * SEEDS for n in NAMES},
        "loss": losses,
        "share": [0.05, 0.1, 0.15],
        "held_out": {n: [[x + 0.2, x + 0.1, x] for x in values] for n, values in losses.items()},
        "tuning": {"tuned": False},
    }


def test_what_is_predicted(prediction):
    assert prediction["distances"]["mean"] == [1.625, 1.625]
    assert set(prediction["distances"]) == set(WAYS) - {"svd"}
    assert "of" not in prediction
    assert prediction["tuning"].startswith("per variant from")
    assert CONFIG.uptrained.steps == pytest.approx(0.15 * CONFIG.recipe.steps, abs=10)
    assert CONFIG.uptrained.evaluate_every * CONFIG.evaluations == CONFIG.uptrained.steps


@pytest.mark.parametrize(("mean", "paper", "theory"), [(3.0, "agrees", "contradicts"), (5.0, "contradicts", "agrees")])
def test_first_losses_side_with_the_paper_or_with_independent_heads(prediction, mean, paper, theory):
    first = dict.fromkeys(WAYS, 4.0) | {"mean": mean}
    judged = verdicts(prediction, planted(first=first))
    assert {judged[f"first/the paper/{way}"] for way in ("mean-vo", "top-v", "top-vo", "svd")} == {paper}
    assert {judged[f"first/independent heads/{way}"] for way in ("mean-vo", "top-vo", "apart", "first", "whole")} == {
        theory
    }
    assert judged["first/independent heads/top-v"] == paper  # the one that both say begins higher
    assert "first/independent heads/svd" not in judged


def test_ends(prediction):
    low = planted(loss={MEAN: 2.8, WHOLE: 2.7}, scratch={SKIPV1: 2.9})
    judged = verdicts(prediction, low)
    for pair in ((MEAN, SKIPV1), (MEAN, BASELINE), (SKIPV1, BASELINE), (MEAN, CONTINUED)):
        assert judged[f"end/the paper/{'/'.join(pair)}"] == "agrees"
    assert judged[f"end/independent heads/{WHOLE}/{MEAN}"] == "agrees"
    assert judged[f"end/a reason to convert/svformer/{CONTINUED}"] == "inconclusive"
    # More tokens alone lower a loss: what is below MHA from scratch may be above MHA trained on.
    judged = verdicts(prediction, planted(loss={CONTINUED: 2.7, MEAN: 2.8, REORDERED: 2.7}))
    assert judged[f"end/the paper/{MEAN}/{BASELINE}"] == "agrees"
    assert judged[f"end/the paper/{MEAN}/{CONTINUED}"] == "contradicts"
    # Where another order of the text makes a difference as well, nothing is decided; nor, of other weights, a twin.
    for null, pair in ((REORDERED, f"{MEAN}/{BASELINE}"), (CONTINUED_TWIN, f"{MEAN}/{SKIPV1}")):
        judged = verdicts(prediction, planted(loss={MEAN: 2.8, null: 2.8}))
        assert judged[f"end/the paper/{pair}"] == "inconclusive"
        assert judged[f"end/the paper/{MEAN}/{BASELINE}"] == ("inconclusive" if null == REORDERED else "agrees")


def test_what_begins_as_the_trained_function(prediction):
    judged = verdicts(prediction, planted())
    assert judged["same/attnres"] == judged["same/resformer-learned"] == "agrees"
    assert verdicts(prediction, planted(begins={"attnres": 3.01}))["same/attnres"] == "contradicts"
    assert verdicts(prediction, planted(begins={MEAN: 3.0}))["same/attnres"] == "inconclusive"


def test_a_training_that_diverged_decides_nothing(prediction):
    broken = planted(loss={MEAN: 2.8})
    broken["loss"][MEAN][0] = None
    broken["held_out"][MEAN][0] = None
    assert verdicts(prediction, broken)[f"end/the paper/{MEAN}/{CONTINUED}"] == "inconclusive"
    with style.drawing():
        EXPERIMENT.draw(prediction, broken)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Tiny trainings, with rates that are tuned."""
    tiny = PROFILES["smoke"].config
    config = replace(
        tiny,
        recipe=replace(tiny.recipe, steps=14, log_every=7),
        tuning=Tuning(grid=(1e-3, 1e-2), share=1.0, widenings=0),
        uptuning=Tuning(grid=(1e-3, 1e-2), share=1.0, widenings=0),
    )
    run = RunFolder(tmp_path_factory.mktemp("uptraining"), Slot(jobs=1))
    return config, run, EXPERIMENT.measure(config, 2, run)


@pytest.mark.long
def test_trainings_begin_with_what_they_were_converted_to(ran):
    _, _, measurement = ran
    for name, choice in CHOICES.items():
        if choice.variant == SKIPV1:
            assert measurement["begins"][name] == pytest.approx(measurement["first"][choice.how], rel=1e-6)
        if choice.exact:
            assert measurement["begins"][name] == pytest.approx(measurement["scratch"][BASELINE], rel=1e-5)
    assert measurement["begins"][CONTINUED_TWIN] == pytest.approx(measurement["scratch"][TWIN], rel=1e-6)
    assert set(measurement["loss"]) == set(NAMES)
    assert measurement["share"][-1] == pytest.approx(0.15, abs=0.07)
    assert set(measurement["tuning"]["best"]) == {BASELINE, SKIPV1, *CHOICES}
    assert measurement["loss"]["skipv1, svd"][0] != measurement["loss"]["skipv1, whole"][0]


def test_nothing_is_trained_again_and_models_are_kept(ran):
    config, run, measurement = ran
    with mock.patch("experiments.training.pool.train_arm", None):
        again = EXPERIMENT.measure(config, 2, run)
    assert again["loss"] == measurement["loss"]
    models = list((run / MODELS).iterdir())
    assert len(models) == 2 * 3 + 1
    plans = {load(folder).plan for folder in models}
    shape = config.architecture.shape
    assert plans == {resolve("vanilla", shape), resolve("skipv1", shape)}


def test_models_that_are_gone_are_not_needed_for_what_is_finished(ran, tmp_path):
    config, run, measurement = ran
    (run / MODELS).rename(tmp_path / "models")
    try:
        assert EXPERIMENT.measure(config, 2, run)["loss"] == measurement["loss"]
        arm = mock.Mock(spec=Arm)
        arm.key.return_value = "gone"
        with pytest.raises(UserError, match=r"gone, with whose weights gone a training begins, is gone$"):
            beginning(arm, run).model(config.architecture, resolve("vanilla", config.architecture.shape), "cpu")
    finally:
        (tmp_path / "models").rename(run / MODELS)
    with pytest.raises(Unfinished, match="finished"):
        EXPERIMENT.measure(config, 2, RunFolder(tmp_path, Slot(jobs=1, deadline=1.0)))


def test_a_model_that_diverged_from_scratch_is_one_line(ran, tmp_path):
    config, _, _ = ran
    wild = replace(config, recipe=replace(config.recipe, learning_rate=1e30), tuning=Tuning(), uptuning=Tuning())
    with pytest.raises(UserError, match="from scratch: nothing can be made of that model"):
        EXPERIMENT.measure(wild, 2, RunFolder(tmp_path, Slot(jobs=1)))


FORMS = {"grouped": "GQA", "latent": "MLA"}


def test_what_the_ledger_says_of_small_decoders_is_what_was_measured():
    """Its sentences, against the committed result."""
    summary = json.loads((RESULTS / "scale-uptrain" / "summary.json").read_text())
    judged = {check["id"]: check["verdict"] for check in summary["checks"]}
    first = {way: judged[f"first/the paper/{way}"] for way in ("svd", "mean-vo", "top-v", "top-vo")}
    assert first == {**dict.fromkeys(("svd", "mean-vo", "top-vo"), "contradicts"), "top-v": "inconclusive"}
    for other in (BASELINE, CONTINUED, SKIPV1):
        assert judged[f"end/the paper/{MEAN}/{other}"] == "contradicts"
    assert judged[f"end/the paper/{SKIPV1}/{BASELINE}"] == "inconclusive"
    for form in FORMS:
        forms = json.loads((RESULTS / "scale-uptrain" / form / "summary.json").read_text())
        begin = {check["verdict"] for check in forms["checks"] if check["id"].startswith("first/the paper")}
        assert (begin, len(forms["seeds"])) == ({"inconclusive"}, 3)
    assert summary["profile"] == "cpu"
    _, measurement = committed("scale-uptrain")
    assert round(measurement["parameters"][BASELINE], -4) == 130_000


def test_at_another_rate_both_are_named_and_the_curve_is_drawn_at_its_ends(prediction):
    measurement = planted(loss={MEAN: 2.8})
    measurement["tuning"] = {"tuned": False, "best": {**dict.fromkeys(NAMES, 0.002), MEAN: 0.004, "vanilla": 0.008}}
    groups = {check.id: check.group for check in EXPERIMENT.compare(prediction, measurement)}
    assert groups[f"end/the paper/{MEAN}/{CONTINUED}"].endswith("(rates 0.004 and 0.002)")
    assert groups[f"end/the paper/{MEAN}/{BASELINE}"].endswith("(rates 0.004 and 0.008)")
    assert "rates" not in groups[f"end/a reason to convert/svformer/{CONTINUED}"]
    with style.drawing():
        axis = EXPERIMENT.draw(prediction, measurement).axes[2]
    longest = max(len(line.get_xdata()) for line in axis.get_lines())
    whole = {line.get_label() for line in axis.get_lines() if len(line.get_xdata()) == longest}
    assert longest > 2
    assert not any(label.startswith(MEAN) for label in whole)
    assert any(label.startswith("svformer") for label in whole)


def test_a_line_that_lies_on_another_is_said_to():
    """Of the committed result; and a tenth of a nat higher it does not: the control."""
    prediction, measurement = committed("scale-uptrain")
    for moved in (0.0, 0.1):
        measurement["begins"]["attnres"] = [loss + moved for loss in measurement["begins"]["attnres"]]
        with style.drawing():
            figure = EXPERIMENT.draw(prediction, measurement)
        words = {text.get_text() for axis in figure.axes for text in axis.get_legend().get_texts()}
        assert "resformer-learned (on the thick line)" in words
        assert ("attnres (on the thick line)" in words) == (not moved)
        assert "skipv1, mean" in words


@pytest.mark.parametrize("profile", FORMS)
def test_forms_are_asked_all_ways_and_theory_of_heads_alone(profile):
    config, heads = PROFILES[profile].config, FORMS[profile]
    predicted = EXPERIMENT.predict(config)
    assert predicted["of"] == heads
    assert set(predicted["ways"]) == set(WAYS)
    assert set(predicted["distances"]) == (set(DISTANCES) if heads == "GQA" else set())
    assert set(predicted["choices"]) == {CONTINUED, MEAN, SPLIT, WHOLE}
    measurement = planted(loss={MEAN: 2.8})
    kept = {*predicted["choices"], CONTINUED_TWIN, REORDERED}
    for name in ("first", "distance"):
        measurement[name] = {way: measurement[name][way] for way in predicted["ways"]}
    for name in ("loss", "begins", "held_out"):
        measurement[name] = {n: values for n, values in measurement[name].items() if n in kept}
    judged = {j.id: j for j in EXPERIMENT.compare(predicted, measurement)}
    assert (
        judged[f"end/the paper/{MEAN}/{BASELINE}"].statement
        == f"after 15% of the tokens {MEAN} is below {heads} from scratch"
    )
    assert (f"end/independent heads/{WHOLE}/{MEAN}" in judged) == (heads == "GQA")
    with style.drawing():
        EXPERIMENT.draw(predicted, measurement)


@pytest.mark.parametrize("kind", ["gqa", "mla"])
@pytest.mark.long
def test_forms_are_converted_and_trained_on(kind, tmp_path):
    tiny = PROFILES["smoke"].config
    sizes = gqa(tiny.architecture) if kind == "gqa" else mla(tiny.architecture, width=8, rope=2)
    chosen = PROFILES["grouped"].config.chosen
    config = replace(tiny, architecture=sizes, recipe=replace(tiny.recipe, steps=14, log_every=7), chosen=chosen)
    measurement = EXPERIMENT.measure(config, 2, RunFolder(tmp_path, Slot(jobs=1)))
    assert set(measurement["loss"]) == {*config.choices, CONTINUED_TWIN, REORDERED}
    assert measurement["begins"][MEAN] == pytest.approx(measurement["first"]["mean"], rel=1e-6)
    assert measurement["begins"][MEAN] != pytest.approx(measurement["begins"][CONTINUED], rel=1e-6)
