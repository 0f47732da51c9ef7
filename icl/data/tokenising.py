"""Tokenising of documents into shards of token ids, which resumes where it was killed.

Now and then a folder that is not whole says how far it is.  What was done of the text by then is read again, to see
that it is the same, but not tokenised again.  Tokenizers use all cores, for a batch of documents at a time, and the
bytes do not hang on how many there are.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from icl.data.shards import SPLITS, Request, Shard, Split
from icl.data.sources import Document, characters_about, documents
from icl.data.tokenizers import Tokenizer, TokenizerInfo, load_tokenizer
from icl.files import naming, opened, sealed, write_atomically
from icl.interruptible import interruptible
from theory.errors import BadInput

BATCH_CHARACTERS = 2**20  # what is tokenised at once
STATE = "unfinished.json"  # how far a folder is that is not whole
SECONDS_BETWEEN_STATES = 10.0
LONG = 2.0  # seconds after which progress says that a batch takes long

Progress = Callable[[int, str, float | None], None]


def is_held_out(digest: bytes, share: float) -> bool:
    """Return whether a document is held out, from its text's digest and the share."""
    return int.from_bytes(digest[:8], "big") < share * 2**64


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def dtype_of(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype("<u2" if tokenizer.vocab <= 2**16 else "<u4")


class OtherText(Exception):
    """An error: the source, or what was written from it, has changed since a run was killed."""


def left(part: Path, request: Request) -> dict[str, Any] | None:
    """Return the progress of a killed run with the same request; None if there is none."""
    try:
        state, whole = opened((part / STATE).read_bytes())
    except (OSError, ValueError):
        return None
    return state if whole and state.get("request") == json.loads(json.dumps(asdict(request))) else None


def as_it_was(part: Path, state: dict[str, Any]) -> Tokenizer:
    try:
        return load_tokenizer(part, TokenizerInfo(**state["tokenizer"]))
    except (BadInput, TypeError) as error:
        raise OtherText from error


def written(
    part: Path, request: Request, tokenizer: Tokenizer, state: dict[str, Any] | None, on_progress: Progress
) -> tuple[dict[str, Split], tuple[Shard, ...]]:
    """Return all shards, from the state on if there is one.  Raises OtherText for a state that cannot be resumed."""
    dtype, size = dtype_of(tokenizer), characters_about(request.source)
    with ExitStack() as stack:
        try:
            train, held_out = (
                stack.enter_context(
                    Writer(part, split, dtype, shard_bytes=request.shard_bytes, at=state and state[split])
                )
                for split in SPLITS
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            if state is None:
                raise
            raise OtherText from error
        stream = documents(request.source, request.encoding)
        seen = _Seen() if state is None else _Seen.again(stream, state)
        saved, full = time.monotonic(), False
        for texts in _batches(document.text for document in stream):

            def waiting(seconds: float) -> None:
                if seconds > LONG:
                    count, share = train.documents + held_out.documents, _share(request, size, train, held_out)
                    on_progress(train.tokens, f"{count:,} documents, {seconds:.0f} s for the next", share)

            encoded = interruptible(partial(tokenizer.encode, texts), waiting)
            for text, ids in zip(texts, encoded, strict=True):
                digest = seen.add(text)
                tokens = [*ids, tokenizer.end]
                if is_held_out(digest, request.held_out):
                    held_out.add(text, tokens)
                elif request.max_tokens is None or train.tokens + len(tokens) <= request.max_tokens:
                    train.add(text, tokens)
                else:
                    full = True
                    break
                count = train.documents + held_out.documents
                on_progress(train.tokens, f"{count:,} documents", _share(request, size, train, held_out))
            if full:
                break
            if time.monotonic() - saved >= SECONDS_BETWEEN_STATES:
                _save(part, request, tokenizer, seen=seen, writers=(train, held_out))
                saved = time.monotonic()
    return {writer.split: writer.summary() for writer in (train, held_out)}, (*train.shards, *held_out.shards)


@dataclass
class _Seen:
    """Documents that are done: how many, and a digest of all their texts in order."""

    documents: int = 0
    digest: str = ""

    def add(self, text: str) -> bytes:
        """Add a text and return its digest."""
        own = digest_of(text)
        self.documents += 1
        self.digest = hashlib.sha256(self.digest.encode() + own).hexdigest()
        return own

    @classmethod
    def again(cls, stream: Iterator[Document], state: dict[str, Any]) -> _Seen:
        """Read the processed documents again.  Raises OtherText if they have changed."""
        seen = cls()
        for document in itertools.islice(stream, state["documents"]):
            seen.add(document.text)
        if (seen.documents, seen.digest) != (state["documents"], state["digest"]):
            raise OtherText
        return seen


def _save(part: Path, request: Request, tokenizer: Tokenizer, seen: _Seen, writers: tuple[Writer, ...]) -> None:
    state = {"request": asdict(request), "tokenizer": asdict(tokenizer.info), **asdict(seen)}
    state |= {writer.split: writer.reached() for writer in writers}
    write_atomically(part / STATE, json.dumps(sealed(state)))


def _share(request: Request, size: int | None, *writers: Writer) -> float | None:
    """Return the share of the work that is done, as far as that is known."""
    shares = [0.0] if size is None else [sum(writer.bytes for writer in writers) / max(1, size)]
    if request.max_tokens is not None:
        shares.append(writers[0].tokens / request.max_tokens)
    elif size is None:
        return None
    return min(1.0, max(shares))


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


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
