"""Experiments from end to end at profile `smoke`: those that no other test runs."""

import json

import pytest

from experiments import catalogue
from experiments.cli import main

SLOW = pytest.mark.slow
JUDGED = {  # what the checks are about: the first parts of their ids
    "skipv1-softmax": {"construction", "beyond linear", "floor", "bayes", "beyond"},
    "skipv1-end-to-end": {"construction", "bound", "bayes", "gap", "gap size", "no gap", "worth", "copying", "starts"},
    "resformer-blocks": None,
    "dva-example": None,
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name.startswith("dva") else SLOW) for name in JUDGED]
)
def test_a_smoke_run_ends_its_checks_pass_and_every_claim_is_judged(name, tmp_path):
    assert main(["run", name, "--profile", "smoke", "--jobs", "1", "--out", str(tmp_path)]) == 0
    (folder,) = (tmp_path / name).iterdir()
    checks = json.loads((folder / "summary.json").read_text())["checks"]
    assert {check["verdict"] for check in checks if "rule" not in check} == {"pass"}
    assert {check["claim"] for check in checks} <= set(catalogue.experiment(name).claims)
    assert JUDGED[name] in (None, {check["id"].split("/")[0] for check in checks})
    files = {path.name for path in folder.iterdir()}
    assert {"prediction.json", "metrics.jsonl", "measurement.json", "figure.svg", "figure.png"} <= files
