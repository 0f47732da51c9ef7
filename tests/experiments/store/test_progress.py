"""Progress as a user sees it: on terminals of any width, and in a log file."""

import errno
import io
import re
import sys

import pytest

from experiments.store import progress as module
from experiments.store.progress import progress, relayed

LABEL = "llama-130m skipv1+attnres-block:blocks=4"
NOTE = "skipv1+attnres-block: loss 3.142, 12,345 tokens/s, 41% MFU"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(columns, monkeypatch):
    """The last line of the bar, half-way."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with progress(LABEL, 10) as at:
        at(0)
        at(5, NOTE)
    return [line for line in re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", terminal.getvalue()).split("\n") if line.strip()][-1]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_a_bar_is_there_at_any_width(columns, monkeypatch):
    line = shown(columns, monkeypatch).split("\r")[-1]
    assert len(line) <= columns
    assert line.count("━") + line.count("╸") + line.count("╺") >= columns // 5
    assert "50%" in line
    assert line.startswith("llama-1")
    assert re.search("%.*skip", line)
    assert ("…" in line) == (columns < 200)


def test_a_note_stays_until_there_is_another_one(monkeypatch, capsys):
    told = []
    with relayed(lambda text, _: told.append(text)), progress("training", 10) as at:
        at(1, "loss 3")
        at(2)
        at(3, "loss 2")
        at(4)
    assert told == ["training: 10% loss 3", "training: 20% loss 3", "training: 30% loss 2", "training: 40% loss 2"]
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    with progress("training", 10) as at:
        at(0)
        at(1, "loss 3")
        at(2)
    assert [line.rpartition("left  ")[2] for line in capsys.readouterr().err.splitlines()] == ["loss 3", "loss 3"]


def test_preparing_does_not_count_for_the_time_left(monkeypatch, capsys):
    """A minute passes before anything is done; the estimate comes with the first fiftieth."""
    now = iter([0, 0, 20, 60, 75, 76, 100])
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(now)))
    with progress("training", 100) as at:
        at(0)
        at(0, "preparing")
        at(0, "step 0")
        at(1, "step 1")
        at(2)
        at(40, "step 40")
    assert capsys.readouterr().err.splitlines() == [
        "training: 0%  preparing",
        "training: 0%  step 0",
        "training: 1%  step 1",
        "training: 40%, 60 s left  step 40",
    ]


@pytest.mark.long
def test_a_training_moves_with_every_step(monkeypatch, tmp_path):
    """From where it starts, long before its first log."""
    from contextlib import contextmanager

    from experiments.commands import single

    seen = []

    @contextmanager
    def bar(label, total):  # noqa: ARG001 - as `progress` has it
        yield lambda done, note=None: seen.append((done, note is not None))

    monkeypatch.setattr(single, "progress", bar)
    task = {"data": "regression:d=2,n=3,sigma=0.1", "batch": 2, "device": "cpu", "out": tmp_path}
    single.train("llama-2m", steps=4, log_every=3, **task)
    assert seen == [(0, False), (1, False), (2, False), (3, False), (3, True), (4, False), (4, True)]


class Full(io.StringIO):
    def write(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_line_that_cannot_be_written_does_not_stop_the_work(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(sys, "stderr", Full())
    module.warn("something")
    with progress("training", 10) as at:
        at(0)
        at(1)
