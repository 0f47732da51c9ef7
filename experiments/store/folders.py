"""Run folders: everything is written to a temporary name and renamed, and damage is reported in one line.

What is read back carries a digest (`icl.files`).  Files from before there were digests are read too, as long as they
have the required fields.  What can be made again lies in the cache folder.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.store.processes import leave_if_starting
from icl.files import naming, opened, sealed, write_atomically

Json = dict[str, Any]
CONFIG, METRICS = "config.json", "metrics.jsonl"
TORN = re.compile(rb"\{[ -~]*")  # the beginning of a line, which a kill has left
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
    on         ray: a cluster (`experiments.store.cluster`); else this machine
    """

    device: str = "cpu"
    jobs: int = 0
    deadline: float | None = None
    data: str | None = None
    on: str = ""

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
        leave_if_starting()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self / ".lock").open("a", encoding="utf-8")
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
        """Write a file.  Raises UserError for numbers that are none, such as the losses of what has diverged."""
        try:
            text = json.dumps(sealed(content), indent=1, allow_nan=False) + "\n"
        except ValueError as error:
            raise UserError(f"{self / name} would hold a number that is not finite: something has diverged") from error
        write_atomically(self / name, text)

    def read(
        self, name: str, fields: Mapping[str, Any] | None = None, *, advice: str = "delete it and run again"
    ) -> Json:
        """Return the content of a file, which has at least these fields, of these types; floats are finite.

        advice  what a user can do if it is damaged
        """
        path = self / name
        try:
            content, whole = opened(_bytes(path))
        except ValueError as error:
            raise UserError(f"{path} is damaged; {advice}") from error
        if not content or _misfit(content, fields or {}) or not (whole or name == CONFIG or self._older()):
            raise UserError(f"{path} is damaged; {advice}")
        return content

    def _older(self) -> bool:
        """Return whether it is older than digests, as is one without config.json, such as results kept elsewhere."""
        try:
            return not opened((self / CONFIG).read_bytes())[1]
        except (OSError, ValueError):
            return True

    def has(self, name: str) -> bool:
        return (self / name).exists()

    def written(self, name: str) -> str:
        """Return when a file got its name, by this machine's clock: date and minute, UTC."""
        return f"{datetime.fromtimestamp((self / name).stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC"

    def metrics(self) -> list[Json]:
        """Return the lines of metrics.jsonl, but for a last one that a kill has torn."""
        if not self.has(METRICS):
            return []
        *texts, torn = _bytes(self / METRICS).split(b"\n")
        lines = [_line(text) for text in texts]
        some = any(line and line[1] for line in lines)  # all lines have a digest or, from before, none
        wrong = [number for number, line in enumerate(lines, 1) if line is None or (some and not line[1])]
        if torn and not TORN.fullmatch(torn):
            wrong.append(len(lines) + 1)
        if wrong:
            raise self._damaged_lines(wrong, all(line is None for line in lines))
        return [line[0] for line in lines if line]

    def lines(self, kind: str, **fields: Any) -> list[Json]:
        """Return the lines of one kind, which have at least these fields, of these types; floats are finite."""
        return self.lines_of({kind: fields})[kind]

    def lines_of(self, kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Json]]:
        """Return the lines of some kinds, read once, as `lines` returns those of one."""
        lines = self.metrics()
        if wrong := [i for i, line in enumerate(lines, 1) if _misfit(line, kinds.get(line["kind"], {}))]:
            raise self._damaged_lines(wrong, len(wrong) == len(lines))
        return {kind: [line for line in lines if line["kind"] == kind] for kind in kinds}

    def _damaged_lines(self, numbers: Sequence[int], every: bool) -> UserError:
        path = self / METRICS
        if every:
            return UserError(f"{path} is damaged; delete it and run again")
        if len(numbers) == 1:
            return UserError(f"line {numbers[0]} of {path} is damaged; delete that line and run again")
        shown = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
        return UserError(f"{len(numbers)} lines of {path} are damaged; delete lines {shown} and run again")

    def keep_metrics(self, lines: list[Json]) -> None:
        """Replace metrics.jsonl, which also drops a torn last line."""
        write_atomically(self / METRICS, "".join(json.dumps(sealed(line)) + "\n" for line in lines))

    def log(self, line: Json) -> None:
        with naming(self / METRICS), (self / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(sealed(line)) + "\n")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; put that right, or move it away") from error


def _line(text: bytes) -> tuple[Json, bool] | None:
    """Return a line of metrics.jsonl, and whether it has a digest; None if it is damaged."""
    try:
        line, whole = opened(text)
    except ValueError:
        return None
    return (line, whole) if isinstance(line.get("kind"), str) else None


def _misfit(content: Json, fields: Mapping[str, Any]) -> bool:
    """Return whether one of the fields is missing, of another type, or no finite number where it is a float."""
    return any(
        name not in content
        or not isinstance(value := content[name], kind)
        or (isinstance(value, float) and not math.isfinite(value))
        for name, kind in fields.items()
    )


def in_a_path(text: str) -> str:
    """Return a user's name for something as a part of a folder's name."""
    return "".join(c if c.isalnum() or c in "-+.=" else "_" for c in text)[:LONGEST]


def cache() -> Path:
    """Return the user's folder for them: below $XDG_CACHE_HOME, an absolute path, or else ~/.cache."""
    asked = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (asked if asked.is_absolute() else Path.home() / ".cache") / "crosslayer"
