"""A fake experiment of two points, which needs nothing but the standard library; `python -m` it to kill it.

A point counts to STEPS, a checkpoint a step, and writes down every step that it really takes.  Until `gate` is there,
point "b" waits after its step HELD, so that what is killed is always killed there.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from experiments.experiment.protocol import Profile
from experiments.store.folders import RunFolder, Slot
from experiments.store.processes import THREADS
from experiments.store.work import results
from icl.files import write_atomically

STEPS, HELD = 6, 3
EVERY = list(range(1, STEPS + 1))
ONCE = {1: EVERY, 2: EVERY}  # what is taken where nothing is done twice


@dataclass(frozen=True)
class Count:
    """trace: a folder for `gate` and for a file of every step that is taken."""

    start: int
    trace: str


@dataclass(frozen=True)
class UntilLate(Slot):
    """Time is up once the folder `trace` has a file `late`."""

    trace: str = ""

    @property
    def seconds_left(self):
        return -1.0 if Path(self.trace, "late").exists() else 60.0


def counted(item, desk, at_held=None):
    trace, checkpoint = Path(item.trace), desk.folder / "checkpoint"
    done, value = map(int, checkpoint.read_text().split()) if checkpoint.exists() else (0, item.start)
    for step in range(done + 1, STEPS + 1):
        if item.start == 2 and step > HELD:
            if at_held:
                at_held()
            wait_for(lambda: (trace / "gate").exists())
        with (trace / f"{item.start}").open("a") as file:
            file.write(f"{step} {os.getpid()}\n")
        value = 3 * value + step
        write_atomically(checkpoint, f"{step} {value}")
        desk.report(step, f"at {step}")
    return {"value": value, "half": value / 2, "pair": (1, 2), "threads": [os.environ.get(name) for name in THREADS]}


def met(item, desk):
    """Waits for the other point: so the two are computed at a time, or never."""
    trace = Path(item.trace)
    (trace / f"met{item.start}").touch()
    wait_for(lambda: len(list(trace.glob("met*"))) == 2)
    return {"process": os.getpid(), "device": desk.slot.device}


def struck(item, desk):
    """As `counted`, with both points at a time; the second one's worker is killed at HELD, once."""
    met(item, desk)

    def kill_once():
        killed = Path(item.trace) / "killed"
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return counted(item, desk, at_held=kill_once)


def items(trace):
    return {"a": Count(1, str(trace)), "b": Count(2, str(trace))}


@dataclass(frozen=True)
class Config:
    trace: str


class Fake:
    name = "fake"
    title = "Two points that count"
    caption = "Nothing."
    kind = "theory"
    claims = ()

    def __init__(self, trace):
        self.profiles = {"smoke": Profile(config=Config(str(trace)), seeds=0, seconds=1, detects=None)}

    def predict(self, config):  # noqa: ARG002
        return {"steps": STEPS}

    def measure(self, config, seeds, run):  # noqa: ARG002
        return results("count", items(config.trace), counted, run, label="counting", size=lambda _: STEPS)

    def compare(self, prediction, measurement):  # noqa: ARG002
        return []

    def draw(self, prediction, measurement):
        raise NotImplementedError


def steps(trace):
    """Of every point, the steps that were taken and by which processes."""
    files = {start: trace / f"{start}" for start in (1, 2) if (trace / f"{start}").exists()}
    lines = {start: path.read_text().split("\n")[:-1] for start, path in files.items()}
    return {start: [tuple(map(int, line.split())) for line in found] for start, found in lines.items()}


def taken(trace):
    """Of every point, the steps that were taken."""
    return {start: [step for step, _ in by] for start, by in steps(trace).items()}


def wait_for(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("a minute has passed")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have switched off for a background job
    out, trace, jobs, *on = sys.argv[1:]
    run = RunFolder(Path(out), Slot(jobs=int(jobs), on="".join(on)))
    Fake(trace).measure(Config(trace), 0, run)
