"""One smoke run of `skipv1-gap` for all tests that look at a finished run; figures that are drawn quickly."""

import fcntl
import shutil

import pytest

from experiments.cli import main


@pytest.fixture(scope="session")
def smoke(tmp_path_factory, worker_id):
    """(exit status, run folder) of `crosslayer run skipv1-gap --profile smoke`; the folder is this process's own."""
    own = tmp_path_factory.getbasetemp()
    shared = (own if worker_id == "master" else own.parent) / "smoke"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "status").exists():
            # In this process: a worker of the run's own would import torch and scipy again, longer than it trains.
            status = main(["run", "skipv1-gap", "--profile", "smoke", "--jobs", "1", "--out", str(shared / "runs")])
            (shared / "status").write_text(str(status))
    out = shutil.copytree(shared / "runs", tmp_path_factory.mktemp("runs") / "runs")
    (folder,) = (out / "skipv1-gap").iterdir()
    return int((shared / "status").read_text()), folder


@pytest.fixture
def rough_figures(monkeypatch):
    """Draw figures small and with overlapping labels: laying panels out takes most of the time that a figure takes."""
    from matplotlib.figure import Figure

    save = Figure.savefig

    def quickly(figure, file, *, bbox_inches=None, **options):  # noqa: ARG001
        figure.set_layout_engine("none")
        save(figure, file, **{**options, "dpi": 20})

    monkeypatch.setattr(Figure, "savefig", quickly)
