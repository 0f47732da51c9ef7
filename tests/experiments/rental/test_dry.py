"""A whole rental on a CPU with tiny models, and a machine on which much is not installed."""

import shutil
import subprocess
import sys

import pytest

from experiments.cli import main
from experiments.rental.sitting import ROOT, STANDING, WORK
from experiments.store.folders import RunFolder

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
    for name, part in standing.items():
        assert part["done"], name
        assert [one["ended"] for one in part["tries"]] == ["killed", "done"], name
    assert "0 of the rental's" in done.stderr
    assert "a file that was changed at home is refused" in done.stderr
    for folder in pieces.iterdir():
        files = list(folder.iterdir())
        assert len(files) <= 8
        assert all(file.is_file() and file.stat().st_size <= 16 * 2**20 for file in files)


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
