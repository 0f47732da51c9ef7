"""Several experiments at a time: each one's checks, whoever computed them, and a word on what time did not allow."""

import os
import re
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.experiment import together
from experiments.experiment.execution import execute, prepare, summary
from experiments.experiment.protocol import Profile
from experiments.experiment.together import executed
from experiments.store import progress as module
from experiments.store.folders import Slot, Unfinished, UserError
from experiments.store.progress import progress
from experiments.verdicts.checks import Check


@dataclass(frozen=True)
class Config:
    number: int = 3


class Sums:
    """What n + n is, and where it was found out."""

    title = "Sums"
    caption = "An empty square."
    claims = ("none",)
    profiles = {"smoke": Profile(config=Config(), seeds=0, seconds=1, detects="one")}  # noqa: RUF012

    def __init__(self, name, kind="theory"):
        self.name, self.kind = name, kind

    def predict(self, config):
        if self.name == "broken":
            raise UserError("it is broken")
        return {"sum": 2 * config.number}

    def measure(self, config, seeds, run):  # noqa: ARG002
        with progress(self.name, 1) as at:
            at(1, "added")
        if self.name == "late":
            raise Unfinished("late: 1 of 2 are finished")
        return {"sum": config.number + config.number, "process": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"]}

    def compare(self, prediction, measurement):
        return [Check("sum", "sums", "none", "it is", prediction["sum"], measurement["sum"], 0.0, 0.0, (7,))]

    def draw(self, prediction, measurement):  # noqa: ARG002
        from matplotlib.figure import Figure

        return Figure(figsize=(1, 1))


def jobs(out, *names, slot=None, kind="theory"):
    return [prepare(Sums(name, kind), "smoke", None, out, slot or Slot()) for name in names]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(together.os, "cpu_count", lambda: 2)


@pytest.mark.long
def test_side_by_side_they_leave_what_one_by_one_they_leave(tmp_path, capfd):
    done = {job.experiment.name: result for job, result in executed(jobs(tmp_path / "some", "a", "b", "late"))}
    one = {job.experiment.name: result for job, result in executed(jobs(tmp_path / "one", "a", slot=Slot(jobs=1)))}
    assert [check.verdict for check in done["a"]] == ["pass"]
    assert done["a"] == done["b"] == one["a"]
    assert str(done["late"]) == "late: 1 of 2 are finished"
    measured = [job.run.read("measurement.json") for job in jobs(tmp_path / "some", "a", "b")]
    assert os.getpid() not in {m["process"] for m in measured}
    assert {m["threads"] for m in measured} == {"1"}
    here = jobs(tmp_path / "one", "a")[0].run.read("measurement.json")
    assert (here["process"], here["threads"]) == (os.getpid(), "1")
    assert "added" not in capfd.readouterr().out


def test_full_size_ones_run_after_each_other_here(tmp_path):
    done = list(executed(jobs(tmp_path, "a", "b", kind="scale")))
    assert {job.run.read("measurement.json")["process"] for job, _ in done} == {os.getpid()}


def test_what_time_does_not_allow_is_said(tmp_path):
    slot = Slot(deadline=time.time() - 1)
    results = {job.experiment.name: result for job, result in executed(jobs(tmp_path, "a", "b", slot=slot))}
    assert {name: str(result) for name, result in results.items()} == {"a": "a is not begun", "b": "b is not begun"}


def test_a_broken_one_is_the_user_s_error(tmp_path):
    with pytest.raises(UserError, match="it is broken"):
        list(executed(jobs(tmp_path, "a", "broken")))


def by_a_clock(expected, *parts):
    """The shares that are told: parts are seconds and what they do of the part under way, from 0 on."""
    now = 0.0
    share, told = together.Share(expected, clock=lambda: now), []
    for seconds, steps in parts:
        for step in range(steps + 1):
            now += seconds / steps if step else 0
            told.append(share.at(step / steps))
    return told


@pytest.mark.parametrize("expected", [1, 10, 100])
def test_the_share_advances_with_inner_items_however_long_they_take(expected):
    """An hour's work may be expected to take a tenth of that, or ten times as long."""
    told = by_a_clock(expected, (2, 4), (8, 8))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(min(0.99, 10 / max(expected, 10)))
    assert all(later > earlier for earlier, later in pairwise(told[6:]) if later < 0.98)
    assert told[6:] == sorted(set(told[6:])) or expected == 1


def test_an_overrun_goes_on_at_the_speed_of_its_part():
    """Twice as long as expected, all of it one part."""
    assert by_a_clock(100, (200, 10)) == pytest.approx([0, *(i / 10 for i in range(1, 10)), 0.99])


def test_time_left_is_weighed_by_expected_seconds(monkeypatch):
    """Three experiments, each of which takes twice as long as it should: percent rises and seconds fall."""
    clock, lines = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 10.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(module, "_say", lines.append)

    class Queue:
        def __init__(self, _):
            pass

        def run(self, _work, jobs, _place, tell):
            for name, job in jobs.items():
                share = together.Share(job.profile.seconds, clock=lambda: clock.now)
                for step in range(21):
                    clock.now += 2 * job.profile.seconds / 20 if step else 0
                    tell(name, share.at(step / 20), f"{step} of 20")
                yield name, {"unfinished": name}

    monkeypatch.setattr(together, "Processes", Queue)
    some = [
        SimpleNamespace(
            experiment=SimpleNamespace(name=name),
            profile=SimpleNamespace(seconds=seconds),
            run=SimpleNamespace(path=Path("a/b/c"), slot=Slot()),
        )
        for name, seconds in (("long", 300), ("middle", 100), ("short", 50))
    ]
    assert [job.experiment.name for job, _ in together._side_by_side(some, 1)] == ["long", "middle", "short"]
    shown = [re.match(r"3 experiments: (\d+)%, (\d+) s left", line).groups() for line in lines]
    percent, left = ([int(x) for x in column] for column in zip(*shown, strict=True))
    assert percent == sorted(percent)
    assert left == sorted(left, reverse=True)
    assert len(set(percent)) > 25
    assert left[0] == pytest.approx(900 - 30, abs=30)


def test_a_summary_says_when_the_prediction_was_stored(tmp_path):
    """Not when it was read: a killed run has it from before."""
    (job,) = jobs(tmp_path, "sums")
    job.run.path.mkdir(parents=True)
    job.run.write("config.json", job.config)
    job.run.write("prediction.json", {"sum": 6})
    os.utime(job.run / "prediction.json", (0, 0))
    execute(job)
    assert summary(job.run)["predicted"] == "1970-01-01 00:00 UTC"


@pytest.mark.parametrize(("stored", "since"), [({"sum": 6}, True), ({"sum": 7}, False)])
def test_where_trainings_grow_a_prediction_that_is_the_same_keeps_its_time(tmp_path, stored, since):
    (job,) = jobs(tmp_path, "sums")
    job = replace(job, profile=replace(job.profile, grows=True))
    job.run.path.mkdir(parents=True)
    job.run.write("prediction.json", stored)
    os.utime(job.run / "prediction.json", (0, 0))
    execute(job)
    assert (summary(job.run)["predicted"] == "1970-01-01 00:00 UTC") == since
    assert job.run.read("prediction.json") == {"sum": 6}
