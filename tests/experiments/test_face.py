"""`import experiments`: the names that it offers; what it runs and trains, the command line runs and trains too."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import experiments
import icl
from experiments import catalogue
from experiments.cli import main
from experiments.drawing import style
from experiments.experiment.protocol import Profile
from experiments.store.folders import RunFolder
from experiments.verdicts.checks import Check
from tests.faces import check_face
from theory.errors import BadInput
from theory.plans.plan import plan, v

DATA = "regression:d=2,n=3,sigma=0.1"
OWN = (
    "from theory import plan, v\ndef own(shape):\n    return plan(shape, values=lambda n, h: 0.5 * v(n, h) + v(1, h))\n"
)


def test_face():
    check_face("experiments")


def trained(tmp_path, variant, *options):
    command = ["train", "--preset", "llama-2m", "--variant", variant, "--data", DATA, "--steps", "2", "--batch", "4"]
    assert main([*command, "--device", "cpu", "--out", str(tmp_path / "runs"), *options]) == 0
    (folder,) = (tmp_path / "runs" / "train").iterdir()
    return folder


@pytest.mark.parametrize("variant", ["skipv1:ratio=0.5+attnres-block", "mine.py:own", "resformer+gqa"])
@pytest.mark.long
def test_what_the_command_line_trained_is_loaded_to_the_bit(tmp_path, monkeypatch, variant):
    """Built and trained by hand, from the folder's own description, it answers the same."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    folder = trained(tmp_path, variant)
    own = plan(icl.build("llama-2m").config.shape, values=lambda n, h: 0.5 * v(n, h) + v(1, h))
    own = own if ".py" in variant else None
    loaded = icl.load(folder, variant=own)
    about = json.loads((folder / "config.json").read_text())
    assert about["variant"] == variant.removesuffix("+gqa")
    model = icl.build(loaded.config, own or about["variant"], seed=0)
    untrained = [p.detach().clone() for p in model.parameters()]
    recipe = icl.Recipe(**{**about["recipe"], "betas": tuple(about["recipe"]["betas"])})
    for _ in icl.train(model, icl.PromptTask(icl.RegressionTask(2, 3, 0.1), 512), recipe, 0):
        pass
    prompts = icl.RegressionTask(2, 3, 0.1).sample(4, icl.Generator(5)).tokens().mT
    assert torch.equal(loaded(prompts), model.eval()(prompts))
    assert not any(map(torch.equal, untrained, loaded.parameters()))


@pytest.mark.long
def test_train_is_the_command(tmp_path, monkeypatch):
    options = {"data": DATA, "steps": 2, "batch": 4, "device": "cpu", "out": tmp_path / "runs"}
    folder = trained(tmp_path, "resformer")
    monkeypatch.setattr("experiments.commands.single.train_arm", pytest.fail)  # finished: it is shown, not trained
    found = experiments.train("llama-2m", "resformer", **options)
    assert found.folder == folder
    assert found.record.items() <= json.loads((folder / "summary.json").read_text()).items()
    for wrong in ({"schedule": "none"}, {"seed": -1}, {"context": 5}, {"data": "regression:d=2"}, {"device": "tpu"}):
        with pytest.raises((experiments.UserError, BadInput)):
            experiments.train("llama-2m", **{**options, **wrong})


@dataclass(frozen=True)
class Config:
    sides: int = 4


class Squares:
    """Its prediction, its measurement and its one check, which holds."""

    name, title, kind, claims = "squares", "Corners of a square", "theory", ("skipv1.gap",)
    caption = "Nothing: two axes."
    profiles: ClassVar = {"smoke": Profile(config=Config(), seeds=2, seconds=1, detects="a corner")}

    def predict(self, config):
        return {"corners": config.sides}

    def measure(self, config, seeds, run):  # noqa: ARG002
        return {"corners": 4, "device": run.slot.device, "jobs": run.slot.jobs, "seeds": seeds}

    def compare(self, prediction, measurement):
        numbers = prediction["corners"], measurement["corners"]
        return [Check("square", "squares", "skipv1.gap", "as many corners as sides", *numbers, 0.0, 0.5, (3.0, 5.0))]

    def draw(self, prediction, measurement):  # noqa: ARG002
        return style.figure(1)[0]


def test_run_carries_an_experiment_through(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "experiment", {"squares": Squares()}.__getitem__)
    options = {"out": tmp_path, "seeds": 3, "jobs": 2}
    found = experiments.run("squares", "smoke", **options)
    assert found.verdict == "pass"
    summary, measured = map(RunFolder(found.folder).read, ("summary.json", "measurement.json"))
    assert summary["checks"] == [check.to_json() for check in found.checks]
    assert measured == {"corners": 4, "device": "cpu", "jobs": 2, "seeds": 3}
    assert experiments.run("squares", "smoke", **options) == found
    for wrong in ({"jobs": -1}, {"minutes": 0.0}, {"data": str(tmp_path)}, {"device": "tpu"}, {"seeds": 1}):
        with pytest.raises(experiments.UserError):
            experiments.run("squares", "smoke", **{**options, **wrong})
    with pytest.raises(experiments.UserError):
        experiments.run("squares", "cpu", **options)
