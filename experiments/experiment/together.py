"""Several experiments at a time, each in a process of its own, under one progress bar."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
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
    """Yield every job with its checks, or with what is left of it if time is up, as they end.

    Experiments on toys run side by side, the longest first, one per core: much of each is one thread's work.  Those of
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
    shares = dict.fromkeys(by_name, 0.0)
    place = RunFolder(jobs[0].run.path.parent.parent, jobs[0].run.slot)
    with progress(f"{len(jobs)} experiments", sum(seconds.values())) as at:

        def tell(name: str, share: float, note: str) -> None:
            shares[name] = max(shares[name], share)
            at(done(), f"{name}, {note}")

        def done() -> float:
            return sum(share * seconds[name] for name, share in shares.items())

        at(0)
        for name, result in Processes(cores).run(_work, dict(by_name), place, tell):
            shares[name] = 1.0
            at(done(), f"{name} done")
            yield by_name.pop(name), _result(result)
    for job in by_name.values():
        yield job, Unfinished(f"{job.experiment.name} is not begun")


class Share:
    """The share of an experiment that is done, from its expected seconds and the parts that it goes through.

    Each part of its work has a progress bar, and how many there are is not known before.  So it takes as long as is
    expected, or until the part under way ends at the speed that this part has had, if that is later.
    """

    def __init__(self, expected: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.expected, self.clock = expected, clock
        self.began = clock()
        self.largest = 0.0
        self._part: tuple[float, float] = self.began, 0.0  # the part under way: when it began, and how far it was
        self._last = 0.0

    def at(self, part: float) -> float:
        """Return the share that is done, from 0 to below 1, where this much of the part under way is done."""
        now = self.clock()
        if part < self._last:  # another one
            self._part = now, part
        self._last = part
        since, first = self._part
        spent = now - self.began
        left = (now - since) / (part - first) * (1 - part) if part > first else 0.0
        if spent > 0:
            self.largest = max(self.largest, min(0.99, spent / max(self.expected, spent + left)))
        return self.largest


def _work(job: Job, desk: Desk) -> Json:
    """Execute a job in a worker."""
    share = Share(job.profile.seconds)

    def tell(note: str, part: float) -> None:
        with suppress(OutOfTime):  # the experiment sees to the deadline itself, and keeps what it has
            desk.report(share.at(part), note)

    with relayed(tell):
        try:
            return {"checks": [check.to_json() for check in execute(job)]}
        except Unfinished as stop:
            return {"unfinished": str(stop)}


def _result(reply: Json) -> Result:
    if "unfinished" in reply:
        return Unfinished(reply["unfinished"])
    return [judgement(content) for content in reply["checks"]]
