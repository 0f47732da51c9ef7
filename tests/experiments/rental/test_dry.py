"""A whole rental on a CPU with tiny models, and a machine on which much is not installed."""

import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from experiments.cli import main
from experiments.rental.dry import commands
from experiments.rental.sitting import ROOT, STANDING, WORK
from experiments.store.folders import RunFolder
from tests.experiments.rental.test_sitting import PROGRAM, counts, ends, part

PARTS = ["decode", "text", "bridge", "step"]


@pytest.mark.long
def test_make_gpu_dry(tmp_path):
    """Every part is killed once, goes on and is done; what comes home is what was there."""
    results, pieces = tmp_path / "my results", tmp_path / "my pieces"
    command = [shutil.which("make"), "gpu", "DRY=1", f"PYTHON={sys.executable}", f"RESULTS={results}"]
    done = subprocess.run(
        [*command, f"ARCHIVE={pieces}"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=2400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    standing = RunFolder(results / WORK).read(STANDING)["parts"]
    assert list(standing) == PARTS
    for name, outcome in standing.items():
        assert outcome["done"], name
        first, *others, last = (one["ended"] for one in outcome["tries"])
        assert (first, last) == ("killed", "done"), name
        assert set(others) <= {"time was up"}, name  # of a slow machine
    assert "0 of the rental's" in done.stderr
    assert "a file that was changed at home is refused" in done.stderr
    for folder in pieces.iterdir():
        files = list(folder.iterdir())
        assert len(files) <= 8
        assert all(file.is_file() and file.stat().st_size <= 16 * 2**20 for file in files)


@pytest.mark.long
def test_a_slow_machine_gets_more_commands(tmp_path):
    """The second part writes for five seconds, and a command has four."""
    out, said = tmp_path / "results", []
    both = [part(out, "a", count=3), part(out, "b", count=100)]
    assert commands(both, out, tmp_path / "pieces", said.append, start=2.0, program=PROGRAM)
    assert counts(out, ["a", "b"]) == [3, 100]
    assert ends(out)["a"] == ["killed", "done"]
    first, *others, last = ends(out)["b"]
    assert (first, last) == ("killed", "done")
    assert set(others) == {"time was up"}
    assert len(list((tmp_path / "pieces").iterdir())) > 2


def test_commands_that_leave_nothing_end_the_rental(tmp_path):
    out, said = tmp_path / "results", []
    parts = [part(out, "a", count=2), part(out, "idle", count=0)]
    parts[1] = replace(parts[1], done=lambda: False)
    assert not commands(parts, out, tmp_path / "pieces", said.append, program=PROGRAM)
    assert said[-1] == "not done after 3 commands: idle"


@pytest.mark.long
def test_a_part_that_fails_is_a_rental_that_fails(tmp_path):
    out = tmp_path / "results"
    parts = [part(out, "bad", how="fail"), part(out, "good")]
    assert not commands(parts, out, tmp_path / "pieces", [].append, program=PROGRAM)
    assert ends(out)["good"][-1] == "done"


@pytest.mark.long
def test_a_run_needs_no_rich_threadpoolctl_or_matplotlib(tmp_path, monkeypatch, capsys):
    """Tables are plain, BLAS keeps its threads, and figures wait for a machine that can draw them."""
    for name in [*sys.modules, "rich", "threadpoolctl", "matplotlib"]:
        if name.partition(".")[0] in ("rich", "threadpoolctl", "matplotlib"):
            monkeypatch.setitem(sys.modules, name, None)
    run = ["run", "scale-decode", "--profile", "gpu-tiny", "--device", "cpu", "--out", str(tmp_path)]
    assert main(run) == 0
    said = capsys.readouterr()
    assert "no figure, as matplotlib is not there" in said.err
    assert "figure and numbers" in said.out
    (folder,) = (tmp_path / "scale-decode").iterdir()
    assert {"measurement.json", "summary.json"} <= {x.name for x in folder.iterdir()}
    assert not list(folder.glob("*.png"))
    monkeypatch.undo()
    assert main(run) == 0
    assert list(folder.glob("*.png"))
