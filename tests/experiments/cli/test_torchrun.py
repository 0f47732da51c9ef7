"""`crosslayer train` in processes that torchrun has started: killed, resumed, read by every other command."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.cli import main

ROOT = Path(__file__).parents[3]
STEPS = 60
SIZES = ("--width", "16", "--layers", "2", "--heads", "2", "--batch", "4", "--steps", f"{STEPS}", "--log-every", "2")
DATA = ("--data", "regression:d=2,n=3,sigma=0.1", "--device", "cpu")
TRAIN = ["train", "--preset", "llama-2m", "--variant", "attnres-block", *SIZES, *DATA]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ALONE = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}


def torchrun(*arguments):
    command = [*TORCHRUN, "-m", "experiments", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=ALONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def pair(*arguments):
    """Two processes as torchrun starts them, without its agent; what each says on standard output and error."""
    env = {**ALONE, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    command = [sys.executable, "-m", "experiments", *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, cwd=ROOT, env={**env, "RANK": f"{rank}"}, **streams) for rank in range(2)]
    said = [process.communicate(timeout=120) for process in both]
    return [process.returncode for process in both], said


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def summary(out):
    (path,) = out.glob("train/*/summary.json")
    return json.loads(path.read_text()), path.parent


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


@pytest.mark.long
def test_one_of_them_is_killed_and_the_same_command_resumes(tmp_path, capsys):
    """The numbers are those of one process; that one and every other command read what is left."""
    both = tmp_path / "both"
    killed = torchrun(*TRAIN, "--save-every", "0", "--out", str(both))
    try:
        wait_for(lambda: any(both.glob("train/*/checkpoint-*[0-9]")))
        os.kill(children(killed.pid)[-1], signal.SIGKILL)
        said = killed.communicate(timeout=120)[1]
    finally:
        killed.kill()
    assert killed.returncode == 1, said
    (folder,) = both.glob("train/*")
    assert not (folder / "summary.json").exists()
    before = len((folder / "metrics.jsonl").read_text().splitlines())
    status, said = pair(*TRAIN, "--save-every", "0", "--out", str(both))
    assert status == [0, 0], said
    assert ["held-out loss" in out for out, _ in said] == ["parameters" in error for _, error in said] == [True, False]
    assert said[1] == ("", "")
    assert 0 < before < STEPS // 2
    assert main([*TRAIN, "--out", str(tmp_path / "one")]) == 0
    (ours, folder), (theirs, alone) = summary(both), summary(tmp_path / "one")
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
    assert [x for _, x in ours["curve"]] == pytest.approx([x for _, x in theirs["curve"]], rel=1e-4)
    assert (ours["processes"], ours["key"], ours["tokens"]) == (2, theirs["key"], theirs["tokens"])
    assert "processes" not in theirs
    assert {path.name for path in folder.iterdir()} == {path.name for path in alone.iterdir()}
    assert main(["compare", str(alone), str(folder)]) == 0
    assert main(["describe", str(folder)]) == 0
    longer = [*TRAIN, "--steps", "64", "--resume-from", str(folder), "--out", str(tmp_path / "longer")]
    assert main(longer) == 0  # by one process, from the last checkpoint of two
    assert [line[0] for line in summary(tmp_path / "longer")[0]["curve"]][-2:] == [62, 64]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--batch", "5"], "2 processes cannot share a batch of 5 sequences equally"),
        (["--steps", "0"], "--steps must be at least 1, got 0"),
    ],
)
@pytest.mark.long
def test_bad_input_is_one_line_of_the_first_process_and_status_2(options, says, tmp_path):
    status, ((out, error), (_, other)) = pair(*TRAIN, *options, "--out", str(tmp_path))
    assert status == [2, 2]
    assert (out, error.count("\n"), other) == ("", 1, "")
    assert says in error
    assert not any(tmp_path.iterdir())


def test_processes_that_nobody_counted_are_refused(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    assert main(TRAIN) == 2
    assert capsys.readouterr().err == (
        "crosslayer: WORLD_SIZE=2 asks for several processes, and RANK, MASTER_ADDR and MASTER_PORT are not set; "
        "start them with torchrun\n"
    )
