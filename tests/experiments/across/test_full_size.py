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
from experiments.training.stacks import training_records

ROOT = Path(__file__).resolve().parents[3]
NAMES = catalogue.names("scale")
OF_GIVEN = ("reading", "trained-layers")  # models
TRAINED = [name for name in NAMES if catalogue.experiment(name).profiles["cpu"].seeds and name not in OF_GIVEN]


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
    fields = {"id", "claim", "statement", "predicted", "measured", "stderr", "verdict"}
    assert all(fields <= set(check) for check in summary["checks"])
    trained = of_trainings(run)
    assert (run / "prediction.json").stat().st_mtime <= (trained / "metrics.jsonl").stat().st_mtime
    assert (run / "figure.png").stat().st_size > 10_000
    assert not list(run.path.glob("unfinished-*"))
    records = training_records(trained)
    assert records
    assert all({"device", "versions", "commit", "source", "seed", "curve", "loss"} <= set(r) for r in records)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.long
def test_every_profile_predicts(name):
    experiment = catalogue.experiment(name)
    others = {"long", "tasks", "optima", "residual", "grouped", "latent", "decay", "gpu-8", "smollm"}
    assert set(experiment.profiles) - others == {"smoke", "cpu", "gpu", "gpu-tiny"}
    for profile in experiment.profiles.values():
        json.dumps(experiment.predict(profile.config), allow_nan=False)
        if name in TRAINED:
            assert profile.seeds >= (2 if profile.detects is None else 3)


@pytest.mark.slow
def test_the_same_command_trains_nothing_again(runs, monkeypatch):
    monkeypatch.setattr("experiments.training.pool.train_arm", None)
    monkeypatch.chdir(runs)
    monkeypatch.setattr("experiments.training.trunks.train_arm", None)
    for name in ("bridge", "text-induction"):
        (folder(runs, name) / "measurement.json").unlink()
        assert main(["run", name, "--profile", "smoke", "--out", str(runs)]) == 0


@pytest.mark.long
def test_compare_shows_predictions_beside_verdicts(capsys):
    assert main(["compare", "--out", str(ROOT / "results")]) == 0
    out = capsys.readouterr().out
    finished = [name for name in NAMES if list((ROOT / "results" / name).rglob("summary.json"))]
    assert len(finished) >= 3
    assert all(f"\n{name}, profile " in f"\n{out}" for name in finished)
    assert out.count("speed: at the width of one code") == 1  # what the words of bridge's own table mean
    assert "rule: " in out
    of_ladder = "reached, d2-n4-s0.1, norms: svformer: svformer explains 0.43 more than vanilla, as the toy does: "
    assert f"\n  {of_ladder}" in out
    assert "scale-decode, profile cpu, 0 seeds" in out
    assert "  models: d_model 256, n_layers 8, context 4224\n" in out
    assert main(["compare", "scale-uptrain", "--out", str(ROOT / "results"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["prediction"]["rule"]


@pytest.mark.long
def test_time_that_is_up_is_said_and_nothing_is_lost(tmp_path, capsys):
    experiment = catalogue.experiment("text-induction")
    job = prepare(experiment, "smoke", None, tmp_path, Slot(jobs=1, deadline=time.time() - 1))
    with pytest.raises(Unfinished, match="0 of 8 trainings are finished"):
        execute(job)
    run = ["run", "text-induction", "--profile", "smoke", "--out", str(tmp_path)]
    assert main([*run, "--minutes", "0.0001"]) == 0
    assert "the same command resumes from here" in capsys.readouterr().err
    assert main([*run, "--jobs", "1"]) == 0


def make_gpu(results):
    """`make gpu` as on a GPU machine, but for the profile and the device."""
    make = shutil.which("make")
    assert make
    command = [make, "gpu", f"PYTHON={sys.executable}", "PROFILE=gpu-tiny", f"RESULTS={results}", "MINUTES=20"]
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
        if name != "scale-uptrain":  # whose lines hold several trainings
            assert {line["kind"] for line in run.metrics()} == {"stack"}
            continue
        recipes = [line["arm"]["recipe"] for line in run.metrics()]
        assert {r["compile"] for r in recipes} == {True}
        assert {r["precision"] for r in recipes} == {"bf16"}
    places = {of_trainings(RunFolder(tmp_path / name / "gpu-tiny")) / "metrics.jsonl" for name in NAMES}
    before = {place: place.read_text() for place in places}
    assert make_gpu(tmp_path).returncode == 0
    assert before == {place: place.read_text() for place in places}


@pytest.mark.long
def test_of_all_experiments_those_that_need_the_campaign_s_text_are_named_and_left_out(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr("experiments.experiment.together.executed", lambda jobs: ran.extend(jobs) or [])
    monkeypatch.setattr("experiments.cli.runs.catalogue.check_claims", lambda _: None)
    assert main(["run", "--all", "--only", "scale", "--profile", "cpu"]) == 0
    assert not {name for name in NAMES if name.startswith("text-")} & {job.experiment.name for job in ran}
    assert (
        "left out, as they may need the campaign's text (give --data FOLDER, or name them alone): text-layers, "
        in capsys.readouterr().err
    )
    assert {job.experiment.name for job in ran} == {name for name in NAMES if not name.startswith("text-")}
