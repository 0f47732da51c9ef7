"""Walks: how many files of ours a command enters, so that whoever follows one need not read the rest.

A file is entered if it is imported; packages that hold a docstring alone are not counted.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOTS = ("theory", "icl", "experiments")
ENTERED = {"verify": 53, "run": 80, "train": 80}  # as measured; more is a step back
TO_THE_DECODER = """
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "icl.models.decoder":
            print(*sys.modules, name)
            sys.stdout.flush()
            os._exit(0)

sys.meta_path.insert(0, Stop())
"""


def entered(arguments, before=""):
    """The files that a command in an interpreter of its own enters, as modules; and "torch", if it is imported."""
    script = f"import os, sys\nfrom experiments.cli import main\n{before}\nmain({arguments!r})\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    modules = set(done.stdout.splitlines()[-1].split())
    return {name for name in modules if name == "torch" or (name.partition(".")[0] in ROOTS and holds(name))}


def holds(module):
    """Whether a module is a file with more than a docstring."""
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return file.is_file() or len((file.with_suffix("") / "__init__.py").read_text().splitlines()) > 1


@pytest.mark.long
def test_verify_enters_the_room_of_the_entry_alone():
    for _ in range(2):  # the first time all rooms are looked through
        modules = entered(["verify", "skipv1.gap"])
    assert {name for name in modules if ".claims." in name} == {
        f"experiments.skipv1.claims.{name}" for name in ("gap", "model", "setting")
    }
    assert not any(name.startswith(("torch", "experiments.training")) for name in modules)
    assert len(modules) <= ENTERED["verify"]


@pytest.mark.long
def test_run_enters_the_experiment_s_room_and_the_toy_s_training(tmp_path):
    run = ["run", "skipv1-gap", "--profile", "smoke", "--jobs", "1", "--out", str(tmp_path)]
    modules = entered(run)
    assert not any(name.startswith(("icl.models", "experiments.training.campaign")) for name in modules)
    assert not any(".claims." in name for name in modules)
    assert len(modules) <= ENTERED["run"]


@pytest.mark.long
def test_train_enters_few_files_before_the_decoder(tmp_path):
    train = "train --preset llama-2m --data regression:d=2,n=3,sigma=0 --steps 1 --batch 1 --device cpu --out"
    modules = entered([*train.split(), str(tmp_path)], TO_THE_DECODER)
    assert "icl.models.decoder" in modules
    assert not any(name.startswith("experiments.campaign") for name in modules)
    assert len(modules) <= ENTERED["train"]
