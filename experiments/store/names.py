"""Names of things that stand in modules, remembered so that nothing is imported to be listed or found.

Which module holds what is learnt by importing all of them, once; it is kept below the user's cache folder until a file
of our packages changes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import cache as once
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from experiments.store.folders import cache
from experiments.store.sources import ROOTS
from icl.files import opened, sealed, write_atomically

T = TypeVar("T")
About = TypeVar("About")


class Lazy(MutableMapping[str, T], Generic[T, About]):
    """A dictionary whose values are made when they are first asked for.

    Args:
        makers: of the values, by name, in the order in which names are listed.
        about: what is known of every value before it is made.
    """

    def __init__(self, makers: Mapping[str, Callable[[], T]], about: Mapping[str, About]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, T] = {}
        self.about = about

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __setitem__(self, name: str, value: T) -> None:
        self._makers[name] = lambda: value
        self._made[name] = value

    def __delitem__(self, name: str) -> None:
        del self._makers[name]
        self._made.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def remembered(what: str, find: Callable[[], Any]) -> Any:
    """Return what `find` returns, or has returned since a file of our packages last changed.

    A file that cannot be read or written is as good as none.

    Args:
        what: is found: the name of a file in the cache folder's `names`.
        find: makes a JSON value, by importing modules.
    """
    path = cache() / "names" / f"{what}.json"
    with suppress(OSError, ValueError):
        content, whole = opened(path.read_bytes())
        if whole and content["files"] == _files():
            return content["names"]
    names = find()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(sealed({"files": _files(), "names": names})) + "\n")
    return names


@once
def _files() -> str:
    """Return a digest of the paths, sizes and times of all files of our packages."""
    digest = hashlib.sha256()
    for root in ROOTS:
        spec = find_spec(root)
        for folder in spec.submodule_search_locations or () if spec else ():
            for place, folders, files in os.walk(folder):
                folders.sort()
                for name in sorted(files):
                    if name.endswith(".py"):
                        status = Path(place, name).stat()
                        digest.update(f"{place}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
