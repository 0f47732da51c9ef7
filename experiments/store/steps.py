"""The log of one training among a run's metrics, and how a training ends before its last step."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from experiments.store.desk import OutOfTime
from experiments.store.folders import Json, RunFolder, UserError


class StepLog:
    """The lines {"kind": kind, "step": ..., ...} of metrics.jsonl.

    After a kill, what was logged beyond the last checkpoint happens again: from the first step that is added, those
    lines are dropped.

    every   steps per line
    fields  of a line, with their types.  Raises UserError for a line that is damaged or has others
    """

    def __init__(self, run: RunFolder, kind: str, every: int, **fields: Any) -> None:
        self.run, self.kind, self.every = run, kind, every
        self.lines = run.lines(kind, step=int, **fields)
        self._resumed = False

    def missing(self, step: int, after: int = 0) -> int:
        """Return how many logged lines of steps after `after` up to `step` are missing, as somebody deleted them."""
        there = sum(line["step"] > after for line in self.lines)
        return -(-step // self.every) - after // self.every - there

    def add(self, step: int, **fields: Any) -> None:
        if not self._resumed:
            self.lines = [line for line in self.lines if line["step"] < step]
            lines = self.run.metrics()
            self.run.keep_metrics([line for line in lines if line["kind"] != self.kind or line["step"] < step])
            self._resumed = True
        line: Json = {"kind": self.kind, "step": step, **fields}
        self.lines.append(line)
        self.run.log(line)


@contextmanager
def stoppable(steps: Generator[Any, bool | None, Any]) -> Iterator[None]:
    """Go through `steps` inside, a training of `icl` that saves and ends where it is sent True.

    OutOfTime is let through once all is saved.  Raises UserError for checkpoints that cannot be used.
    """
    from icl.checkpoint import BadCheckpoint

    try:
        yield
    except OutOfTime:
        with suppress(StopIteration):
            steps.send(True)
        raise
    except BadCheckpoint as error:
        raise UserError(str(error)) from error
