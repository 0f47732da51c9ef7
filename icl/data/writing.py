"""The shards of one split while they are written: cut at a size wherever that falls, hashed, and gone on with."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from icl.data.shards import Shard, Split
from icl.files import naming


class Writer:
    """One split's shards, cut at `shard_bytes`, and its counts.

    at: where another one, that was killed, had come to (`reached`).  Raises ValueError or OSError if its files are not
    as they were then.
    """

    def __init__(
        self, folder: Path, split: str, dtype: np.dtype[Any], shard_bytes: int, at: dict[str, Any] | None = None
    ) -> None:
        self.folder, self.split, self.dtype = folder, split, dtype
        self.capacity = shard_bytes // dtype.itemsize
        self.documents = self.tokens = self.characters = self.bytes = 0
        self.shards: list[Shard] = []
        self._file: BinaryIO | None = None
        self._hash, self._held = hashlib.sha256(), 0
        if at is not None:
            self._go_on(at)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def add(self, text: str, ids: list[int]) -> None:
        self.documents += 1
        self.tokens += len(ids)
        self.characters += len(text)
        self.bytes += len(text.encode())
        rest = np.array(ids, self.dtype)
        while len(rest):
            if self._file is None:
                self._file = (self.folder / self._name()).open("wb")
            now, rest = np.split(rest, [self.capacity - self._held])
            data = now.tobytes()
            with naming(self.folder / self._name()):
                self._file.write(data)
            self._hash.update(data)
            self._held += len(now)
            if self._held == self.capacity:
                self._close()

    def summary(self) -> Split:
        return Split(self.documents, self.tokens, self.characters, bytes=self.bytes)

    def reached(self) -> dict[str, Any]:
        """Write all to disk and return the position, from which another writer can resume."""
        if self._file is not None:
            with naming(self.folder / self._name()):
                self._file.flush()
                os.fsync(self._file.fileno())
        return {**asdict(self.summary()), "shards": [asdict(shard) for shard in self.shards], "held": self._held}

    def _go_on(self, at: dict[str, Any]) -> None:
        counts = Split(*(int(at[name]) for name in ("documents", "tokens", "characters", "bytes")))
        self.documents, self.tokens, self.characters, self.bytes = asdict(counts).values()
        self.shards = [Shard(**shard) for shard in at["shards"]]
        self._held = int(at["held"])
        for shard in self.shards:
            if (self.folder / shard.name).stat().st_size != shard.bytes:
                raise ValueError(f"{shard.name} is not as long as it was")
        if not self._held:
            return
        path, size = self.folder / self._name(), self._held * self.dtype.itemsize
        if path.stat().st_size < size:
            raise ValueError(f"{path.name} is shorter than it was")
        os.truncate(path, size)  # what was written after that is written again
        self._hash = hashlib.sha256(path.read_bytes())
        self._file = path.open("ab")

    def _name(self) -> str:
        return f"{self.split}-{len(self.shards):05}.bin"

    def _close(self) -> None:
        if self._file is None:
            return
        with naming(self.folder / self._name()), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        size = self._held * self.dtype.itemsize
        self.shards.append(Shard(self._name(), self.split, self._held, bytes=size, sha256=self._hash.hexdigest()))
        self._file, self._hash, self._held = None, hashlib.sha256(), 0
