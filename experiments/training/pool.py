"""Many trainings, some at a time, each finished one a line of the run's metrics.jsonl: what is there is not redone."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any

from experiments.store.folders import Json, RunFolder
from experiments.store.progress import progress
from experiments.store.work import one_thread
from experiments.training.arms import Arm, OutOfTime, train_arm

if TYPE_CHECKING:
    from icl.training.loop import Logged

POLL = 0.5  # seconds
MARGIN = 1.1  # a training is begun if this many times the longest one so far still fits


def train_all(arms: Sequence[Arm], run: RunFolder, label: str) -> dict[Arm, Json]:
    """The records of all arms that are finished, or get finished before the slot's deadline, in the order given."""
    device = run.slot.device
    lines = run.metrics()
    run.keep_metrics(lines)
    finished = {line["key"]: line for line in lines if line["kind"] == "run"}
    keys = {arm: arm.key(device) for arm in arms}
    different = {keys[arm]: arm for arm in arms}
    todo = [arm for key, arm in different.items() if key not in finished]
    if todo:
        total = sum(arm.recipe.steps for arm in different.values())
        before = total - sum(arm.recipe.steps for arm in todo)
        with progress(f"{label}, {len(todo)} of {len(arms)} trainings to do", total) as at:
            at(before)
            for key, record in _trained(todo, keys, run, lambda done, said: at(before + done, said)):
                finished[key] = record
                run.log(record)
                shutil.rmtree(_scratch(run, key), ignore_errors=True)
    return {arm: finished[keys[arm]] for arm in arms if keys[arm] in finished}


def _scratch(run: RunFolder, key: str) -> Path:
    return run / f"unfinished-{key}"


def _trained(
    todo: Sequence[Arm], keys: dict[Arm, str], run: RunFolder, at: Callable[[float, str], None]
) -> Iterator[tuple[str, Json]]:
    slot = run.slot
    jobs = slot.jobs or (1 if slot.device.startswith("cuda") else os.cpu_count() or 1)
    jobs = min(jobs, len(todo))
    if jobs == 1:
        yield from _one_by_one(todo, keys, run, at)
    else:
        yield from _side_by_side(todo, keys, run, at, jobs)


def _one_by_one(
    todo: Sequence[Arm], keys: dict[Arm, str], run: RunFolder, at: Callable[[float, str], None]
) -> Iterator[tuple[str, Json]]:
    done, longest = 0, 0.0
    for arm in todo:
        if longest * MARGIN > run.slot.seconds_left:
            return
        began = time.monotonic()

        def log(logged: Logged, arm: Arm = arm, done: int = done) -> None:
            at(done + logged.step, note(arm, logged))
            if run.slot.seconds_left < 0:
                raise OutOfTime

        try:
            with one_thread():
                record = train_arm(arm, _scratch(run, keys[arm]), run.slot.device, log, _warn)
        except OutOfTime:
            return
        yield keys[arm], record
        longest = max(longest, time.monotonic() - began)
        done += arm.recipe.steps


def _side_by_side(
    todo: Sequence[Arm], keys: dict[Arm, str], run: RunFolder, at: Callable[[float, str], None], jobs: int
) -> Iterator[tuple[str, Json]]:
    """In processes with one thread each.  They end by themselves if this one is gone."""
    context = get_context("spawn")
    news = context.Queue()
    steps = dict.fromkeys(keys.values(), 0)
    began: dict[Future[Json | None], tuple[Arm, float]] = {}
    longest, waiting = 0.0, list(todo)
    with ProcessPoolExecutor(jobs, context, _begin, (news, os.getpid())) as pool:
        try:
            while waiting or began:
                while waiting and len(began) < jobs and longest * MARGIN <= run.slot.seconds_left:
                    arm = waiting.pop(0)
                    job = pool.submit(_work, arm, keys[arm], _scratch(run, keys[arm]), run.slot)
                    began[job] = arm, time.monotonic()
                if not began:
                    return
                for job in wait(began, POLL, FIRST_COMPLETED).done:
                    arm, start = began.pop(job)
                    if (record := job.result()) is not None:
                        yield keys[arm], record
                        longest = max(longest, time.monotonic() - start)
                for key, step, said in _read(news):
                    steps[key] = step
                    at(sum(steps.values()), said)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _read(news: Any) -> Iterator[Any]:
    while True:
        try:
            yield news.get_nowait()
        except Empty:
            return


_NEWS: Any = None
_PARENT = 0


def _begin(news: Any, parent: int) -> None:
    """What every worker does first."""
    global _NEWS, _PARENT
    _NEWS, _PARENT = news, parent
    news.cancel_join_thread()  # a worker need not wait for a parent that no longer reads
    import torch

    torch.set_num_threads(1)


def _work(arm: Arm, key: str, folder: Path, slot: Any) -> Json | None:
    def log(logged: Logged) -> None:
        if os.getppid() != _PARENT or slot.seconds_left < 0:
            raise OutOfTime
        _NEWS.put((key, logged.step, note(arm, logged)))

    try:
        return train_arm(arm, folder, slot.device, log, _warn)
    except OutOfTime:
        return None


def note(arm: Arm, logged: Logged) -> str:
    """What a progress bar says beside the time left."""
    share = f", {logged.mfu:.0%} MFU" if logged.mfu is not None else ""
    return f"{arm.name}: loss {logged.loss:.3f}, {logged.tokens_per_second:,.0f} tokens/s{share}"


def _warn(text: str) -> None:
    print(f"crosslayer: {text}", file=sys.stderr)
