"""Run folders: everything is written to a temporary name and renamed, and what is damaged is said in one line."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
LONGEST = 100  # of what a user calls something, in a folder's name


class UserError(Exception):
    """Something a user can put right.  The message is one line."""


class Unfinished(Exception):
    """Time is up before there is anything to compare.  The message is one line: what is done, and of how much."""


@dataclass(frozen=True)
class Slot:
    """The machine time that a run may use.

    device     cpu or cuda
    jobs       trainings at a time; 0: as many as there are cores, or as the profile says on a GPU
    deadline   `time.time()` by which to stop, or None
    data       a folder of prepared text, in place of the experiments' own
    """

    device: str = "cpu"
    jobs: int = 0
    deadline: float | None = None
    data: str | None = None

    @property
    def seconds_left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.time()


class RunFolder:
    """One run's files, and the time it may take.  Reading a file that is damaged raises UserError."""

    def __init__(self, path: Path, slot: Slot | None = None) -> None:
        self.path, self.slot = path, slot or Slot()
        self._locked = False

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder, and keep other processes out of it.  Raises UserError if that cannot be done.

        Inside, it may be asked for again.
        """
        if self._locked:
            yield
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self / ".lock").open("a")
        except OSError as error:
            raise UserError(f"cannot write to {self.path}: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UserError(f"another process is working in {self.path}") from error
            self._locked = True
            try:
                yield
            finally:
                self._locked = False

    def write(self, name: str, content: Json) -> None:
        write_atomically(self / name, json.dumps(content, indent=1, allow_nan=False) + "\n")

    def read(self, name: str) -> Any:
        try:
            return json.loads((self / name).read_text())
        except (OSError, ValueError) as error:
            raise UserError(f"{self / name} is damaged; delete it and run again") from error

    def has(self, name: str) -> bool:
        return (self / name).exists()

    def metrics(self) -> list[Json]:
        """The lines of metrics.jsonl, but for a last one that a kill has torn."""
        if not self.has("metrics.jsonl"):
            return []
        *whole, _torn = (self / "metrics.jsonl").read_text(errors="replace").split("\n")
        try:
            lines = [json.loads(line) for line in whole]
            if not all(isinstance(line, dict) and "kind" in line for line in lines):
                raise ValueError("not a metric")
        except ValueError as error:
            raise UserError(f"{self / 'metrics.jsonl'} is damaged; delete it and run again") from error
        return lines

    def keep_metrics(self, lines: list[Json]) -> None:
        """Replace metrics.jsonl, which also drops a torn last line."""
        write_atomically(self / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def log(self, line: Json) -> None:
        with (self / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def write_atomically(path: Path, content: str | bytes) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    temporary.replace(path)


def in_a_path(text: str) -> str:
    """What a user calls something, as a part of a folder's name."""
    return "".join(c if c.isalnum() or c in "-+.=" else "_" for c in text)[:LONGEST]
