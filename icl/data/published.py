"""Text as published models read it: by the tokenizer.json beside their weights, or as random tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from icl.data.sources import documents, package
from icl.interruptible import interruptible
from theory.errors import BadInput, check_memory

TOKENIZER = "tokenizer.json"
ENDS = ("generation_config.json", "config.json")  # which tokens end a text
AT_A_TIME = 8  # documents that are tokenised at once


@dataclass(frozen=True)
class Part:
    """A part of a text: from `start` to `stop`, which are tokens (whole numbers) or shares of its characters.

    Attributes:
        start: Where it begins.
        stop: Where it ends; None: where the text does.
    """

    start: int | float = 0
    stop: int | float | None = None

    def __post_init__(self) -> None:
        """Raise BadInput for bounds out of order, of unlike kinds, or no shares."""
        bounds = [bound for bound in (self.start, self.stop) if bound is not None]
        if any(isinstance(bound, float) and not 0 <= bound <= 1 for bound in bounds) or min(bounds) < 0:
            raise BadInput(f"a part of a text is from and to a share from 0 to 1, or tokens from 0, got {self}")
        if self.stop is not None and self.start and isinstance(self.start, float) != isinstance(self.stop, float):
            raise BadInput(f"a part of a text has two shares as its bounds, or two numbers of tokens, got {self}")
        if self.stop is not None and self.stop <= self.start:
            raise BadInput(f"a part of a text ends behind its beginning, got {self}")

    def __str__(self) -> str:
        words = [f"from {self.start:g}"] if self.start else []
        words += [] if self.stop is None else [f"to {self.stop:g}"]
        return " ".join(words)

    @property
    def of_characters(self) -> bool:
        """True if its bounds are shares of characters."""
        return isinstance(self.stop, float) or (isinstance(self.start, float) and bool(self.start))


WHOLE = Part()


class PublishedTokenizer:
    """A tokenizer of the `tokenizers` library.  start: the tokens that it puts in front of every text."""

    def __init__(self, folder: Path, content: bytes | None = None) -> None:
        """Read the tokenizer of a folder.

        Raises BadInput unless the folder holds one that can be read.  content: of its file, where it was read.
        """
        self.path = folder / TOKENIZER
        if content is None and not self.path.is_file():
            raise BadInput(f"{folder} holds no {TOKENIZER}, by which text becomes the model's tokens")
        try:
            content = self.path.read_bytes() if content is None else content
            self._model = package("tokenizers").Tokenizer.from_str(content.decode())
            self._model.no_truncation()
            self._model.no_padding()
            self._model.encode_special_tokens = True  # a text's "<s>" is text
            with_specials, without = (self._model.encode("a", add_special_tokens=s).ids for s in (True, False))
        except BadInput:
            raise
        except Exception as error:  # the library raises nothing narrower
            raise BadInput(f"{self.path} is no tokenizer ({error})") from error
        starts = range(len(with_specials) - len(without) + 1)
        place = next((i for i in starts if with_specials[i : i + len(without)] == without), 0)
        self.start = tuple(with_specials[:place])
        self.vocab: int = max(self._model.get_vocab().values(), default=-1) + 1
        self._marks = {i for i, token in self._model.get_added_tokens_decoder().items() if token.special}
        kind = json.loads(self._model.to_str()).get("decoder") or {}
        self._a_character_a_byte = kind.get("type") == "ByteLevel"

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of each text, with nothing before or after it."""
        encodings = interruptible(lambda: self._model.encode_batch(texts, add_special_tokens=False))
        return [encoding.ids for encoding in encodings]

    def encode_special(self, texts: list[str]) -> list[list[int]]:
        """Return the ids as `encode` does, but names of special tokens, such as <s>, become those tokens."""
        self._model.encode_special_tokens = False
        try:
            return self.encode(texts)
        finally:
            self._model.encode_special_tokens = True

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids; halves of characters become U+FFFD."""
        found: str = self._model.decode([int(i) for i in ids], skip_special_tokens=False)
        return found

    def spelt(self, ids: Sequence[int], before: int) -> int:
        """Return how many bytes of text some ids stand for, after `before`; special tokens stand for none.

        Exact where a character of the vocabulary is a byte; else exact except for halves of characters at either end.
        """
        text = [int(i) for i in ids if i not in self._marks]
        if self._a_character_a_byte:
            return sum(len(self._model.id_to_token(i) or "") for i in text)
        return len(self.decode([before, *text]).encode()) - len(self.decode([before]).encode())


def ends(folder: Path) -> frozenset[int]:
    """Return the tokens that end a text in published models; none where the folder does not say.

    Raises BadInput.
    """
    for name in ENDS:
        try:
            found = json.loads((folder / name).read_bytes()).get("eos_token_id")
        except OSError:
            continue
        except (ValueError, RecursionError, AttributeError) as error:
            raise BadInput(f"{folder / name} is damaged ({type(error).__name__}: {error})") from error
        if found is not None:
            tokens = found if isinstance(found, list) else [found]
            if not all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in tokens):
                raise BadInput(f"{folder / name}: eos_token_id is no token")
            return frozenset(tokens)
    return frozenset()


def sequences(
    tokenizer: PublishedTokenizer,
    source: str,
    length: int,
    count: int,
    vocab: int,
    *,
    part: Part = WHOLE,
    spread: int = 1,
) -> np.ndarray:
    """Return the first `count` sequences of `length` tokens of a source's text, or all: int64 (count, length).

    source  as `icl.data.sources.documents` takes it; its documents follow one another
    vocab   of the model
    part    the part of the text that is read
    spread  of how many times as many sequences, as far as the text holds them, `count` are taken evenly

    Each begins as the tokenizer begins a text, and goes on with the text where the one before it ended: its first token
    of text is the last of the one before, which was predicted there and not read.  No more of the source is read than
    is needed.  Raises BadInput for tokens that the model does not know, and for a length that holds no text.
    """
    start = np.array(tokenizer.start, np.int64)
    step = length - len(start) - 1
    if step < 1:
        raise BadInput(f"{length - 1} tokens hold no text behind the {len(start)} with which every text begins")
    parts: list[np.ndarray] = []
    for ids in _ids(tokenizer, source, part):
        if (largest := max(start.max(initial=0), ids.max(initial=0))) >= vocab:
            raise BadInput(f"{tokenizer.path} makes a token {largest}, and the model knows {vocab}")
        parts.append(ids)
        if sum(map(len, parts)) > spread * count * step:
            break
    text = np.concatenate([*parts, start[:0]])
    there = min(spread * count, max(0, len(text) - 1) // step)
    chosen = [place * there // min(count, there) for place in range(min(count, there))]
    rows = [np.concatenate([start, text[i * step : (i + 1) * step + 1]]) for i in chosen]
    return np.stack(rows) if rows else np.empty((0, length), np.int64)


def random_sequences(length: int, count: int, vocab: int, seed: int = 0) -> np.ndarray:
    """Draw independent tokens, all equally likely: int64 (count, length).

    Raises BadInput for more than memory holds.
    """
    check_memory(f"{count:,} sequences of {length:,} tokens", count * length)
    return np.random.default_rng(seed).integers(vocab, size=(count, length))


def _ids(tokenizer: PublishedTokenizer, source: str, part: Part) -> Iterator[np.ndarray]:
    """Yield the tokens of a part of a source's text, some documents at a time."""
    texts: Iterator[str] = (document.text for document in documents(source))
    if part.of_characters:
        texts = _characters(source, part)
    start, stop = (0, None) if part.of_characters else (int(part.start), part.stop)
    place = 0
    while batch := list(islice(texts, AT_A_TIME)):
        ids = np.array([i for ids in tokenizer.encode(batch) for i in ids], np.int64)
        chosen = ids[max(0, start - place) : None if stop is None else max(0, int(stop) - place)]
        place += len(ids)
        if len(chosen):
            yield chosen
        if stop is not None and place >= stop:
            return


def _characters(source: str, part: Part) -> Iterator[str]:
    """Yield the texts of a source between two shares of all its characters."""
    whole = sum(len(document.text) for document in documents(source))
    start, stop = round(part.start * whole), round((1.0 if part.stop is None else part.stop) * whole)
    place = 0
    for document in documents(source):
        text = document.text[max(0, start - place) : max(0, stop - place)]
        place += len(document.text)
        if text:
            yield text
        if place >= stop:
            return
