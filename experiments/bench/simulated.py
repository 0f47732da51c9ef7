"""A simulated cluster, to which `experiments.store.cluster` itself hands out arms; the clock is a number.

What it has of Ray is what `cluster.Ray` calls, with time that passes only where that waits.  Nodes fail at random and
come back; what ran there ends as Ray ends it, and goes on from its last checkpoint when it is handed out again.
"""

from __future__ import annotations

import heapq
import io
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from experiments.store.cluster import Ray
from experiments.store.folders import RunFolder, UserError


@dataclass(frozen=True)
class Machines:
    """Nodes of `gpus` GPUs, each of which fails after `mean` seconds on average and is back after `repair`.

    driver   seconds of the one process that hands out, for each item
    """

    nodes: int
    gpus: int
    mean: float
    repair: float = 600.0
    driver: float = 0.0


@dataclass(frozen=True)
class Work:
    """An item of work on `gpus` of one node.

    Attributes:
        seconds: of the work.
        interval: between saves, in seconds.
        cost: of a save, in seconds.
        restart: seconds before it begins or goes on.
    """

    seconds: float
    gpus: int
    interval: float
    cost: float
    restart: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of a simulated campaign.

    Attributes:
        seconds: until all is over.
        lost: items given up.
        failures: that ended an item's try.
        used: GPU-seconds that items held.
        worked: GPU-seconds that they needed without saves or failures.
    """

    seconds: float
    lost: int
    failures: int
    used: float
    worked: float


class _Died(Exception):
    pass


class _Raised(_Died):
    """A task's own failure, which never happens here."""


@dataclass(eq=False)
class _Running:
    key: str
    work: Work
    node: int = -1
    began: float = 0.0
    result: Any = None
    over: bool = False


@dataclass
class _Cluster:
    """The cluster that `Ray.run` sees as the module `ray`."""

    machines: Machines
    seed: int
    now: float = 0.0
    failures: int = 0
    used: float = 0.0
    done: dict[str, float] = field(default_factory=dict)  # work that is saved, by key
    exceptions: Any = field(default_factory=lambda: SimpleNamespace(RayTaskError=_Raised, RayError=_Died))

    def __post_init__(self) -> None:
        self._random, self._order = Random(self.seed), count()
        self._free = [self.machines.gpus] * self.machines.nodes
        self._waiting: list[_Running] = []
        self._at_work: list[set[_Running]] = [set() for _ in self._free]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        for node in range(self.machines.nodes):
            self._fails(node)

    def nodes(self) -> list[dict[str, Any]]:
        gpus = {"GPU": float(self.machines.gpus), "CPU": float(self.machines.gpus)}
        return [{"Alive": True, "Resources": gpus} for _ in self._free]

    def cluster_resources(self) -> dict[str, float]:
        total = float(self.machines.gpus * self.machines.nodes)
        return {"CPU": total, "GPU": total}

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_job_id=lambda: id(self))

    def remote(self, **options: Any) -> Any:
        def wrapped(target: Any) -> Any:
            if isinstance(target, type):  # the board: it tells how far items are
                return SimpleNamespace(remote=lambda: SimpleNamespace(take=SimpleNamespace(remote=lambda: None)))
            return SimpleNamespace(remote=self._submit)

        del options
        return wrapped

    def _submit(self, _work: Any, item: Work, key: str, *_: Any) -> _Running:
        self._pass(self.machines.driver)
        task = _Running(key, item)
        self._waiting.append(task)
        self._place()
        return task

    def get(self, task: _Running | None) -> Any:
        if task is None:
            return {key: (done, "") for key, done in self.done.items()}
        if isinstance(task.result, _Died):
            raise task.result
        return task.result

    def wait(self, tasks: Sequence[_Running], num_returns: int = 1, timeout: float | None = None) -> tuple[Any, Any]:
        if timeout:
            while not any(task.over for task in tasks):
                self._next()
        del num_returns
        return [task for task in tasks if task.over], [task for task in tasks if not task.over]

    def cancel(self, *_: Any, **__: Any) -> None:
        pass

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._order), event))

    def _next(self) -> None:
        moment, _, event = heapq.heappop(self._events)
        self.now = max(self.now, moment)
        event()

    def _pass(self, seconds: float) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self._next()
        self.now = end

    def _place(self) -> None:
        """Start waiting tasks, first come, first served, on the first node with room."""
        while self._waiting:
            task = self._waiting[0]
            node = next((i for i, free in enumerate(self._free) if free >= task.work.gpus), None)
            if node is None:
                return
            self._waiting.pop(0)
            self._free[node] -= task.work.gpus
            self._at_work[node].add(task)
            task.node, task.began = node, self.now
            left = task.work.seconds - self.done.get(task.key, 0.0)
            saves = -(-left // task.work.interval)
            self._at(self.now + task.work.restart + left + saves * task.work.cost, partial(self._ends, task))

    def _ends(self, task: _Running) -> None:
        if not task.over:
            task.over, task.result = True, (self.now - task.began, {})
            self._leave(task)
            self._place()

    def _leave(self, task: _Running) -> None:
        self.used += task.work.gpus * (self.now - task.began)
        self._at_work[task.node].discard(task)
        self._free[task.node] += task.work.gpus

    def _fails(self, node: int) -> None:
        if self.machines.mean < float("inf"):
            self._at(self.now + self._random.expovariate(1 / self.machines.mean), lambda: self._failed(node))

    def _failed(self, node: int) -> None:
        for task in list(self._at_work[node]):
            stretches = (self.now - task.began - task.work.restart) // (task.work.interval + task.work.cost)
            self.done[task.key] = self.done.get(task.key, 0.0) + max(0.0, stretches) * task.work.interval
            task.over, task.result = True, _Died("the node died")
            self.failures += 1
            self._leave(task)
        self._free[node] -= self.machines.gpus
        self._at(self.now + self.machines.repair, lambda: self._back(node))

    def _back(self, node: int) -> None:
        self._free[node] += self.machines.gpus
        self._fails(node)
        self._place()


@dataclass(frozen=True)
class _Simulated(Ray):
    cluster: Any = None

    def _connected(self) -> Any:
        return self.cluster


def simulate(machines: Machines, arms: Sequence[Work], seed: int) -> Outcome:
    """Simulate the arms, handed out as `crosslayer run --on ray` hands them out."""
    cluster = _Cluster(machines, seed)
    backend = _Simulated(cores=arms[0].gpus, gpus=arms[0].gpus, cluster=cluster)
    items, lost = {f"arm {i}": arm for i, arm in enumerate(arms)}, 0
    with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()):
        outcomes = backend.run(_nothing, items, RunFolder(Path(folder)), lambda *_: None)
        finished = 0
        try:
            for _ in outcomes:
                finished += 1
        except UserError:
            lost = len(items) - finished
    worked = sum(arm.seconds * arm.gpus for arm in arms)
    return Outcome(cluster.now, lost, cluster.failures, used=cluster.used, worked=worked)


def _nothing(*_: Any) -> Any:
    """Do nothing: simulated work is only time."""
