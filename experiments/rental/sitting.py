"""One command of a rental: parts run in their minutes, one that fails ends no other, and an archive is kept up to date.

Every part has minutes of its own, counted over all commands of a rental.  Parts that are done are passed by; where
all others are done or have had their minutes, those that are left share what time there is, in order.  The standing
lies in rental/standing.json below the results folder, what parts have printed beside it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from experiments.rental import archive
from experiments.rental.machines import START, Machine
from experiments.rental.parts import Part
from experiments.store.folders import Json, RunFolder
from experiments.store.progress import warn

WORK = "rental"
STANDING = "standing.json"
PARTS: Json = {"parts": dict}
ARCHIVED = 60.0  # seconds between two versions of the archive
CLOSING = 15.0  # seconds at the end of a command for its last version
GRACE = 10.0  # seconds that a process gets beyond its minutes, and after it was asked to end
LEAST = 30.0  # seconds for which no part is begun
POLL = 0.2
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "experiments")  # what takes the parts' commands
PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
PR_SET_PDEATHSIG = 1
# Processes that compile at the same time share the cores, and what one has compiled is there for the others.
COMPILING = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}


@dataclass
class Clock:
    """The time of one command.

    Args:
        minutes: That it has.
        scale: Seconds that pass for one of a part's; below 1 in a dry run.
        start: Seconds that are added to every part's time, as a process takes them whatever the scale.
    """

    minutes: float
    scale: float = 1.0
    start: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until this command ends, but for the last version of the archive."""
        return self.began + 60 * self.minutes - self.scale * CLOSING - time.monotonic()

    def own(self, part: Part, spent: float) -> float:
        """Return the seconds that a part has of its own, after those that it has spent."""
        return 60 * self.scale * part.minutes + self.start - spent


@dataclass
class Sitting:
    """A command under way.

    Args:
        parts: In order.
        out: The results folder.
        pieces: The folder for the archive's pieces.
        clock: The time there is.
        machine: For which a part's least time is forecast; None: nothing is forecast.
        interrupt: Whether the first process of every part is killed once it has left something.
        say: Where lines go.
        program: What takes the parts' commands.
    """

    parts: Sequence[Part]
    out: Path
    pieces: Path
    clock: Clock
    machine: Machine | None = None
    interrupt: bool = False
    say: Callable[[str], None] = warn
    program: Sequence[str] = PROGRAM

    def __post_init__(self) -> None:
        self.run = RunFolder(self.out / WORK)
        self.base = archive.note_base(self.out, self.run.path)
        self.name = f"rental-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        self.archived = time.monotonic()
        self.failed: set[str] = set()
        self.over: set[str] = set()  # not begun again by this command
        self.standing: dict[str, Json] = {}
        if self.run.has(STANDING):
            self.standing = self.run.read(STANDING, PARTS)["parts"]
        for part in self.parts:
            self.standing.setdefault(part.name, {"spent": 0.0, "done": False, "tries": []})

    def go_on(self) -> bool:
        """Run parts until time is up or nothing is left; return whether none has failed."""
        try:
            while (chosen := self._next()) is not None:
                part, seconds = chosen
                self._part(part, seconds)
                self._note()
        finally:
            self._note()
            left = self._archive()
        more = f"; {len(left)} files did not fit" if left else ""
        self.say(f"archive: {self.pieces / self.name}-*{archive.SUFFIX}{more}")
        return not self.failed

    def _next(self) -> tuple[Part, float] | None:
        """Return the part that is next, and the seconds that it gets."""
        left = self.clock.left
        if left < LEAST * self.clock.scale:
            return None
        for part in self.parts:
            self.standing[part.name]["done"] = part.done()
        waiting = [part for part in self.parts if not self.standing[part.name]["done"] and part.name not in self.over]
        own = {part.name: self.clock.own(part, self.standing[part.name]["spent"]) for part in waiting}
        for part in waiting:
            seconds = min(own[part.name], left)
            if part.minutes and seconds > LEAST * self.clock.scale and self._fits(part, seconds):
                return part, seconds
        for part in waiting:
            if self._fits(part, left):
                return part, left
        return None

    def _fits(self, part: Part, seconds: float) -> bool:
        """Return whether a part's forecast says that this time leaves something; what is not begun is named."""
        if self.machine is None or (forecast := part.forecast(self.machine)) is None:
            return seconds > START * self.clock.scale
        if forecast.least <= seconds and forecast.memory <= self.machine.memory:
            return True
        self.say(
            f"{part.name} is not begun: by its forecast it needs {forecast.least:.0f} s and "
            f"{forecast.memory / 1e9:.0f} GB, and there are {seconds:.0f} s and {self.machine.memory / 1e9:.0f} GB"
        )
        return False

    def _part(self, part: Part, seconds: float) -> None:
        """Run a part's commands for so many seconds at most."""
        about, began = self.standing[part.name], time.monotonic()
        end = began + seconds
        self.say(f"{part.name}: {part.what}, for {seconds / 60:.1f} min")
        killed = any(one["ended"] == "killed" for one in about["tries"])
        ended = "done"
        for _ in range(2):
            inner = end - time.monotonic() - self.clock.scale * (START + GRACE)  # it starts, and writes at its end
            for command in part.commands(max(0.02, inner / 60)):
                ended = self._command(part, command, end, interrupt=self.interrupt and not killed)
                if ended != "done":
                    break
            if ended != "killed":
                break
            killed = True  # and once more, from where it was
            about["tries"].append({"ended": ended, "seconds": round(time.monotonic() - began, 1)})
        spent = time.monotonic() - began
        about["spent"] = round(about["spent"] + spent, 1)
        about["done"] = part.done()
        if ended == "done" and not about["done"]:
            ended = "ended before it was done"
            self.over.add(part.name)
        if ended.startswith("failed"):
            self.over.add(part.name)
            self.failed.add(part.name)
        about["tries"].append({"ended": ended, "seconds": round(spent, 1)})
        self.say(f"{part.name}: {'done' if about['done'] else ended}, {spent:.0f} s")

    def _command(self, part: Part, command: Sequence[str], end: float, *, interrupt: bool) -> str:
        """Run one process until it ends or its time is up; return how it ended."""
        self.run.path.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **COMPILING, "PYTHONPATH": _path(), "PYTHONUNBUFFERED": "1"}
        before = self._there() if interrupt else {}
        with (self.run / f"{part.name}.log").open("ab") as log:
            log.write(f"$ crosslayer {' '.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                [*self.program, *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
                preexec_fn=_leaves_with_parent,
            )
            try:
                while process.poll() is None:
                    time.sleep(POLL)
                    if interrupt and self._there() != before:
                        _end(process, signal.SIGKILL)
                        return "killed"
                    if time.monotonic() > end:
                        _end(process, signal.SIGTERM)
                        return "time was up"
                    if time.monotonic() - self.archived > ARCHIVED * self.clock.scale:
                        self._archive()
            finally:
                _end(process, signal.SIGKILL)
        if process.returncode in (0, 1):  # 1: a check failed, which is a result
            return "done"
        return f"failed with status {process.returncode}, see {self.run / part.name}.log"

    def _there(self) -> dict[str, int]:
        """Return what lies in the results folder, by size."""
        found = {}
        for path in self.out.rglob("*"):
            with suppress(OSError):
                if path.is_file() and self.run.path not in path.parents and path.suffix != ".part":
                    found[str(path)] = path.stat().st_size
        return found

    def _note(self) -> None:
        self.run.path.mkdir(parents=True, exist_ok=True)
        self.run.write(STANDING, {"parts": self.standing})

    def _archive(self) -> list[str]:
        """Write the archive, and return what did not fit; an error is said and ends nothing."""
        self.archived = time.monotonic()
        try:
            found = archive.changes(self.out, self.base)
            left = archive.write(self.pieces, self.name, found, {"parts": self.standing})
            archive.note_sent(self.run.path, self.base, found)
            return left
        except OSError as error:
            self.say(f"the archive cannot be written: {error}")
            return []


def _leaves_with_parent() -> None:
    """Make this process end when the one that started it does, however that ends, where the system can (Linux)."""
    if PRCTL is not None:
        PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)


def _path() -> str:
    before = os.environ.get("PYTHONPATH")
    return str(ROOT) + (os.pathsep + before if before else "")


def _end(process: subprocess.Popen[bytes], how: int) -> None:
    """End a process and those that it started: asked first, and killed if it does not leave."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
