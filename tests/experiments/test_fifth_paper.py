"""A fifth paper is two folders, or one package of somebody else's, and no edit outside them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.fifth_paper import BESIDE, ROOM

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json, sys
from pathlib import Path
from experiments import catalogue
from experiments.cli import main

def check(*arguments):
    print("##", *arguments)
    status = main(list(arguments))
    assert status == 0, (arguments, status)

check("list")
check("variants", "--preset", "llama-2m")
check("describe", "llama-2m", "--variant", "doubled-values:weight=3+gqa")
check("verify", "doubled.weight")
check("claim", "doubled.weight")
check("run", "doubled", "--profile", "smoke", "--out", "runs")
few = {"doubled.weight": catalogue.claims()["doubled.weight"]}
catalogue.claims = lambda: few
check("report", "--out", "runs")
"""


def written(folder, package, files):
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("PACKAGE", package))


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder with the package, as pip would leave it, and what to put on the path."""
    folder = tmp_path_factory.mktemp("outside")
    written(folder / "doubled_paper", "doubled_paper", {**ROOM, **BESIDE})
    about = folder / "doubled_paper-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: doubled-paper\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[crosslayer.papers]\ndoubled = doubled_paper\n")
    return folder, [folder, ROOT]


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A copy of the project with two folders more."""
    folder = tmp_path_factory.mktemp("inside")
    for package in ("theory", "icl", "experiments", "tests"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    written(folder / "theory" / "doubled", "theory.doubled", ROOM)
    beside = {**BESIDE, "__init__": '"""Doubled values."""\n'}
    written(folder / "experiments" / "doubled", "theory.doubled", beside)
    return folder, [folder]


def run(folder, paths, *arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_a_paper_shows_up_in_every_command(where, request):
    folder, paths = request.getfixturevalue(where)
    done = run(folder, paths, "-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    shown = dict(part.split("\n", 1) for part in done.stdout.split("## ")[1:])
    by_command = {command.split()[0]: text for command, text in shown.items()}
    assert "doubled: Does doubling double?" in by_command["list"]
    assert "every value counts twice (Doubled Values, section 1)" in by_command["variants"]
    assert "1 of 1 verdicts hold" in by_command["verify"]
    assert "doubling.py:" in by_command["claim"]
    assert "doubled-values" in by_command["claim"]
    assert "pass" in by_command["run"]
    assert (folder / "runs" / "doubled").is_dir()
    page = (folder / "runs" / "report.html").read_text()
    assert "doubled.weight" in page
    assert page.count("data:image/png;base64,") == 1


def test_inside_the_contracts_hold_as_they_stand(inside):
    folder, paths = inside
    lint = run(folder, paths, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())")
    assert lint.returncode == 0, lint.stdout
    (folder / "theory" / "stray.py").write_text("")
    lint = run(folder, paths, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())")
    assert lint.returncode == 1
    assert "stray" in lint.stdout


def test_a_broken_package_is_one_line(outside):
    folder, _ = outside
    broken = folder / "broken"
    shutil.copytree(folder / "doubled_paper", broken / "doubled_paper")
    shutil.copytree(folder / "doubled_paper-1.0.dist-info", broken / "doubled_paper-1.0.dist-info")
    (broken / "doubled_paper" / "variants.py").write_text("import nothing_of_that_name\n")
    done = run(broken, [broken, ROOT], "-m", "experiments", "variants")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "doubled_paper" in done.stderr
    assert "nothing_of_that_name" in done.stderr
