"""Names that are filled in by the papers' rooms, on first use.  Standard library only.

A name of an installed paper that is taken, by ours or by a paper before it, stands for what had it first; the paper's
own is then listed, and can always be named, with the name of the paper's entry point and a dot before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from theory.errors import BadInput
from theory.plans.papers import Room, guarded, installed, leave_out, rooms, warn

Entry = TypeVar("Entry")
Owned = TypeVar("Owned")


def owner(module: str) -> Room | None:
    """Return the installed paper's room in which a module stands, loaded or not; None for one of ours or of nobody."""
    return next((room for room in installed() if room.holds(module)), None)


class Names(Generic[Owned]):
    """Everything of one kind by name, qualified where a name is taken.

    kind     what the names are of, for messages: variant, preset, experiment
    listed   by the names under which they are shown
    every    by these and by all qualified names
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.listed: dict[str, Owned] = {}
        self.every: dict[str, Owned] = {}

    def add(self, name: str, thing: Owned, room: Room | None) -> str:
        """Add a thing and return the name under which it is listed.  `room` is an installed paper's, None for ours.

        Raises BadInput for a name that is taken twice among ours, or twice in one paper.
        """
        if room is None:
            if name in self.every:
                raise BadInput(f"two papers name {'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind} {name!r}")
            self.listed[name] = self.every[name] = thing
            return name
        qualified = f"{room.qualifier}.{name}"
        if qualified in self.every:
            raise BadInput(f"it names two {self.kind}s {name!r}")
        shown = qualified if name in self.every else name
        if shown != name:
            warn(
                f"the {self.kind} {name!r} of the installed paper {room.qualifier} ({room.package}) is called "
                f"{qualified!r}, since another one has its name"
            )
        self.listed[shown] = self.every[shown] = self.every[qualified] = thing
        return shown


class Registry(Mapping[str, Entry]):
    """A mapping from names that papers register, in the order of the papers and of their files.

    kind    what the names are of, for messages: variant, preset
    module  the module of a paper's room that registers them when it is imported
    """

    def __init__(self, kind: str, module: str) -> None:
        self._kind, self._module = kind, module
        self._entries: list[tuple[str, Entry, str]] = []
        self._names: tuple[object, Names[Entry]] = (None, Names(kind))
        self._loaded = self._loading = False

    def register(self, name: str, entry: Entry, module: str) -> None:
        """Register an entry of a module by name.  Raises BadInput for a name that another of ours has."""
        if any(name == other and owner(module) is owner(home) is None for other, _, home in self._entries):
            raise BadInput(f"two papers name a {self._kind} {name!r}")
        self._entries.append((name, entry, module))

    def __getitem__(self, name: str) -> Entry:
        return self._all().every[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all().listed)

    def __len__(self) -> int:
        return len(self._all().listed)

    def _all(self) -> Names[Entry]:
        if not (self._loaded or self._loading):
            self._loading = True  # a room's module may look up what stands before it
            try:
                for room in rooms():
                    guarded(room, lambda room=room: room.module(self._module))  # type: ignore[misc]
                self._loaded = True
            finally:
                self._loading = False
        state = len(self._entries), rooms()
        if self._names[0] != state:
            self._names = state, self._named()
        return self._names[1]

    def _named(self) -> Names[Entry]:
        """Return all names, ours first, so that no installed paper takes one of ours whenever it is imported."""
        places = {room: i for i, room in enumerate(rooms())}
        found: Names[Entry] = Names(self._kind)
        owned = [(name, entry, owner(module)) for name, entry, module in self._entries]
        for name, entry, room in sorted(owned, key=lambda one: -1 if one[2] is None else places.get(one[2], -1)):
            if room is None:
                found.add(name, entry, None)
            elif room in places:
                try:
                    found.add(name, entry, room)
                except BadInput as error:
                    leave_out(room, str(error))
                    return self._named()
        return found
