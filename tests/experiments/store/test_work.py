"""Computations side by side: each once, in whatever order, and none left over when the parent is killed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.store.folders import RunFolder
from experiments.store.work import computed


def squared(x):
    return {"square": x * x, "process": os.getpid()}


def failing(x):
    if x == 2:
        raise ValueError("two")
    return {"square": x * x}


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path)


def test_results_come_by_key_and_from_other_processes(run, monkeypatch):
    monkeypatch.setattr("experiments.store.work.os.cpu_count", lambda: 2)
    found = computed("squares", {f"k{x}": x for x in range(5)}, squared, run)
    assert {key: value["square"] for key, value in found.items()} == {f"k{x}": x * x for x in range(5)}
    assert os.getpid() not in {value["process"] for value in found.values()}
    again = computed("squares", {f"k{x}": x for x in range(5)}, squared, run)
    assert again == found  # the processes too: nothing was computed again


def test_what_was_there_before_a_failure_is_kept(run, monkeypatch):
    monkeypatch.setattr("experiments.store.work.os.cpu_count", lambda: 1)
    with pytest.raises(ValueError, match="two"):
        computed("squares", {f"k{x}": x for x in range(4)}, failing, run)
    assert [line["key"] for line in run.metrics()] == ["k0", "k1"]


def test_environment_is_left_as_it_was(run, monkeypatch):
    monkeypatch.setattr("experiments.store.work.os.cpu_count", lambda: 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    computed("squares", {"a": 1, "b": 2}, squared, run)
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


SCRIPT = """
import os, sys, time
from pathlib import Path
from experiments.runs import RunFolder
from experiments import side_by_side
def work(x):
    Path(sys.argv[1], f"pid{x}").write_text(str(os.getpid()))
    time.sleep(120)
    return {}
if __name__ == "__main__":
    side_by_side.os.cpu_count = lambda: 2
    side_by_side.computed("sleep", {"a": 1, "b": 2}, work, RunFolder(Path(sys.argv[1])))
"""


def test_workers_leave_when_the_parent_is_killed(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, tmp_path / "script.py", tmp_path], env=environment)
    files = [tmp_path / f"pid{x}" for x in (1, 2)]
    try:
        wait_for(lambda: all(f.exists() and f.read_text() for f in files))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_for(lambda: not any(alive(int(f.read_text())) for f in files))


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("a minute has passed")


def alive(pid):
    """Whether the process runs; one that has ended and not been waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
