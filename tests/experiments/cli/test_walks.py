"""Walks: how many files of ours a command enters, so that whoever follows one need not read the rest.

A file is entered if it is imported; packages that hold a docstring alone are not counted.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOTS = ("theory", "icl", "experiments")
ENTERED = {"verify": 63, "run": 63, "train": 79}  # as measured; more is a step back
STOP = """
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {0!r}:
            print(*sys.modules, name)
            sys.stdout.flush()
            os._exit(0)

sys.meta_path.insert(0, Stop())
"""


def entered(command, until=None):
    """The files that a command in an interpreter of its own enters, as modules; of others torch, if it is imported.

    until: a module of ours; what is entered after it does not count.
    """
    before = STOP.format(until) if until else ""
    script = (
        f"import os, sys\nfrom experiments.cli import main\n{before}\nmain({command.split()!r})\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    modules = set(done.stdout.splitlines()[-1].split())
    assert until is None or until in modules
    return {name for name in modules if name == "torch" or (name.partition(".")[0] in ROOTS and holds(name))}


def holds(module):
    """Whether a module is a file with more than a docstring."""
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return file.is_file() or len((file.with_suffix("") / "__init__.py").read_text().splitlines()) > 1


def within(modules, *rooms):
    return {name for name in modules if name.startswith(rooms)}


@pytest.mark.long
def test_verify_enters_the_rooms_of_the_entry_and_its_premises():
    for _ in range(2):  # the first time all rooms are looked through
        modules = entered("verify skipv1.eckart-young")
    assert {name for name in modules if ".claims." in name} == {"experiments.skipv1.claims.bound_steps"}
    modules = entered("verify skipv1.gap")
    assert {name for name in modules if ".claims." in name} == within(modules, "experiments.skipv1.claims.")
    assert not within(modules, "torch", "icl.models", "experiments.training", "experiments.experiment")
    assert len(modules) <= ENTERED["verify"]


@pytest.mark.long
def test_run_enters_the_experiment_and_what_it_predicts_with_before_it_trains(tmp_path):
    entered("list skipv1-gap")  # the first time all rooms are looked through
    run = f"run skipv1-gap --profile smoke --jobs 1 --out {tmp_path}"
    modules = entered(run, until="icl.toys.training")
    assert not within(modules, "icl.models", "experiments.training.campaign", "experiments.skipv1.claims")
    assert len(modules - {"torch"}) <= ENTERED["run"]


@pytest.mark.long
def test_train_enters_few_files_before_the_decoder(tmp_path):
    train = (
        f"train --preset llama-2m --data regression:d=2,n=3,sigma=0 --steps 1 --batch 1 --device cpu --out {tmp_path}"
    )
    modules = entered(train, until="icl.models.decoder")
    assert not within(modules, "experiments.campaign", "experiments.experiment", "experiments.ledger")
    assert len(modules - {"torch"}) <= ENTERED["train"]
