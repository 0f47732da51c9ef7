"""Papers, and where each one's room is: found by looking, never listed.  Standard library only.

A paper has a room in `theory`, a package that holds `paper.py` with PAPER, and where it has some `variants.py` and
`presets.py`, besides its mathematics.  A paper in somebody else's installed package is an entry point of the group
`crosslayer.papers` whose value names a package that is laid out the same:

    [project.entry-points."crosslayer.papers"]
    fifth = "fifth_paper"
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from theory.errors import BadInput

GROUP = "crosslayer.papers"
THEORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Paper:
    """What a paper is called wherever it is named.

    name        as it stands in tables, such as SkipV1Former
    title       of the paper
    year        of its first version; papers are listed by it
    reference   where to find it: an address
    colour      that its figures use, as #rrggbb
    """

    name: str
    title: str
    year: int
    reference: str
    colour: str

    @property
    def ours(self) -> str:
        """Whose a claim is that goes beyond the paper."""
        return f"this project, on the setting of {self.name}"


@dataclass(frozen=True)
class Room:
    """A paper's package, and whether it is installed from outside this project."""

    package: str
    foreign: bool

    @property
    def name(self) -> str:
        """skipv1 of theory.skipv1."""
        return self.package.rpartition(".")[2]

    def module(self, name: str) -> ModuleType | None:
        """The room's module of that name, or None if it has none.  Raises BadInput if it cannot be loaded."""
        full = f"{self.package}.{name}"
        try:
            return import_module(full) if find_spec(full) else None
        except Exception as error:
            if not self.foreign:
                raise
            raise BadInput(f"the paper in {self.package} cannot be loaded: {type(error).__name__}: {error}") from error

    @property
    def paper(self) -> Paper:
        module = self.module("paper")
        paper = getattr(module, "PAPER", None)
        if not isinstance(paper, Paper):
            raise BadInput(f"{self.package}.paper must hold PAPER, a `theory.plans.papers.Paper`")
        return paper


@cache
def rooms() -> tuple[Room, ...]:
    """Every paper's room in `theory`, then those of installed packages, each by year and name of the paper."""
    names = (f"theory.{module.name}" for module in iter_modules([str(THEORY)]) if module.ispkg)
    here = [Room(name, foreign=False) for name in names if find_spec(f"{name}.paper")]
    there = [Room(point.value, foreign=True) for point in entry_points(group=GROUP)]
    return tuple(sorted([*here, *there], key=lambda room: (room.foreign, room.paper.year, room.paper.name)))


def papers() -> tuple[Paper, ...]:
    return tuple(room.paper for room in rooms())
