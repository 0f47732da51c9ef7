"""Progress on standard error: a bar with the loss and the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

SECONDS_BETWEEN_LINES = 15.0
LEAST_SHARE = 0.02  # of the work, from which the time left is estimated


Relay = Callable[[str, float], None]  # what there is to show, and the share of it that is done
_relay: Relay | None = None


@contextmanager
def relayed(tell: Relay) -> Iterator[None]:
    """Hide progress inside; `tell` hears of it, in a process whose parent shows that of several."""
    global _relay
    before, _relay = _relay, tell
    try:
        yield
    finally:
        _relay = before


def warn(text: str) -> None:
    """Print one line on standard error about something that does not stop the work."""
    _say(f"crosslayer: {text}")


def _say(line: str) -> None:
    """Write lines; if they cannot be written, as on a full disk, the work goes on."""
    try:
        print(line, file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        pass


class Advance(Protocol):
    """So much is done; a note stays until there is another one."""

    def __call__(self, done: float, note: str | None = None) -> None: ...


@contextmanager
def progress(label: str, total: float) -> Iterator[Advance]:
    """Show progress: `with progress("training", steps) as at: at(step, "loss 3.1")`, `done` counted from the beginning.

    The first call says where the job starts, 0 or where it is resumed; the time left is estimated from the speed since
    the first of it was done, so that preparing does not count.
    """
    shown = ""

    def latest(note: str | None) -> str:
        nonlocal shown
        shown = shown if note is None else note
        return shown

    if (tell := _relay) is not None:

        def pass_on(done: float, note: str | None = None) -> None:
            share = done / total if total else 1.0
            tell(f"{label}: {share:.0%} {latest(note)}".rstrip(), share)

        yield pass_on
        return
    if sys.stderr.isatty():
        with _bar() as bar:
            task = bar.add_task(label, total=total, note="")
            yield lambda done, note=None: bar.update(task, completed=done, note=latest(note))
        return

    last = time.monotonic()
    began: tuple[float, float] | None = None  # when, and at how much done

    def line(done: float, note: str | None = None) -> None:
        nonlocal last, began
        now, note = time.monotonic(), latest(note)
        if began is None:
            began = now, done
            return
        if done <= began[1]:
            began = now, began[1]
        if now - last < SECONDS_BETWEEN_LINES:
            return
        speed = (done - began[1]) / max(1e-9, now - began[0])
        known = done - began[1] >= LEAST_SHARE * total
        left = f", {(total - done) / speed:.0f} s left" if known and speed > 0 else ""
        _say(f"{label}: {done / total:.0%}{left}  {note}")
        last = now

    yield line


def _bar() -> Progress:
    """Return a bar of a quarter of the terminal, and a label and a note on one line, shortened to what is left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Shortened(TextColumn):
        def render(self, task: Task) -> Text:
            text = super().render(task)
            text.no_wrap, text.overflow = True, "ellipsis"
            return text

    console = Console(stderr=True)
    return Progress(
        Shortened("{task.description}", table_column=Column()),
        BarColumn(console.width // 4),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        Shortened("{task.fields[note]}", table_column=Column()),
        console=console,
    )
