"""Campaigns and runs that are gone at every step of what they write end as if they had not been."""

import json

import pytest
from matplotlib.figure import Figure

from experiments.experiment.execution import execute, prepare
from experiments.store.backends import Serial
from experiments.store.folders import RunFolder, Slot
from experiments.store.work import results
from experiments.verdicts.checks import Check
from tests.crashes import crashes
from tests.experiments.store.fake import ONCE, STEPS, Fake, counted, items, taken


def opened(folder):
    """The trace of a fake experiment whose gate is open."""
    trace = folder / "trace"
    trace.mkdir(exist_ok=True)
    (trace / "gate").touch()
    return trace


def campaign(folder):
    run = RunFolder(folder / "run")
    return results("count", items(opened(folder)), counted, run, label="counting", backend=Serial())


@pytest.mark.long
def test_a_campaign(tmp_path):
    """What was counted is not counted again, but for the one step whose checkpoint was not yet there."""
    (tmp_path / "whole").mkdir()
    expected = campaign(tmp_path / "whole")
    lines = (tmp_path / "whole" / "run" / "metrics.jsonl").read_bytes()
    tried = 0
    for folder in crashes(campaign, tmp_path / "crashed"):
        tried += 1
        assert campaign(folder) == expected
        assert (folder / "run" / "metrics.jsonl").read_bytes() == lines
        assert sorted(path.name for path in (folder / "run").iterdir()) == [".lock", "metrics.jsonl"]
        done = taken(folder / "trace")
        assert {start: sorted(set(by)) for start, by in done.items()} == ONCE
        assert sum(map(len, done.values())) <= 2 * STEPS + 1
    assert tried > 2 * STEPS  # a checkpoint a step, and more


class Counting(Fake):
    claims = ("none",)

    def compare(self, prediction, measurement):
        found = measurement["a"]["value"]
        return [Check("a", "counts", "none", "it counts", found, found, 0.0, 0.0, (prediction["steps"],))]

    def draw(self, prediction, measurement):  # noqa: ARG002
        return Figure(figsize=(0.5, 0.5))


def carried_through(folder):
    job = prepare(Counting(opened(folder)), "smoke", None, folder / "out", Slot(jobs=1))
    execute(job)
    return job.run.path


def kept(run):
    """Every file, without what tells of the time; the folder of the trace differs."""
    found = {path.name: path.read_bytes() for path in run.iterdir() if path.name not in ("config.json", ".lock")}
    summary = json.loads(found.pop("summary.json"))
    return found, {name: x for name, x in summary.items() if name in ("checks", "experiment", "verdict", "title")}


@pytest.mark.long
def test_a_run(tmp_path):
    """Prediction, measurement, figure, summary: the same files, whichever write was the last."""
    (tmp_path / "whole").mkdir()
    expected = kept(carried_through(tmp_path / "whole"))
    for folder in crashes(carried_through, tmp_path / "crashed"):
        assert kept(carried_through(folder)) == expected
