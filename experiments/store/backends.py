"""Places where computations run: here, or in processes that end with this one; also `experiments.store.cluster`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import Empty
from typing import Any, Protocol, TypeVar

from experiments.store.desk import Desk, LocalDesk, OutOfTime, Pace, Tell
from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.processes import (
    ADVICE,
    THREADS,
    UNGUARDED,
    environment,
    leave_if_starting,
    one_thread,
    unreadable_script,
)

Item = TypeVar("Item")
Work = Callable[[Item, Desk], Json]  # a module's function, with a result of plain JSON
Results = Generator[tuple[str, Json]]  # by key, as they come

POLL = 0.5  # seconds
# Else a process that is spawned looks in the working folder first, where a random.py of a user's hides the library's.
SAFE = {"PYTHONSAFEPATH": "1"}
WORKER = {**dict.fromkeys(THREADS, "1"), **SAFE}
# What workers leave behind that have to leave at once is cleaned up, and no word is needed on it.
QUIET = {"PYTHONWARNINGS": "ignore::UserWarning:multiprocessing.resource_tracker", **SAFE}


class Backend(Protocol):
    def run(self, work: Work[Item], items: Mapping[str, Item], run: RunFolder, tell: Tell) -> Results:
        """Do `work` on the items, each with one thread; desks' reports are passed on to `tell`.

        No item is begun that does not fit into the run's slot (`Pace`), and one that ends with OutOfTime has no result.
        Once the generator is closed, or has raised what a computation raised, none of them runs on.
        """


@dataclass(frozen=True)
class Serial:
    """One after the other, in this process."""

    def run(self, work: Work[Item], items: Mapping[str, Item], run: RunFolder, tell: Tell) -> Results:
        pace = Pace(run.slot)
        for key, item in items.items():
            if not pace.fits():
                return
            began = time.monotonic()
            try:
                with one_thread():
                    result = work(item, LocalDesk(key, run, tell))
            except OutOfTime:
                return
            pace.took(time.monotonic() - began)
            yield key, result


@dataclass(frozen=True)
class Processes:
    """So many at a time, each in a process of this machine.

    They leave at once when this process lets go of them or is gone, killed in whatever way: so nobody still writes to a
    folder from which a run is resumed.  Raises UserError if one of them dies.
    """

    count: int

    def run(self, work: Work[Item], items: Mapping[str, Item], run: RunFolder, tell: Tell) -> Results:
        leave_if_starting()
        if message := unreadable_script():
            raise UserError(message)
        context, workers = get_context("spawn"), set[BaseProcess]()
        with environment(QUIET):  # of the process that cleans up
            news, (line, held) = context.Queue(), context.Pipe(duplex=False)
        count = min(self.count, len(items))
        waiting, pace = list(items), Pace(run.slot)
        began: dict[Future[Json | None], tuple[str, float]] = {}
        start = _start, (news, line, os.getpid())
        with held, line, environment(WORKER), ProcessPoolExecutor(count, context, *start) as pool:
            try:
                while waiting or began:
                    while waiting and len(began) < count and pace.fits():
                        key = waiting.pop(0)
                        with _interrupts_kept_from_children():
                            began[pool.submit(_result, work, items[key], key, run)] = key, time.monotonic()
                            workers |= {*active_children()}
                    if not began:
                        return
                    for job in wait(began, POLL, FIRST_COMPLETED).done:
                        key, since = began.pop(job)
                        if (result := job.result()) is not None:
                            pace.took(time.monotonic() - since)
                            yield key, result
                    for report in _read(news):
                        tell(*report)
            except BaseException as error:
                held.close()  # at which the workers leave
                pool.shutdown(cancel_futures=True)
                if isinstance(error, BrokenProcessPool):
                    if any(worker.exitcode == UNGUARDED for worker in workers):
                        raise UserError(ADVICE) from None
                    raise UserError(f"a process that worked in {run.path} died, perhaps for want of memory") from None
                raise


@contextmanager
def _interrupts_kept_from_children() -> Iterator[None]:
    """Keep interrupts from workers: a terminal interrupts all processes at once; the parent hears of it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _read(news: Any) -> Iterator[tuple[str, float, str]]:
    while True:
        try:
            yield news.get_nowait()
        except Empty:
            return


_NEWS: Any = None


def _start(news: Any, line: Connection, parent: int) -> None:
    """Prepare a worker.  `line` has an end when the parent lets go of it or is gone."""
    global _NEWS
    _NEWS = news
    news.cancel_join_thread()  # a worker need not wait for a parent that no longer reads

    def leave() -> None:
        while not line.poll(POLL) and os.getppid() == parent:  # a fork of the parent would hold the line too
            pass
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _result(work: Work[Item], item: Item, key: str, run: RunFolder) -> Json | None:
    """Return the result of an item; None if time was up."""
    try:
        return work(item, LocalDesk(key, run, _tell))
    except OutOfTime:
        return None


def _tell(key: str, done: float, note: str) -> None:
    _NEWS.put((key, done, note))
