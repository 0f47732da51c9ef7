"""Progress on standard error: a bar with the loss and the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

SECONDS_BETWEEN_LINES = 15.0


_relay: Callable[[str], None] | None = None


@contextmanager
def relayed(tell: Callable[[str], None]) -> Iterator[None]:
    """Inside, no progress is shown: `tell` hears of it, in a process whose parent shows that of several."""
    global _relay
    before, _relay = _relay, tell
    try:
        yield
    finally:
        _relay = before


def warn(text: str) -> None:
    """One line on standard error of something that does not stop the work."""
    print(f"crosslayer: {text}", file=sys.stderr)


class Advance(Protocol):
    def __call__(self, done: float, note: str = "") -> None: ...


@contextmanager
def progress(label: str, total: float) -> Iterator[Advance]:
    """`with progress("training", steps) as at: at(step, "loss 3.1")`, with `done` counted from the very beginning.

    The first call says where the job starts, 0 or where it is resumed; the time left is told from the speed since.
    """
    if (tell := _relay) is not None:
        yield lambda done, note="": tell(f"{label}: {done / total if total else 1:.0%} {note}".rstrip())
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(label, total=total, note="")
            yield lambda done, note="": bar.update(task, completed=done, note=note)
        return

    last = time.monotonic()
    began: tuple[float, float] | None = None  # when, and at how much done

    def line(done: float, note: str = "") -> None:
        nonlocal last, began
        now = time.monotonic()
        if began is None:
            began = now, done
        if now - last < SECONDS_BETWEEN_LINES or done <= began[1]:
            return
        left = (now - began[0]) / (done - began[1]) * (total - done)
        print(f"{label}: {done / total:.0%}, {left:.0f} s left  {note}", file=sys.stderr, flush=True)
        last = now

    yield line
