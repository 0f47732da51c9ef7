"""The cost of handing out a campaign's points: in processes and on a local Ray cluster, against one process.

A point is a fixed number of hashes, about POINT seconds of one core.  Each side computes the same points, and writes
the same lines; so with as many workers as cores, and no overhead, a side is as many times as fast as there are cores.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from experiments.experiment.turns import in_turns, ratio
from experiments.store.backends import Backend, Processes, Serial
from experiments.store.cluster import Ray
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.provenance import provenance
from experiments.store.work import results

POINTS, POINT = 1000, 0.05
TURNS = 2
SERIAL, PROCESSES, RAY = "one process (baseline)", "processes", "Ray"


def run_campaign(workers: int, points: int = POINTS, seconds: float = POINT) -> Json:
    """Return seconds by side, and how much more than a core's share of the baseline each takes.

    Raises UserError if Ray is not installed.
    """
    hashes = _hashes(seconds)
    items = {f"p{i}": (i, hashes) for i in range(points)}
    answers: dict[str, Json] = {}

    def side(name: str, backend: Backend) -> Callable[[], float]:
        def seconds() -> float:
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                run = RunFolder(Path(folder))
                answers[name] = results("point", items, hashed, run=run, label=name, backend=backend)
                return time.perf_counter() - began

        return seconds

    sides = {
        SERIAL: side(SERIAL, Serial()),
        PROCESSES: side(PROCESSES, Processes(workers)),
        RAY: side(RAY, Ray(most=workers)),
    }
    turns = in_turns(sides, TURNS)
    a_core = {name: [workers * x for x in turns[name]] for name in (PROCESSES, RAY)}
    return {
        "threads": workers,
        **provenance("cpu", __name__),
        "benchmarks": [
            {
                "name": "campaign",
                "what": f"{points} points of {1000 * median(turns[SERIAL]) / points:.0f} ms, {workers} workers",
                "baseline": "the same points one after the other in one process",
                "seconds": {name: median(of_turns) for name, of_turns in turns.items()},
                "ratios": {name: ratio(of_turns, turns[SERIAL]) for name, of_turns in a_core.items()},
                "same_answer": answers[SERIAL] == answers[PROCESSES] == answers[RAY],
                "difference": "lines of metrics.jsonl",
            }
        ],
    }


def hashed(item: tuple[int, int], desk: Desk) -> Json:
    """Compute a point: so many hashes, from a start of its own."""
    start, count = item
    digest = _chain(str(start).encode(), count)
    desk.report(1.0)
    return {"digest": digest.hex()}


def _chain(digest: bytes, count: int) -> bytes:
    for _ in range(count):
        digest = hashlib.sha256(digest).digest()
    return digest


def _hashes(seconds: float) -> int:
    """Return how many hashes take `seconds` on a core that has woken up and is not shared: the fastest of ten tries."""
    count, tries = 100_000, []
    for _ in range(10):
        began = time.perf_counter()
        _chain(b"", count)
        tries.append(time.perf_counter() - began)
    return max(1, round(count * seconds / min(tries)))
