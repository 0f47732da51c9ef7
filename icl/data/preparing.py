"""Text made into a data set: documents tokenised once, split by what they say, written as shards (`icl.data.shards`).

A folder is written under a temporary name and renamed when it is whole; one that was killed or interrupted is gone on
with (`icl.data.tokenising`).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from icl.data.shards import FORMAT, MANIFEST, SPLITS, Manifest, Request, open_data, read_manifest
from icl.data.sources import UTF8, describe, documents, in_words, left_out
from icl.data.tokenising import STATE, OtherText, Progress, as_it_was, digest_of, dtype_of, is_held_out, left, written
from icl.data.tokenizers import LEAST_VOCAB, Foreign, Tokenizer, check_vocab, from_ranks, saved_tokenizer, train_bpe
from icl.files import write_atomically
from theory.errors import BadInput, at_least

SHARD_BYTES = 64 * 2**20
SAMPLE_BYTES = 8_000_000


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
    on_progress: Progress = lambda done, note, share: None,
) -> Manifest:
    """Tokenise all documents of `source` (see `sources.documents`) into `folder`, each followed by the end.

    The tokenizer is a BPE of `vocab` ids trained on the first `sample_bytes` bytes of the training documents, or that
    of the file `ranks`, or the one that lies in the folder `tokenizer`, beside a model.  A document's own text decides
    whether it is held out, with probability `held_out`, so equal texts are never on both sides.  With `max_tokens`, all
    ends before the training document that would go beyond it.  Files are read in `encoding`.
    on_progress gets the training tokens so far, a few words, and the share of the work that is done, None where the
    size of the source is not known.

    A folder that already answers the same request is left as it is; what a killed run with the same request left behind
    is gone on with, and anything else removed.  Raises BadInput for impossible requests, unreadable sources, sources
    too small to split, and folders of other data.
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
        held_out=held_out,
        max_tokens=max_tokens,
        sample_bytes=None if fixed else sample_bytes,
        shard_bytes=shard_bytes,
        encoding=encoding,
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
                manifest = _write(part, request, fixed, on_progress=on_progress)
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
    """Return the identity of a given tokenizer: its digest, with the end of text where its file does not say it."""
    if fixed is None:
        return None
    return f"{fixed.digest} {fixed.end}" if isinstance(fixed, Foreign) else fixed.digest


def _finished(folder: Path, request: Request) -> Manifest | None:
    """Return the manifest of a folder that answers the request, None if nothing is there.

    Raises BadInput for anything else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not (folder / MANIFEST).is_file() or read_manifest(folder).request != request:
        raise BadInput(f"{folder} already holds other data; choose another --out or delete it")
    return open_data(folder).manifest


@contextmanager
def _claimed(part: Path) -> Iterator[None]:
    """Make the folder, keep other processes out, and remove it if anything fails within; an interrupt leaves it."""
    part.mkdir(parents=True, exist_ok=True)
    handle = os.open(part, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadInput(f"another process is writing {part}") from error
        try:
            yield
        except Exception:
            shutil.rmtree(part, ignore_errors=True)
            raise
        shutil.rmtree(part, ignore_errors=True)  # by now renamed, unless another process had finished
    finally:
        os.close(handle)


def _write(part: Path, request: Request, fixed: Tokenizer | None, on_progress: Progress) -> Manifest:
    with suppress(BadInput):
        if (whole := _finished(part, request)) is not None:  # all but its name
            (part / STATE).unlink(missing_ok=True)
            return whole
    if (state := left(part, request)) is not None:
        with suppress(OtherText):
            return _whole(part, request, as_it_was(part, state), state=state, on_progress=on_progress)
    for file in part.iterdir():
        file.unlink()
    _check_sizes(request)
    tokenizer = fixed or _trained(request, on_progress)
    tokenizer.save(part)
    return _whole(part, request, tokenizer, state=None, on_progress=on_progress)


def _whole(
    part: Path, request: Request, tokenizer: Tokenizer, state: dict[str, Any] | None, on_progress: Progress
) -> Manifest:
    splits, shards = written(part, request, tokenizer, state=state, on_progress=on_progress)
    _check_split(request, {name: split.documents for name, split in splits.items()})
    dtype = dtype_of(tokenizer).str
    manifest = Manifest(
        FORMAT,
        request,
        describe(request.source, request.encoding),
        tokenizer=tokenizer.info,
        dtype=dtype,
        splits=splits,
        shards=shards,
    )
    write_atomically(part / MANIFEST, json.dumps(manifest.to_json(), indent=1) + "\n")
    (part / STATE).unlink(missing_ok=True)
    return manifest


def _check_sizes(request: Request) -> None:
    """Raise BadInput, before anything long is done, if a split has no document: reads until both have one."""
    found = dict.fromkeys(SPLITS, 0)
    for document in documents(request.source, request.encoding):
        found["held_out" if is_held_out(digest_of(document.text), request.held_out) else "train"] += 1
        if all(found.values()):
            return
    _check_split(request, found)


def _check_split(request: Request, found: Mapping[str, int]) -> None:
    """Raise BadInput, with the option that helps, if a split has no document."""
    if all(found.values()):
        return
    if not any(found.values()) and request.max_tokens is None:
        others = in_words(left_out(request.source, request.encoding))
        raise BadInput(f"{request.source} holds no text{others}")
    limit = "" if request.max_tokens is None else f" within {request.max_tokens} training tokens"
    empty, change = ("held_out", "larger") if found["train"] else ("train", "smaller")
    helps = (
        "a larger --max-tokens" if limit and not found["train"] else f"a {change} --held-out than {request.held_out:g}"
    )
    raise BadInput(
        f"{request.source} is too small to split: of its {sum(found.values())} documents{limit} none is for the split "
        f"{empty}; give more text or {helps}"
    )


def _trained(request: Request, on_progress: Progress) -> Tokenizer:
    def waiting(seconds: float) -> None:
        on_progress(0, f"training the tokenizer, {seconds:.0f} s", 0.0)

    on_progress(0, "training the tokenizer", 0.0)
    return train_bpe(_sample(request), request.vocab or LEAST_VOCAB, waiting)


def _sample(request: Request) -> list[str]:
    """Return the training documents from the first on, cut after `sample_bytes` bytes."""
    left, texts = request.sample_bytes or 0, []
    for document in documents(request.source, request.encoding):
        if not is_held_out(digest_of(document.text), request.held_out):
            data = document.text.encode()
            texts.append(data[:left].decode(errors="ignore"))
            left -= len(data)
            if left <= 0:
                break
    return texts
