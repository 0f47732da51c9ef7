"""Names that are filled in by the papers' rooms, on first use.  Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from theory.errors import BadInput
from theory.plans.papers import rooms

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry]):
    """A mapping from names that papers register, in the order of the papers and of their files.

    kind    what the names are of, for messages: variant, preset
    module  the module of a paper's room that registers them when it is imported
    """

    def __init__(self, kind: str, module: str) -> None:
        self._kind, self._module = kind, module
        self._entries: dict[str, Entry] = {}
        self._loaded = self._loading = False

    def register(self, name: str, entry: Entry) -> None:
        """Raises BadInput for a name that is taken."""
        if name in self._entries:
            raise BadInput(f"two papers name a {self._kind} {name!r}")
        self._entries[name] = entry

    def __getitem__(self, name: str) -> Entry:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Entry]:
        if not (self._loaded or self._loading):
            self._loading = True  # a room's module may look up what stands before it
            try:
                for room in rooms():
                    room.module(self._module)
                self._loaded = True
            finally:
                self._loading = False
        return self._entries
