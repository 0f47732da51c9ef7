"""Text made into a data set: documents tokenised once, split by what they say, written as shards (`icl.data.shards`).

A folder is written under a temporary name and renamed when it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from icl.data.shards import FORMAT, MANIFEST, SPLITS, Manifest, Request, Shard, Split, open_data, read_manifest
from icl.data.sources import UTF8, describe, documents
from icl.data.tokenizers import LEAST_VOCAB, Foreign, Tokenizer, check_vocab, from_ranks, saved_tokenizer, train_bpe
from icl.files import naming, write_atomically
from theory.errors import BadInput, at_least

SHARD_BYTES = 64 * 2**20
SAMPLE_BYTES = 8_000_000
BATCH_CHARACTERS = 2**20  # what is tokenised at once


def prepare(
    source: str,
    folder: Path,
    *,
    vocab: int = 4096,
    ranks: Path | None = None,
    tokenizer: Path | None = None,
    held_out: float = 0.05,
    max_tokens: int | None = None,
    encoding: str = UTF8,
    sample_bytes: int = SAMPLE_BYTES,
    shard_bytes: int = SHARD_BYTES,
    on_progress: Callable[[int, str], None] = lambda done, note: None,
) -> Manifest:
    """Tokenise all documents of `source` (see `sources.documents`) into `folder`, each followed by the end.

    The tokenizer is a BPE of `vocab` ids trained on the first `sample_bytes` bytes of the training documents, or that
    of the file `ranks`, or the one that lies in the folder `tokenizer`, beside a model.  A document's own text decides
    whether it is held out, with probability `held_out`, so equal texts are never on both sides.  With `max_tokens`, all
    ends before the training document that would go beyond it.  Files are read in `encoding`.
    on_progress gets the training tokens so far and a few words.

    A folder that already answers the same request is left as it is; what a killed run left behind is removed.  Raises
    BadInput for impossible requests, unreadable sources, sources too small to split, and folders of other data.
    """
    check_vocab(vocab)
    at_least("sample_bytes", sample_bytes, 1)
    at_least("shard_bytes", shard_bytes, 4)
    if max_tokens is not None:
        at_least("max_tokens", max_tokens, 1)
    if not 0 < held_out < 1:
        raise BadInput(f"held_out is a share between 0 and 1, got {held_out}")
    fixed = _given(ranks, tokenizer)
    request = Request(
        source,
        None if fixed else vocab,
        _identity(fixed),
        held_out,
        max_tokens,
        None if fixed else sample_bytes,
        shard_bytes,
        encoding,
    )
    folder = Path(os.path.abspath(folder))
    if Path(source).is_dir() and folder.resolve().is_relative_to(Path(source).resolve()):
        raise BadInput(f"{folder} lies in {source}, whose files are the text; choose another --out")
    try:
        finished = _finished(folder, request)
        if finished is not None:
            return finished
        part = folder.with_name(folder.name + ".part")
        with _claimed(part):
            manifest = _finished(folder, request)  # by a process that had the claim until now
            if manifest is None:
                manifest = _write(part, request, fixed, on_progress)
                part.replace(folder)
        return manifest
    except OSError as error:
        raise BadInput(f"cannot write to {folder}: {error.strerror or error}") from error


def _given(ranks: Path | None, folder: Path | None) -> Tokenizer | None:
    if folder is None:
        return from_ranks(ranks) if ranks is not None else None
    if ranks is not None:
        raise BadInput("ranks and a tokenizer: one of them decides how text becomes tokens")
    found = saved_tokenizer(folder)
    if found is None:
        raise BadInput(f"{folder} holds no tokenizer")
    return found


def _identity(fixed: Tokenizer | None) -> str | None:
    """Of a tokenizer that was given; its file does not say how a published one ends a text."""
    if fixed is None:
        return None
    return f"{fixed.digest} {fixed.end}" if isinstance(fixed, Foreign) else fixed.digest


def _is_held_out(text: str, share: float) -> bool:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return number < share * 2**64


def _finished(folder: Path, request: Request) -> Manifest | None:
    """The manifest of a folder that answers the request, None if nothing is there, BadInput for anything else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / MANIFEST).is_file() or read_manifest(folder).request != request:
        raise BadInput(f"{folder} already holds other data; choose another --out or delete it")
    return open_data(folder).manifest


@contextmanager
def _claimed(part: Path) -> Iterator[None]:
    """Make the folder and empty it, keep other processes out, and remove it if anything goes wrong within."""
    part.mkdir(parents=True, exist_ok=True)
    handle = os.open(part, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInput(f"another process is writing {part}") from error
        try:
            for left in part.iterdir():
                left.unlink()
            yield
        finally:
            shutil.rmtree(part, ignore_errors=True)  # by now renamed, unless it was not finished
    finally:
        os.close(handle)


def _write(part: Path, request: Request, fixed: Tokenizer | None, on_progress: Callable[[int, str], None]) -> Manifest:
    _check_sizes(request)
    if fixed is None:
        on_progress(0, "training the tokenizer")
    tokenizer = fixed or train_bpe(_sample(request), request.vocab or LEAST_VOCAB)
    dtype = np.dtype("<u2" if tokenizer.vocab <= 2**16 else "<u4")
    with ExitStack() as stack:
        train, held_out = (stack.enter_context(_Writer(part, split, dtype, request.shard_bytes)) for split in SPLITS)
        for text, ids in _tokenised(request, tokenizer):
            if _is_held_out(text, request.held_out):
                held_out.add(text, ids)
            elif request.max_tokens is None or train.tokens + len(ids) <= request.max_tokens:
                train.add(text, ids)
            else:
                break
            on_progress(train.tokens, f"{train.documents + held_out.documents:,} documents")
    _check_split(request, {writer.split: writer.documents for writer in (train, held_out)})
    tokenizer.save(part)
    manifest = Manifest(
        FORMAT,
        request,
        describe(request.source),
        tokenizer.info,
        dtype.str,
        {writer.split: writer.summary() for writer in (train, held_out)},
        (*train.shards, *held_out.shards),
    )
    write_atomically(part / MANIFEST, json.dumps(manifest.to_json(), indent=1) + "\n")
    return manifest


def _check_sizes(request: Request) -> None:
    """Raise BadInput, before anything long is done, if a split has no document: reads until both have one."""
    found = dict.fromkeys(SPLITS, 0)
    for document in documents(request.source, request.encoding):
        found["held_out" if _is_held_out(document.text, request.held_out) else "train"] += 1
        if all(found.values()):
            return
    _check_split(request, found)


def _check_split(request: Request, found: Mapping[str, int]) -> None:
    """Raise BadInput, with the option that helps, if a split has no document."""
    if all(found.values()):
        return
    if not any(found.values()) and request.max_tokens is None:
        raise BadInput(f"{request.source} holds no text")
    limit = "" if request.max_tokens is None else f" within {request.max_tokens} training tokens"
    empty, change = ("held_out", "larger") if found["train"] else ("train", "smaller")
    helps = (
        "a larger --max-tokens" if limit and not found["train"] else f"a {change} --held-out than {request.held_out:g}"
    )
    raise BadInput(
        f"{request.source} is too small to split: of its {sum(found.values())} documents{limit} none is for the split "
        f"{empty}; give more text or {helps}"
    )


def _sample(request: Request) -> list[str]:
    """The training documents from the first on, cut after `sample_bytes` bytes."""
    left, texts = request.sample_bytes or 0, []
    for document in documents(request.source, request.encoding):
        if not _is_held_out(document.text, request.held_out):
            data = document.text.encode()
            texts.append(data[:left].decode(errors="ignore"))
            left -= len(data)
            if left <= 0:
                break
    return texts


def _tokenised(request: Request, tokenizer: Tokenizer) -> Iterator[tuple[str, list[int]]]:
    """Every document and its ids, the end included."""
    for texts in _batches(document.text for document in documents(request.source, request.encoding)):
        for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
            yield text, [*ids, tokenizer.end]


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


class _Writer:
    """One split's shards, cut at `shard_bytes` wherever that falls, and its counts."""

    def __init__(self, folder: Path, split: str, dtype: np.dtype[Any], shard_bytes: int) -> None:
        self.folder, self.split, self.dtype = folder, split, dtype
        self.capacity = shard_bytes // dtype.itemsize
        self.documents = self.tokens = self.characters = self.bytes = 0
        self.shards: list[Shard] = []
        self._file: BinaryIO | None = None
        self._hash, self._held = hashlib.sha256(), 0

    def __enter__(self) -> _Writer:
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
        return Split(self.documents, self.tokens, self.characters, self.bytes)

    def _name(self) -> str:
        return f"{self.split}-{len(self.shards):05}.bin"

    def _close(self) -> None:
        if self._file is None:
            return
        with naming(self.folder / self._name()):
            self._file.close()
        size = self._held * self.dtype.itemsize
        self.shards.append(Shard(self._name(), self.split, self._held, size, self._hash.hexdigest()))
        self._file, self._hash, self._held = None, hashlib.sha256(), 0
