"""Results of many independent items, each kept as a line of a run's metrics.jsonl as soon as it is there.

What is there is never computed again, whatever ended the run.  A result depends on its item alone, not on how many are
computed at a time or where.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Protocol

from experiments.store.backends import Backend, Item, Processes, Results, Serial, Work
from experiments.store.desk import Desk, scratch
from experiments.store.folders import Json, RunFolder, Slot, Unfinished
from experiments.store.progress import progress


def results(
    kind: str,
    items: Mapping[str, Item],
    work: Work[Item],
    run: RunFolder,
    *,
    label: str,
    size: Callable[[Item], float] = lambda _: 1.0,
    backend: Backend | None = None,
    field: str = "key",
    partial: bool = False,
) -> dict[str, Json]:
    """Return `work` of every item, by key, in the order of the items.

    A line is {"kind": kind, field: key, **result}.  The progress bar counts `size`s.  Raises Unfinished if time is up
    before all are there; if `partial`, those that are there are returned.
    """
    with run.locked():
        records = {line[field]: line for line in run.lines(kind, **{field: str})}
        run.keep_metrics(run.metrics())
        for key in items.keys() & records.keys():
            shutil.rmtree(scratch(run, key), ignore_errors=True)  # a kill came between the line and this
        todo = {key: item for key, item in items.items() if key not in records}
        if todo:
            sizes = {key: size(item) for key, item in items.items()}
            with closing(
                _watched(backend or _chosen(run.slot, len(todo)), work, todo, run=run, label=label, sizes=sizes)
            ) as finished:
                for key, result in finished:
                    line = {"kind": kind, field: key, **result}
                    run.log(line)
                    shutil.rmtree(scratch(run, key), ignore_errors=True)
                    records[key] = json.loads(json.dumps(line))  # as it is when it is read back
    there = [key for key in items if key in records]
    if len(there) < len(items) and not partial:
        raise Unfinished(f"{label}: {len(there)} of {len(items)} are finished")
    return {key: {name: x for name, x in records[key].items() if name not in ("kind", field)} for key in there}


class Measurable(Protocol):
    def measured(self, desk: Desk) -> Json: ...


def measured(item: Measurable, desk: Desk) -> Json:
    """Do `work` of items of several kinds, each of which knows its own."""
    return item.measured(desk)


def longest_first(items: Mapping[str, Item], time: Callable[[Item], float]) -> dict[str, Item]:
    """Return items in the order in which none is left to run alone at the end; time: of an item, in any unit."""
    return dict(sorted(items.items(), key=lambda item: -time(item[1])))


def _chosen(slot: Slot, items: int) -> Backend:
    """Return a backend: by default as many items at a time as cores, on a GPU one; on a cluster, as it has room for."""
    if slot.on == "ray":
        from experiments.store.cluster import Ray

        return Ray.for_slot(slot)
    count = min(items, slot.jobs or (1 if slot.device.startswith("cuda") else os.cpu_count() or 1))
    return Serial() if count == 1 else Processes(count)


def _watched(
    backend: Backend, work: Work[Item], todo: Mapping[str, Item], run: RunFolder, label: str, sizes: Mapping[str, float]
) -> Results:
    """Yield what the backend finds, under a progress bar over all items; `sizes` are their shares of it."""
    parts = {key: 0.0 if key in todo else whole for key, whole in sizes.items()}
    notes: dict[str, str] = {}
    if len(todo) < len(sizes):
        label = f"{label}, {len(todo)} of {len(sizes)} to do"
    with progress(label, sum(sizes.values())) as at:

        def tell(key: str, done: float, note: str) -> None:
            if parts[key] < sizes[key]:  # what is told may come later than the result
                parts[key], notes[key] = done, note
                at(sum(parts.values()), note)

        at(sum(parts.values()))
        with closing(backend.run(work, todo, run, tell)) as finished:
            for key, result in finished:
                tell(key, sizes[key], notes.get(key, key))
                yield key, result
