"""Computations on a Ray cluster: the one that RAY_ADDRESS names, or one that is started on this machine.

What comes back are the lines that a single machine writes, equal bit for bit on CPUs of one kind, so that a campaign
begun on one machine goes on anywhere.  The package has to be installed on every node.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.store.backends import POLL, Item, Results, Work
from experiments.store.desk import LocalDesk, OutOfTime, Pace, Tell, scratch
from experiments.store.folders import Json, RunFolder, Slot, UserError
from experiments.store.processes import one_thread
from experiments.store.progress import warn

TOKEN = ".cluster"  # a file in the run's folder, by which a node tells whether it sees the same folder
TRIES = 4  # of an item whose worker or node dies
AHEAD = 2  # so many items for every one that there is room for, that no worker waits for the next one


@dataclass(frozen=True)
class Ray:
    """A backend on a Ray cluster: as many items at a time as have room, at most `most`, with `cores` and `gpus` each.

    With `most` 0 there is no such limit.  An item whose worker or node dies is tried again, up to TRIES times without
    getting any further than it was, and goes on from its checkpoint if nodes share the run's folder.  One that raises
    is reported and does not stop the others; at the end there is a UserError, of one line, for all that could not be
    computed.
    """

    cores: float = 1.0
    gpus: float = 0.0
    most: int = 0

    @classmethod
    def for_slot(cls, slot: Slot) -> Ray:
        """Return a backend for a slot; jobs of a slot on a GPU are those that share one."""
        if slot.device.startswith("cuda"):
            return cls(gpus=1 / max(1, slot.jobs))
        return cls(most=slot.jobs)

    def run(self, work: Work[Item], items: Mapping[str, Item], run: RunFolder, tell: Tell) -> Results:
        ray = self._connected()
        self._check_room(ray)
        board = _board(ray)
        task = ray.remote(num_cpus=self.cores, num_gpus=self.gpus, max_retries=0)(_result)
        waiting, pace, tries = list(items), Pace(run.slot), dict.fromkeys(items, 0)
        here = Path.cwd()
        begun: dict[Any, str] = {}
        failed: dict[str, str] = {}
        told: dict[str, float] = {}  # how far items are
        before: dict[str, float] = {}  # and were when they last died
        heard = time.monotonic()

        def hear() -> None:
            for key, (done, note) in ray.get(board.take.remote()).items():
                if key in items:  # and not a late word from the run before
                    told[key] = done
                    tell(key, done, note)

        with _token(run) as token:
            try:
                while waiting or begun:
                    room = self._room(ray) * (AHEAD if run.slot.deadline is None else 1)
                    while waiting and len(begun) < max(1, room) and pace.fits():
                        key = waiting.pop(0)
                        tries[key] += 1
                        begun[task.remote(work, items[key], key, run, token, board, here)] = key
                    if not begun:
                        break
                    for reference in _ready(ray, list(begun)):
                        key = begun.pop(reference)
                        try:
                            found = ray.get(reference)
                        except ray.exceptions.RayTaskError as error:
                            failed[key] = _line(error.cause)
                        except ray.exceptions.RayError as error:
                            hear()
                            if told.get(key, 0.0) > before.get(key, 0.0):  # long ones outlive many failures
                                before[key], tries[key] = told[key], 0
                            if tries[key] < TRIES:
                                warn(f"{key} is tried again: {_line(error)}")
                                waiting.append(key)
                                continue
                            failed[key] = f"tried {TRIES} times, of which the last: {_line(error)}"
                        if key in failed:
                            warn(f"{key} cannot be computed: {failed[key]}")
                        elif found is not None:
                            seconds, result = found
                            pace.took(seconds)
                            yield key, result
                    if time.monotonic() - heard > POLL:
                        heard = time.monotonic()
                        hear()
            finally:
                for reference in begun:
                    ray.cancel(reference, force=True)
        if failed:
            key, said = next(iter(failed.items()))
            others = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
            raise UserError(f"{len(failed)} of {len(items)} could not be computed: {key}, {said}{others}")

    def _connected(self) -> Any:
        return _connected()

    def _check_room(self, ray: Any) -> None:
        """Raise UserError where nothing would ever begin: Ray waits, without a word, for what no node has."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for name, what, wanted in (("GPU", "GPU", self.gpus), ("CPU", "core", self.cores)):
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if most < wanted:
                has = f"no node of the Ray cluster has more than {most:g}" if most else "the Ray cluster has none"
                raise UserError(f"{wanted:g} {what}{'s' if wanted > 1 else ''} for every item are asked for, and {has}")

    def _room(self, ray: Any) -> int:
        """Return how many items the cluster has room for, now: nodes come and go."""
        there = ray.cluster_resources()
        room = there.get("CPU", 0.0) / self.cores
        if self.gpus:
            room = min(room, there.get("GPU", 0.0) / self.gpus)
        return min(int(room), self.most) if self.most else int(room)


class _Board:
    """An actor: how far items are, for whoever asks next."""

    def __init__(self) -> None:
        self.news: dict[str, tuple[float, str]] = {}

    def tell(self, key: str, done: float, note: str) -> None:
        self.news[key] = done, note

    def take(self) -> dict[str, tuple[float, str]]:
        news, self.news = self.news, {}
        return news


def _result(
    work: Work[Item], item: Item, key: str, run: RunFolder, token: str, board: Any, place: Path
) -> tuple[float, Json] | None:
    """Return an item's seconds and its result; None if time was up.

    A node that does not see the run's folder has one of its own.  Relative paths are from `place`, if that is there.
    """
    began = told = time.monotonic()

    def tell(*news: Any) -> None:
        """Report now and then: a word for every step of short points would take longer than they do."""
        nonlocal told
        if time.monotonic() - told > POLL:
            told = time.monotonic()
            board.tell.remote(*news)

    with suppress(OSError):
        os.chdir(place)
    own = RunFolder(Path(tempfile.gettempdir()) / f"crosslayer-{token}", run.slot)
    desk = LocalDesk(key, run if _sees(run, token) else own, tell)
    try:
        with one_thread():
            result = work(item, desk)
    except OutOfTime:
        return None
    shutil.rmtree(scratch(own, key), ignore_errors=True)  # with the result on its way it is of no more use
    return time.monotonic() - began, result


def _sees(run: RunFolder, token: str) -> bool:
    try:
        return (run / TOKEN).read_text(encoding="utf-8") == token
    except OSError:
        return False


def _connected() -> Any:
    """Return Ray, connected to a cluster.  Raises UserError if it is not installed or cannot be reached."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")  # else tries to connect are 20 lines on standard error
    try:
        import ray
    except ImportError as error:
        raise UserError("--on ray needs Ray; pip install -e '.[cluster]'") from error
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "local")
        try:
            ray.init(address, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UserError(f"no Ray cluster answers at {address}: {_line(error)}") from error
    return ray


_BOARDS: dict[str, Any] = {}


def _board(ray: Any) -> Any:
    """Return this process's actor on the cluster it is connected to: one for all its runs, as each is a process."""
    job = ray.get_runtime_context().get_job_id()
    if job not in _BOARDS:
        _BOARDS[job] = ray.remote(num_cpus=0)(_Board).remote()
    return _BOARDS[job]


def _ready(ray: Any, references: list[Any]) -> list[Any]:
    """Return the references whose result is there, after at most POLL seconds."""
    first, _ = ray.wait(references, timeout=POLL)
    return ray.wait(references, num_returns=len(references), timeout=0)[0] if first else []


@contextmanager
def _token(run: RunFolder) -> Iterator[str]:
    token = os.urandom(8).hex()
    (run / TOKEN).write_text(token, encoding="utf-8")
    try:
        yield token
    finally:
        (run / TOKEN).unlink(missing_ok=True)


def _line(error: BaseException) -> str:
    """Return the first line of an error's message, or what it is."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
