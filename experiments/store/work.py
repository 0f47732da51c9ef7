"""Many independent, pure computations in processes side by side; what is finished is logged and never done twice."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from experiments.store.folders import Json, RunFolder
from experiments.store.progress import progress

Item = TypeVar("Item")

# Numerical libraries would start a thread a core in every process; their products here are too small to gain from it.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def computed(kind: str, todo: Mapping[str, Item], work: Callable[[Item], Json], run: RunFolder) -> Json:
    """`work` of every item, by key; `work` is a module's function, and its result plain JSON.

    Each result becomes a line {"kind", "key", ...} of the run's metrics.jsonl as soon as it is there.
    """
    lines = run.metrics()
    run.keep_metrics(lines)
    found = {line["key"]: line for line in lines if line["kind"] == kind}
    missing = {key: item for key, item in todo.items() if key not in found}
    with progress(kind, len(todo)) as at:
        at(len(todo) - len(missing))
        for done, (key, result) in enumerate(_results(missing, work), len(todo) - len(missing) + 1):
            found[key] = {"kind": kind, "key": key, **result}
            run.log(found[key])
            at(done, key)
    return {key: {k: v for k, v in found[key].items() if k not in ("kind", "key")} for key in todo}


def _results(todo: Mapping[str, Item], work: Callable[[Item], Json]) -> Iterator[tuple[str, Json]]:
    processes = min(os.cpu_count() or 1, len(todo))
    if processes <= 1:
        yield from ((key, work(item)) for key, item in todo.items())
        return
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), _leave_with, (os.getpid(),)) as pool:
            keys = {pool.submit(work, item): key for key, item in todo.items()}
            try:
                for job in as_completed(keys):
                    yield keys[job], job.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _leave_with(parent: int) -> None:
    """A worker ends when the process that asked for it is gone, however that ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: tiny products gain little from more, lose much on a busy machine, and bits stay the same
    whatever the number of cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
