"""The log of one training among a run's metrics."""

from __future__ import annotations

from typing import Any

from experiments.store.folders import Json, RunFolder


class StepLog:
    """The lines {"kind": kind, "step": ..., ...} of metrics.jsonl.

    After a kill, what was logged beyond the last checkpoint happens again: from the first step that is added, those
    lines are dropped.
    """

    def __init__(self, run: RunFolder, kind: str) -> None:
        self.run, self.kind = run, kind
        self.lines = [line for line in run.metrics() if line["kind"] == kind]
        self._resumed = False

    def add(self, step: int, **fields: Any) -> None:
        if not self._resumed:
            self.lines = [line for line in self.lines if line["step"] < step]
            lines = self.run.metrics()
            self.run.keep_metrics([line for line in lines if line["kind"] != self.kind or line["step"] < step])
            self._resumed = True
        line: Json = {"kind": self.kind, "step": step, **fields}
        self.lines.append(line)
        self.run.log(line)
