"""Data sets as folders of token shards: checked by digest, read through memory maps (made in `icl.data.preparing`).

A folder holds manifest.json, the tokenizer's file, and little-endian shards train-00000.bin, held_out-00000.bin, ...
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from icl.data.sources import UTF8
from icl.data.tokenizers import Tokenizer, TokenizerInfo, load_tokenizer
from theory.errors import BadInput, at_least

FORMAT = 1
SPLITS = ("train", "held_out")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Request:
    """A request for a data set.

    `ranks` is the digest of a given tokenizer, and its end where its file does not say so; then `vocab` and
    `sample_bytes` play no part and are None.
    """

    source: str
    vocab: int | None
    ranks: str | None
    held_out: float
    max_tokens: int | None
    sample_bytes: int | None
    shard_bytes: int
    encoding: str = UTF8


@dataclass(frozen=True)
class Shard:
    """One file of tokens; sizes in tokens and in bytes."""

    name: str
    split: str
    tokens: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Split:
    """The counts of a split: characters and UTF-8 bytes of its texts; tokens include one end per document."""

    documents: int
    tokens: int
    characters: int
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """The description of a data set and of its origin.

    A trained tokenizer has seen the first `request.sample_bytes` bytes of the training documents, and nothing else.
    """

    format: int
    request: Request
    about: str
    tokenizer: TokenizerInfo
    dtype: str
    splits: dict[str, Split]
    shards: tuple[Shard, ...]

    @property
    def digest(self) -> str:
        """The name of the data themselves, wherever they lie: sha256 over the digests of tokenizer and shards."""
        parts = [self.tokenizer.digest, *(shard.sha256 for shard in self.shards)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The source, tokenizer and digest in short, such as stdlib-bpe-4096-0f3a91c2."""
        source = self.request.source
        hub = source.startswith("hf:")
        short = source[3:].replace("/", "-").replace(":", "-") if hub else Path(source).name
        return f"{short or 'text'}-{self.tokenizer.name}-{self.digest[:8]}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with the name, the digest and a checksum of everything else."""
        content = {**json.loads(json.dumps(asdict(self))), "name": self.name, "digest": self.digest}
        if self.request.encoding == UTF8:  # manifests were written before there was another
            del content["request"]["encoding"]
        return content | {"checksum": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}

    @staticmethod
    def from_json(content: dict[str, Any]) -> Manifest:
        """Return the manifest in content that `to_json` made.

        Raises KeyError, TypeError, AttributeError or ValueError for anything else.
        """
        manifest = Manifest(
            content["format"],
            Request(**content["request"]),
            content["about"],
            tokenizer=TokenizerInfo(**content["tokenizer"]),
            dtype=content["dtype"],
            splits={name: Split(**content["splits"][name]) for name in SPLITS},
            shards=tuple(Shard(**shard) for shard in content["shards"]),
        )
        if manifest.to_json() != content:
            raise ValueError("the name, the digest or the checksum is not that of the content")
        return manifest


def open_data(folder: Path, rank: int = 0, count: int = 1) -> TokenData:
    """Return the data set in `folder`, with every byte checked.

    Where `count` processes open it together, all of them check it, this one every `count`-th shard from `rank` on.
    Raises BadInput for one that is not whole.
    """
    manifest = read_manifest(folder)
    for shard in manifest.shards[rank::count]:
        if not _intact(folder / shard.name, shard):
            raise BadInput(
                f"the shard {folder / shard.name} is damaged or incomplete; delete the folder and prepare it again"
            )
    load_tokenizer(folder, manifest.tokenizer)
    return TokenData(folder, manifest)


@dataclass(frozen=True)
class TokenData:
    """A prepared data set, as `open_data` has checked it."""

    folder: Path
    manifest: Manifest

    def tokens(self, split: str) -> Tokens:
        """Return all tokens of the split "train" or "held_out", documents one after another."""
        if split not in SPLITS:
            raise BadInput(f"the splits are {' and '.join(SPLITS)}, got {split!r}")
        shards = [shard for shard in self.manifest.shards if shard.split == split]
        return Tokens([np.memmap(self.folder / s.name, self.manifest.dtype, "r", shape=(s.tokens,)) for s in shards])

    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.folder, self.manifest.tokenizer)


class Tokens:
    """Arrays of one dimension read as one: `len(tokens)`, and `tokens[a:b]` as a new array of their dtype."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self._arrays = [np.asarray(array) for array in arrays]
        self._starts = [0, *np.cumsum([len(array) for array in arrays]).tolist()]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, span: slice) -> np.ndarray:
        start, stop, step = span.indices(len(self))
        if step != 1:
            raise ValueError("tokens are read in steps of one")
        first = bisect_right(self._starts, start) - 1
        pieces = [self._arrays[0][:0]]
        for begin, array in zip(self._starts[first:], self._arrays[first:], strict=False):
            if begin >= stop:
                break
            pieces.append(array[max(start - begin, 0) : stop - begin])
        return np.concatenate(pieces)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a data set, without looking at its shards.  Raises BadInput."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{folder} holds no prepared data: cannot read its {MANIFEST}") from error
    except ValueError as error:
        raise BadInput(f"{path} is damaged; delete the folder and prepare it again") from error
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise BadInput(f"{path} is of format {version}, and this version reads {FORMAT}; prepare the data again")
    try:
        return Manifest.from_json(content)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"{path} is damaged; delete the folder and prepare it again") from error


def _intact(path: Path, shard: Shard) -> bool:
    if not path.is_file() or path.stat().st_size != shard.bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == shard.sha256


EVERY = slice(None)


class TokenArray(Protocol):
    """Tokens from which windows are cut: `shards.Tokens`, or a numpy array of one dimension."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> np.ndarray: ...


class Windows:
    """Windows of context + 1 tokens, from the first token on; the last token of one is the first of the next.

    So every token but the first is predicted once an epoch, save up to context - 1 at the end.  Every epoch visits all
    windows, in an order of its own.  Raises BadInput for fewer than context + 1 tokens.
    """

    def __init__(self, tokens: TokenArray, context: int, seed: int) -> None:
        at_least("context", context, 1)
        at_least("seed", seed, 0)
        if len(tokens) <= context:
            raise BadInput(f"a window of context {context} needs {context + 1} tokens; there are only {len(tokens)}")
        self.tokens, self.context, self.seed = tokens, context, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    @property
    def count(self) -> int:
        return (len(self.tokens) - 1) // self.context

    @property
    def tokens_an_epoch(self) -> int:
        """The number of tokens that an epoch predicts."""
        return self.count * self.context

    def epochs(self, steps: int, size: int) -> float:
        """Return how often `steps` batches of `size` windows go through all of them."""
        return steps * size / self.count

    def batch(self, step: int, size: int, rows: slice = EVERY) -> np.ndarray:
        """Return the windows of one step (from 0), int64 (size, context + 1), whatever was requested before.

        rows: the windows of the batch that are read.
        """
        at_least("step", step, 0)
        at_least("size", size, 1)
        places = (divmod(number, self.count) for number in range(step * size, (step + 1) * size)[rows])
        return np.stack([self._window(int(self._permuted(epoch)[place])) for epoch, place in places])

    def in_order(self, limit: int | None = None) -> np.ndarray:
        """Return the first windows, `limit` of them or all, unshuffled: int64 (windows, context + 1)."""
        if limit is not None:
            at_least("limit", limit, 1)
        count = self.count if limit is None else min(limit, self.count)
        return np.stack([self._window(index) for index in range(count)])

    def _window(self, index: int) -> np.ndarray:
        start = index * self.context
        return self.tokens[start : start + self.context + 1].astype(np.int64)

    def _permuted(self, epoch: int) -> np.ndarray:
        """Return the order of an epoch: (count,).

        The latest is kept, as steps mostly need one epoch after another.
        """
        if epoch != self._epoch:
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, epoch])))
            self._epoch, self._order = epoch, generator.permutation(self.count)
        return self._order
