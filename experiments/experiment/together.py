"""Several experiments at a time, each in a process of its own, under one progress bar."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from experiments.experiment.execution import Job, execute
from experiments.store.backends import Processes
from experiments.store.desk import Desk, OutOfTime
from experiments.store.folders import Json, RunFolder, Unfinished
from experiments.store.progress import progress, relayed
from experiments.verdicts.checks import Judgement, judgement

MOST_WORKERS = 4  # of each of several experiments, which share the cores and the memory
Result = Sequence[Judgement] | Unfinished


def executed(jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
    """Every job with its checks, or with what is left of it if time is up, as they end.

    Experiments on toys run side by side, the longest first, one a core: much of each is one thread's work.  Those of
    full size fill the machine with trainings of their own and run one after the other, as all do on a cluster.
    """
    toys = [job for job in jobs if job.experiment.kind == "theory"]
    cores = os.cpu_count() or 1
    if len(toys) < 2 or cores < 2 or any(job.run.slot.jobs or job.run.slot.on for job in toys):
        toys = []
    else:
        shared = min(MOST_WORKERS, -(-cores // len(toys)))
        some = [replace(job, run=RunFolder(job.run.path, replace(job.run.slot, jobs=shared))) for job in toys]
        yield from _side_by_side(sorted(some, key=lambda job: -job.profile.seconds), cores)
    for job in jobs:
        if job not in toys:
            try:
                yield job, execute(job)
            except Unfinished as stop:
                yield job, stop


def _side_by_side(jobs: Sequence[Job], cores: int) -> Iterator[tuple[Job, Result]]:
    by_name = {job.experiment.name: job for job in jobs}
    seconds = {name: job.profile.seconds for name, job in by_name.items()}
    elapsed = dict.fromkeys(by_name, 0.0)
    place = RunFolder(jobs[0].run.path.parent.parent, jobs[0].run.slot)
    with progress(f"{len(jobs)} experiments", sum(seconds.values())) as at:

        def tell(name: str, spent: float, note: str) -> None:
            elapsed[name] = max(elapsed[name], min(spent, 0.99 * seconds[name]))
            at(sum(elapsed.values()), f"{name}, {note}")

        at(0)
        for name, result in Processes(cores).run(_work, dict(by_name), place, tell):
            elapsed[name] = seconds[name]
            at(sum(elapsed.values()), f"{name} done")
            yield by_name.pop(name), _result(result)
    for job in by_name.values():
        yield job, Unfinished(f"{job.experiment.name} is not begun")


def _work(job: Job, desk: Desk) -> Json:
    """Carry a job through in a worker; how far it is, is told by the time that it took."""
    began = time.monotonic()

    def tell(note: str) -> None:
        with suppress(OutOfTime):  # the experiment sees to the deadline itself, and keeps what it has
            desk.report(time.monotonic() - began, note)

    with relayed(tell):
        try:
            return {"checks": [check.to_json() for check in execute(job)]}
        except Unfinished as stop:
            return {"unfinished": str(stop)}


def _result(reply: Json) -> Result:
    if "unfinished" in reply:
        return Unfinished(reply["unfinished"])
    return [judgement(content) for content in reply["checks"]]
