"""Papers, and where each one's room is: found by looking, never listed.  Standard library only.

A paper has a room in `theory`, a package that holds `paper.py` with PAPER, and where it has some `variants.py` and
`presets.py`, besides its mathematics.  A paper in somebody else's installed package is an entry point of the group
`crosslayer.papers` whose value names a package that is laid out the same:

    [project.entry-points."crosslayer.papers"]
    fifth = "fifth_paper"

An installed paper never breaks anything else: one that cannot be loaded is left out, and one line on standard error
names it.  Its variants, presets and experiments can always be named with that of its entry point and a dot in front,
and without as long as nothing of ours or of an earlier paper is called so.
"""

from __future__ import annotations

import multiprocessing
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

from theory.errors import BadInput, field_problems

GROUP = "crosslayer.papers"
THEORY = Path(__file__).resolve().parents[1]
QUALIFIER = re.compile(r"[A-Za-z0-9_-]+")
T = TypeVar("T")


@dataclass(frozen=True)
class Paper:
    """A paper, with the words by which tables, pages and figures name it.

    name        as it stands in tables, such as SkipV1Former
    title       of the paper
    year        of its first version; papers are listed by it
    reference   where to find it: an address; empty for a room of many sources, whose variants name theirs
    colour      that its figures use, as #rrggbb
    further     whether it is none of the papers that the project is about, which the README lists
    """

    name: str
    title: str
    year: int
    reference: str
    colour: str
    further: bool = False

    @property
    def ours(self) -> str:
        """The owner of claims that go beyond the paper."""
        return f"this project, on the setting of {self.name}"


@dataclass(frozen=True)
class Room:
    """A paper's package, and whether it is installed from outside this project.

    qualifier   what the names of a foreign one can always be preceded by: that of its entry point
    """

    package: str
    foreign: bool
    qualifier: str = ""

    @property
    def name(self) -> str:
        """The last part of the package's name: skipv1 for theory.skipv1."""
        return self.package.rpartition(".")[2]

    def module(self, name: str) -> ModuleType | None:
        """Return the room's module of that name, or None if it has none."""
        full = f"{self.package}.{name}"
        return import_module(full) if find_spec(full) else None

    @property
    def paper(self) -> Paper:
        module = self.module("paper")
        paper = getattr(module, "PAPER", None)
        if not isinstance(paper, Paper):
            raise BadInput(f"{self.package}.paper must hold PAPER, a `theory.plans.papers.Paper`")
        for problem in field_problems(paper):
            raise BadInput(f"{self.package}.paper: PAPER's {problem}")
        return paper

    def holds(self, module: str) -> bool:
        """Return whether a module stands in this room."""
        return f"{module}.".startswith(f"{self.package}.")


_left_out: set[Room] = set()


def rooms() -> tuple[Room, ...]:
    """Return every paper's room in `theory`, then those of installed packages, each by year and name of the paper.

    Installed papers that cannot be loaded are left out.
    """
    return tuple(room for room in (*_ours(), *_theirs()) if room not in _left_out)


@cache
def _ours() -> tuple[Room, ...]:
    names = (f"theory.{module.name}" for module in iter_modules([str(THEORY)]) if module.ispkg)
    return _in_order(Room(name, foreign=False) for name in names if find_spec(f"{name}.paper"))


@cache
def _theirs() -> tuple[Room, ...]:
    loaded: list[Room] = []
    for room in installed():
        others = [other for other in loaded if other.qualifier == room.qualifier]
        if guarded(room, lambda room=room, others=others: _checked(room, others)):  # type: ignore[misc]
            loaded.append(room)
    return _in_order(loaded)


@cache
def installed() -> tuple[Room, ...]:
    """Return the rooms that installed packages name, loaded or not, each once."""
    points = sorted({(point.name, point.value) for point in entry_points(group=GROUP)})
    return tuple(Room(package, foreign=True, qualifier=name) for name, package in points)


def _checked(room: Room, others: Sequence[Room]) -> bool:
    """Return True.  Raises an error if anything is wrong with the room."""
    if not QUALIFIER.fullmatch(room.qualifier):
        raise BadInput("the name of its entry point must be made of letters, digits, - and _")
    if others:
        raise BadInput(f"the paper in {others[0].package} is called {room.qualifier}, too")
    return isinstance(room.paper, Paper)


def _in_order(found: Iterable[Room]) -> tuple[Room, ...]:
    return tuple(sorted(found, key=lambda room: (room.paper.year, room.paper.name)))


def guarded(room: Room, work: Callable[[], T]) -> T | None:
    """Return the result of `work`.

    What an installed paper raises leaves it out, with a warning, and returns None; what one of ours raises is raised.
    """
    if not room.foreign:
        return work()
    try:
        return work()
    except (Exception, SystemExit) as error:
        ours = type(error).__module__.partition(".")[0] in ("theory", "icl", "experiments")
        leave_out(room, str(error) if ours else f"{type(error).__name__}: {error}")
        return None


def leave_out(room: Room, what: str) -> None:
    """Leave an installed paper out from now on, and say why."""
    if room not in _left_out:
        _left_out.add(room)
        warn(f"the installed paper {room.qualifier} ({room.package}) is left out: {what}")


@cache
def warn(message: str) -> None:
    """Print one line on standard error, once; nothing in the worker processes of a command that has printed it."""
    if multiprocessing.parent_process() is None:
        print(f"crosslayer: warning: {' '.join(message.split())}", file=sys.stderr)


def papers() -> tuple[Paper, ...]:
    return tuple(room.paper for room in rooms())
