"""Tokenizers: a byte-level BPE trained on the data, GPT-2's from its ranks, or that of a published model.

The first two take every string there is and give it back unchanged.  None finds the end of a document in a text: a text
that spells `<|end|>` is plain characters.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from icl.data.published import ENDS, PublishedTokenizer, ends
from icl.data.sources import package
from icl.files import write_atomically
from icl.interruptible import interruptible
from theory.errors import BadInput, at_least

END = "<|end|>"
LEAST_VOCAB = 257  # the bytes and the end
LONGEST_WORD = 256  # characters that merges are learned from at once: beyond, training costs more than linearly
LONG_TEXT = 2**18  # characters, which may take half a second of compiled code
RUN = re.compile(rf" ?\S{{{LONGEST_WORD},}}|\s{{{LONGEST_WORD},}}")  # which may hold a longer word
LARGEST_VOCAB = 2**20  # several times that of any model's tokenizer; training one sets memory aside for all of it

# Where GPT-2 cuts text before merging, part of what its ranks mean.  Possessive: long runs need no backtracking.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
GPT2_RANKS = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"  # sha256 of the published file


@dataclass(frozen=True)
class TokenizerInfo:
    """A tokenizer's description in a manifest: `vocab` ids from 0, of which `end` is one; the file's sha256
    `digest`."""

    kind: str
    name: str
    vocab: int
    end: int
    digest: str


class Tokenizer(ABC):
    """A map from text to ids and back.  `content` is the file that defines it."""

    kind: ClassVar[str]
    file: ClassVar[str]

    def __init__(self, content: bytes, name: str, vocab: int, end: int) -> None:
        self.content = content
        self.info = TokenizerInfo(self.kind, name, vocab, end=end, digest=hashlib.sha256(content).hexdigest())

    @property
    def name(self) -> str:
        """The name, such as bpe-4096 or gpt2."""
        return self.info.name

    @property
    def vocab(self) -> int:
        """The number of ids, the end among them."""
        return self.info.vocab

    @property
    def end(self) -> int:
        """The id after every document, which no text becomes."""
        return self.info.end

    @property
    def digest(self) -> str:
        """The sha256 of what defines the tokenizer, in hexadecimal digits."""
        return self.info.digest

    @abstractmethod
    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of each text, without an end.  Texts hold no surrogates."""

    @abstractmethod
    def encode_special(self, texts: list[str]) -> list[list[int]]:
        """Return the ids as `encode` does, but names of special tokens, such as the end's, become those tokens."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids below `vocab`.

        Halves of characters become U+FFFD, and the end a name like <|end|>.
        """

    @abstractmethod
    def spelt(self, ids: Sequence[int], before: int) -> int:
        """Return how many bytes of text some ids stand for, after `before`; the end stands for none."""

    def save(self, folder: Path) -> None:
        write_atomically(folder / self.file, self.content)


class BytePairs(Tokenizer):
    """A byte-level BPE of the `tokenizers` library, from its own JSON."""

    kind, file = "bpe", "tokenizer.json"

    def __init__(self, content: bytes) -> None:
        self._model = package("tokenizers").Tokenizer.from_str(content.decode())
        self._model.encode_special_tokens = True  # a text's "<|end|>" is text; the JSON does not hold this
        vocab = self._model.get_vocab_size()
        super().__init__(content, f"bpe-{vocab}", vocab, self._model.token_to_id(END))

    def encode(self, texts: list[str]) -> list[list[int]]:
        encodings = interruptible(lambda: self._model.encode_batch_fast(texts, add_special_tokens=False))
        return [encoding.ids for encoding in encodings]

    def encode_special(self, texts: list[str]) -> list[list[int]]:
        self._model.encode_special_tokens = False
        try:
            return self.encode(texts)
        finally:
            self._model.encode_special_tokens = True

    def decode(self, ids: Sequence[int]) -> str:
        return self._model.decode([int(i) for i in ids], skip_special_tokens=False)

    def spelt(self, ids: Sequence[int], before: int) -> int:  # noqa: ARG002
        return sum(len(self._model.id_to_token(int(i)) or "") for i in ids if i != self.end)  # a character a byte


class Ranks(Tokenizer):
    """GPT-2's tokenizer, or one with fewer merges, from lines `base64 of a token's bytes, its rank`."""

    kind, file = "ranks", "ranks.tiktoken"

    def __init__(self, content: bytes) -> None:
        ranks = _parsed(content)
        name = "gpt2" if hashlib.sha256(content).hexdigest() == GPT2_RANKS else f"ranks-{len(ranks) + 1}"
        self._encoding = package("tiktoken").Encoding(
            name, pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": len(ranks)}
        )
        super().__init__(content, name, len(ranks) + 1, len(ranks))

    def encode(self, texts: list[str]) -> list[list[int]]:
        if max(map(len, texts), default=0) <= LONG_TEXT:
            return self._encoding.encode_ordinary_batch(texts, num_threads=os.cpu_count() or 1)
        # The library's pool of threads keeps a process from ending, and a long text takes one of them anyway.
        return interruptible(lambda: [self._encoding.encode_ordinary(text) for text in texts])

    def encode_special(self, texts: list[str]) -> list[list[int]]:
        return [self._encoding.encode(text, allowed_special="all") for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return self._encoding.decode([int(i) for i in ids])

    def spelt(self, ids: Sequence[int], before: int) -> int:  # noqa: ARG002
        return sum(len(self._encoding.decode_single_token_bytes(int(i))) for i in ids if int(i) < self.end)


class Foreign(Tokenizer):
    """The tokenizer of a published model, from the JSON of the `tokenizers` library.

    start: the tokens that it puts in front of every text.
    """

    kind, file = "published", "tokenizer.json"

    def __init__(self, content: bytes, end: int, folder: Path) -> None:
        self._published = PublishedTokenizer(folder, content)
        self.start, vocab = self._published.start, self._published.vocab
        if end >= vocab:
            raise BadInput(f"{folder}: token {end} ends a text, and the tokenizer has {vocab}")
        super().__init__(content, f"published-{vocab}", vocab, end)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of each text, with the tokens in front of it."""
        return [[*self.start, *ids] for ids in self._published.encode(texts)]

    def encode_special(self, texts: list[str]) -> list[list[int]]:
        found = self._published.encode_special(texts)
        return [ids if tuple(ids[: len(self.start)]) == self.start else [*self.start, *ids] for ids in found]

    def decode(self, ids: Sequence[int]) -> str:
        return self._published.decode(ids)

    def spelt(self, ids: Sequence[int], before: int) -> int:
        return self._published.spelt(ids, before)

    def save(self, folder: Path) -> None:
        """Save the file, with the token that ends a text unless the folder says so."""
        super().save(folder)
        if ends(folder) != {self.end}:
            write_atomically(folder / ENDS[0], json.dumps({"eos_token_id": self.end}))


def train_bpe(texts: Iterable[str], vocab: int, on_wait: Callable[[float], None] = lambda _: None) -> Tokenizer:
    """Train a byte-level BPE of at most `vocab` ids: the 256 bytes, the end, and merges of pairs that occur twice.

    Equal texts in equal order give an equal tokenizer.  No merge is learned across the places at which words of more
    than LONGEST_WORD characters are cut.

    Args:
        texts: The training texts.
        vocab: The largest number of ids.
        on_wait: Called a few times per second with the seconds since the start.

    Raises:
        BadInput: as `check_vocab`.
    """
    check_vocab(vocab)
    library = package("tokenizers")
    model = library.Tokenizer(library.models.BPE())
    words = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.pre_tokenizer = words
    model.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab,
        min_frequency=2,
        special_tokens=[END],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces = [piece for text in texts for piece in _short_words(text, words)]  # no Python code while it trains
    interruptible(lambda: model.train_from_iterator(pieces, trainer), on_wait)
    return BytePairs(model.to_str().encode())


def _short_words(text: str, pre_tokenizer: Any) -> Iterator[str]:
    """Yield the text, cut within words that are longer than LONGEST_WORD and nowhere else."""
    begin = 0
    for run in RUN.finditer(text):
        for _, (first, last) in pre_tokenizer.pre_tokenize_str(run[0]):
            for cut in range(run.start() + first + LONGEST_WORD, run.start() + last, LONGEST_WORD):
                yield text[begin:cut]
                begin = cut
    yield text[begin:]


def check_vocab(vocab: int) -> None:
    """Raise BadInput unless a tokenizer of `vocab` ids can be trained."""
    at_least("vocab", vocab, LEAST_VOCAB)
    if vocab > LARGEST_VOCAB:
        raise BadInput(f"vocab must be a whole number from {LEAST_VOCAB} to {LARGEST_VOCAB}, got {vocab}")


def from_ranks(path: Path) -> Tokenizer:
    """Return the tokenizer of a file of ranks, such as r50k_base.tiktoken for GPT-2.

    Raises BadInput for a damaged one.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the ranks in {path}: {error.strerror}") from error
    try:
        return Ranks(content)
    except _BadRanks as error:
        raise BadInput(f"{path} holds no whole set of ranks: {error}") from error


def load_tokenizer(folder: Path, info: TokenizerInfo) -> Tokenizer:
    """Return the tokenizer that was saved in `folder`.

    Raises BadInput if it is not the one that `info` describes.
    """
    files = {kind.kind: kind.file for kind in (BytePairs, Ranks, Foreign)}
    if info.kind not in files:
        raise BadInput(f"{folder} holds a tokenizer of an unknown kind, {info.kind!r}")
    path = folder / files[info.kind]
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != info.digest:
        raise BadInput(f"the tokenizer {path} is damaged or incomplete; delete the folder and prepare it again")
    tokenizer = _made(info, content, folder)
    if tokenizer.info != info:
        raise BadInput(
            f"the tokenizer {path} is not the one that the manifest describes; delete the folder and prepare it again"
        )
    return tokenizer


def _made(info: TokenizerInfo, content: bytes, folder: Path) -> Tokenizer:
    if info.kind == Foreign.kind:
        return Foreign(content, info.end, folder)
    return Ranks(content) if info.kind == Ranks.kind else BytePairs(content)


def saved_tokenizer(folder: Path) -> Tokenizer | None:
    """Return the tokenizer whose file lies in a folder, whatever else does; None if there is none.

    Raises BadInput for a file that is no tokenizer, and for a published one if nothing says how it ends a text.
    """
    if (folder / Ranks.file).is_file():
        return from_ranks(folder / Ranks.file)
    path = folder / BytePairs.file
    if not path.is_file():
        return None
    content = path.read_bytes()
    try:
        found = BytePairs(content)
    except Exception as error:  # the library raises nothing narrower
        raise BadInput(f"{path} is no tokenizer ({error})") from error
    known = ends(folder)
    if found.end is not None and known <= {found.end}:  # else what others call END is one token of many
        return found
    if not known:
        raise BadInput(f"{folder} does not say which token ends a text: generation_config.json has no eos_token_id")
    return Foreign(content, min(known), folder)


class _BadRanks(ValueError):
    pass


def _parsed(content: bytes) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise _BadRanks(f"line {number} is not a token and its rank") from error
    if sorted(ranks.values()) != list(range(content.count(b"\n") + (not content.endswith(b"\n")))):
        raise _BadRanks("its tokens or its ranks are not all different, or ranks are left out")
    if any(bytes([byte]) not in ranks for byte in range(256)):
        raise _BadRanks("not every single byte has a rank")
    return ranks
