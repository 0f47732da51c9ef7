"""The full-size experiments: predictions are stored first, verdicts follow their rules, the gpu path runs here too."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import catalogue
from experiments.cli import main
from experiments.experiment.execution import execute, prepare
from experiments.store.folders import RunFolder, Slot, Unfinished
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.stacks import stacked

ROOT = Path(__file__).resolve().parents[3]
NAMES = catalogue.names("scale")
TRAINED = [name for name in NAMES if catalogue.experiment(name).profiles["cpu"].seeds]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder below which every full-size experiment has run at `smoke`."""
    out = tmp_path_factory.mktemp("scale")
    before = Path.cwd()
    os.chdir(out)  # the standard library's source is prepared there, once for all
    try:
        assert main(["run", *NAMES, "--profile", "smoke", "--jobs", "1", "--out", str(out)]) == 0
    finally:
        os.chdir(before)
    return out


def folder(runs, name):
    (found,) = (runs / name).glob("smoke-*")
    return RunFolder(found)


def of_trainings(run):
    """Where the lines of its trainings lie: a question to the campaign has them in the pool."""
    return run if (run / "metrics.jsonl").exists() else RunFolder(run.path.parents[1] / "campaign")


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_a_run_leaves_prediction_rule_and_verdicts(name, runs):
    run = folder(runs, name)
    prediction, summary = run.read("prediction.json"), run.read("summary.json")
    assert {"assumes", "source", "statistic", "rule", "tuning"} <= set(prediction)
    assert prediction["tuning"].startswith("not tuned")
    assert summary["seeds"] == [0, 1]
    assert summary["checks"]
    assert all(
        {"id", "claim", "statement", "predicted", "measured", "stderr", "verdict"} <= set(c) for c in summary["checks"]
    )
    trained = of_trainings(run)
    assert (run / "prediction.json").stat().st_mtime <= (trained / "metrics.jsonl").stat().st_mtime
    assert (run / "figure.png").stat().st_size > 10_000
    assert not list(run.path.glob("unfinished-*"))
    records = [line for line in trained.metrics() if line["kind"] == "run"]
    records += stacked(trained)
    assert records
    assert all({"device", "versions", "commit", "source", "seed", "curve", "loss"} <= set(r) for r in records)


@pytest.mark.parametrize("name", NAMES)
def test_every_profile_predicts(name):
    experiment = catalogue.experiment(name)
    others = {"long", "tasks", "optima", "residual", "depths", "grouped", "latent", "decay"}
    assert set(experiment.profiles) - others == {"smoke", "cpu", "gpu", "gpu-tiny"}
    for profile in experiment.profiles.values():
        json.dumps(experiment.predict(profile.config), allow_nan=False)
        if name in TRAINED:
            assert profile.seeds >= (2 if profile.detects is None else 3)


@pytest.mark.slow
def test_the_same_command_trains_nothing_again(runs, monkeypatch):
    monkeypatch.setattr("experiments.training.pool.train_arm", None)
    monkeypatch.chdir(runs)
    (folder(runs, "scale-icl") / "measurement.json").unlink()
    assert main(["run", "scale-icl", "--profile", "smoke", "--out", str(runs)]) == 0


def test_compare_shows_predictions_beside_verdicts(capsys):
    assert main(["compare", "--out", str(ROOT / "results")]) == 0
    out = capsys.readouterr().out
    finished = [name for name in NAMES if list((ROOT / "results" / name).rglob("summary.json"))]
    assert len(finished) >= 3
    assert all(catalogue.experiment(name).title.split(":")[0] in out for name in finished)
    assert "rule: " in out
    assert "\n  rung 4: svformer against vanilla, width 2, d2-n4-s0.1: size: at width 2 svformer explains 0.43 " in out
    assert "trained models: widths 2 4 8, layers 3\n" in out
    assert "trained models: d_model 64, n_layers 4, vocab 2048, context 128\n" in out
    assert "scale-decode, profile cpu, 0 seeds" in out
    assert "  models: d_model 256, n_layers 8, context 4224\n" in out
    assert "hidden state of attnres is larger than its weights allow: pass; predicted <= 1, measured" in out
    assert "no model is better than Bayes 18 >= 0.03935 " in " ".join(out.split())
    assert main(["compare", "scale-loss", "--out", str(ROOT / "results"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["prediction"]["papers"]["resformer"]["sign"] == -1


def test_time_that_is_up_is_said_and_nothing_is_lost(tmp_path, capsys):
    experiment = catalogue.experiment("scale-icl")
    job = prepare(experiment, "smoke", None, tmp_path, Slot(jobs=1, deadline=time.time() - 1))
    with pytest.raises(Unfinished, match="0 of 12 trainings are finished"):
        execute(job)
    assert main(["run", "scale-icl", "--profile", "smoke", "--out", str(tmp_path), "--minutes", "0.0001"]) == 0
    assert "the same command resumes from here" in capsys.readouterr().err
    assert main(["run", "scale-icl", "--profile", "smoke", "--out", str(tmp_path), "--jobs", "1"]) == 0


def measured(gap_narrow, gap_wide, spread=0.01):
    """A prediction of scale-icl, and a measurement with these gaps of SkipV1Former at widths d and 4d."""
    experiment = catalogue.experiment("scale-icl")
    prediction = experiment.predict(experiment.profiles["smoke"].config)
    zero, signal = prediction["zero_loss"], prediction["d"] ** 2

    def losses(share, sign):
        by_seed = [zero - signal * (share + sign * spread * e) for e in (-1, 1)]
        return [[*[zero] * prediction["n"], loss] for loss in by_seed]

    shares = {"2": (0.3, 0.3 + gap_narrow), "8": (0.8, 0.8 + gap_wide)}
    found = {}
    for width, (vanilla, skipv1) in shares.items():
        found |= {f"{BASELINE}/{width}": losses(vanilla, 1), f"skipv1/{width}": losses(skipv1, -1)}
        found[f"{TWIN}/{width}"] = losses(vanilla, -1)
    stderr = {key: [[0.01] * (prediction["n"] + 1)] * 2 for key in found}
    return prediction, {"losses": found, "stderr": stderr}


def verdicts(prediction, measurement):
    return {c.id: c.verdict for c in catalogue.experiment("scale-icl").compare(prediction, measurement)}


def test_icl_verdicts_follow_the_gaps():
    predicted = 0.43
    exact = verdicts(*measured(predicted, 0.0, 0.001))
    assert exact["sign/skipv1/2"] == exact["size/skipv1/2"] == exact["none/skipv1/8"] == "agrees"
    assert exact["closing/skipv1"] == "agrees"
    opposite = verdicts(*measured(-0.2, 0.3, 0.001))
    assert opposite["sign/skipv1/2"] == opposite["none/skipv1/8"] == opposite["closing/skipv1"] == "contradicts"
    noisy = verdicts(*measured(predicted, 0.0, 0.2))
    assert noisy["sign/skipv1/2"] == noisy["none/skipv1/8"] == "inconclusive"


def test_a_model_better_than_bayes_is_a_defect():
    prediction, measurement = measured(0.4, 0.0)
    assert verdicts(prediction, measurement)["bayes/vanilla/8"] == "pass"
    for losses in measurement["losses"]["vanilla/8"]:
        losses[-1] = prediction["curves"]["Bayes ridge"][-1] - 1
    assert verdicts(prediction, measurement)["bayes/vanilla/8"] == "fail"


def test_a_training_that_diverged_decides_nothing():
    prediction, measurement = measured(0.43, 0.0, 0.001)
    measurement["losses"]["skipv1/2"][0] = None
    found = verdicts(prediction, measurement)
    assert found["sign/skipv1/2"] == found["closing/skipv1"] == "inconclusive"
    assert catalogue.experiment("scale-icl").draw(prediction, measurement)


def test_loss_verdicts_and_the_toy_s_order():
    experiment = catalogue.experiment("scale-loss")
    prediction = experiment.predict(experiment.profiles["cpu"].config)
    toy = prediction["toy"]
    assert toy["resformer"] == toy["skipv1"] == toy["svformer"] == toy["cla-v"] == -1
    assert toy["skipv0"] == 0
    assert toy["attnres"] is toy["denseformer"] is None
    names = (BASELINE, *prediction["papers"], TWIN)
    noise = {name: 0.001 * (-1) ** i for i, name in enumerate(names)}
    level = {"resformer": -0.028, "skipv1": 0.05, "svformer": 0.1}
    loss = {n: [3 + level.get(n, 0) + sign * e for sign in (1, -1, 0)] for n, e in noise.items()}
    found = {c.id: c.verdict for c in experiment.compare(prediction, {"loss": loss})}
    assert found["paper/resformer"] == found["size/resformer"] == found["toy/resformer"] == "agrees"
    assert found["paper/skipv1"] == found["toy/skipv1"] == "contradicts"
    assert (found["paper/svformer"], found["toy/svformer"]) == ("agrees", "contradicts")
    assert found["paper/cla-v"] == "inconclusive"


def test_a_rate_on_the_edge_of_its_grid_is_marked_wherever_its_number_is(capsys):
    run = RunFolder(ROOT / "results" / "scale-loss")
    experiment, prediction, measurement = (
        catalogue.experiment("scale-loss"),
        *map(run.read, ("prediction.json", "measurement.json")),
    )
    groups = {check.group for check in experiment.compare(prediction, measurement)}
    assert {group.split(":")[0] for group in groups if "svformer" in group} == {"svformer (untuned)"}
    assert all(group.endswith("(rates 0.008 and 0.004)") for group in groups if "svformer" in group)
    assert groups == {check["group"] for check in run.read("summary.json")["checks"]}
    figure = experiment.draw(prediction, measurement)
    shown = [
        text.get_text() for axis in figure.axes for text in (*axis.get_yticklabels(), *axis.get_legend().get_texts())
    ]
    assert sum("svformer (untuned)" in text for text in shown) == 1  # its curve, at another rate, is not drawn
    assert not any("resformer (untuned)" in text for text in shown)
    assert "svformer (untuned)" in (run / "figure.svg").read_text()
    assert main(["compare", "scale-loss", "--out", str(ROOT / "results")]) == 0
    assert "untuned: svformer: its best learning rate, 0.008, is the highest tried" in capsys.readouterr().out
    prediction, measurement = measured(0.4, 0.0)
    measurement["tuning"] = {"tuned": True, "losses": {"skipv1/2": {"0.1": 1, "0.2": 2}}, "best": {"skipv1/2": 0.1}}
    groups = {c.group for c in catalogue.experiment("scale-icl").compare(prediction, measurement)}
    assert {"skipv1 (untuned) against vanilla, width 2", "skipv1 against vanilla, width 8"} <= groups
    figure = catalogue.experiment("scale-icl").draw(prediction, measurement)
    labels = {text.get_text() for axis in figure.axes for text in axis.get_legend().get_texts()}
    assert "skipv1 (untuned at width 2), 95 %" in labels


def test_a_violated_bound_fails():
    run = RunFolder(ROOT / "results" / "scale-magnitude")
    prediction, measurement = run.read("prediction.json"), run.read("measurement.json")
    experiment = catalogue.experiment("scale-magnitude")
    before = {c.id: c.verdict for c in experiment.compare(prediction, measurement)}
    assert {v for k, v in before.items() if k.startswith(("bound", "start"))} == {"pass"}
    probed = measurement["magnitudes"]["attnres/12"][0]["end"]
    probed["read_max"][3] = 1.01 * probed["bounds"][3]
    probed["ratio"][3] = 1.01
    measurement["magnitudes"]["attnres/12"][1]["start"]["read_rms"][2] *= 1.1
    after = {c.id: c.verdict for c in experiment.compare(prediction, measurement)}
    assert {k for k in before if before[k] != after[k] and after[k] == "fail"} == {
        "bound/attnres/12/end",
        "convex/attnres/12",
        "start/attnres/12",
    }


def make_gpu(results):
    """`make gpu` as on a GPU machine, but for the profile and the device."""
    make = shutil.which("make")
    assert make
    step = "--preset llama-2m --variants vanilla,attnres --context 16 --batch 2 --device cpu"
    command = [make, "gpu", f"PYTHON={sys.executable}", "PROFILE=gpu-tiny", f"RESULTS={results}", f"STEP={step}"]
    command += ["EXPERIMENTS=--all", "MINUTES=20", "RUN=--jobs 1"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_gpu_path_with_tiny_models(tmp_path):
    first = make_gpu(tmp_path)
    assert first.returncode == 0, first.stderr
    step = json.loads((tmp_path / "step-time-gpu-tiny.json").read_text())
    assert set(step["variants"]) == {"vanilla", "attnres"}
    ratios = [v["ratio"] for v in step["variants"].values() if v["same_answer"]]
    assert len(ratios) == 2
    assert all(ratio is None or ratio > 0 for ratio in ratios)  # None: undecided, as other work came between
    for name in NAMES:
        run = RunFolder(tmp_path / name / "gpu-tiny")
        summary = run.read("summary.json")
        run = of_trainings(run)
        assert summary["seeds"] == [0, 1]
        assert {"device", "versions", "commit", "training_seconds"} <= set(summary)
        if name in (
            "ladder",
            "ladder-axes",
            "text-induction",
        ):  # whose lines hold several trainings, those of stacks in float32 and not compiled
            assert {line["kind"] for line in run.metrics()} == {"stack"}
            continue
        recipes = [line["arm"]["recipe"] for line in run.metrics()]
        assert all(r["accumulate"] == 2 for r in recipes)
        assert {r["compile"] for r in recipes} == ({True, False} if name == "scale-magnitude" else {True})
        assert {r["precision"] for r in recipes} == ({"fp32"} if name == "scale-icl" else {"bf16"})
    places = {of_trainings(RunFolder(tmp_path / name / "gpu-tiny")) / "metrics.jsonl" for name in NAMES}
    before = {place: place.read_text() for place in places}
    assert make_gpu(tmp_path).returncode == 0
    assert before == {place: place.read_text() for place in places}
