"""Text from the model in a folder, by the tokenizer that belongs to it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from experiments.store.folders import UserError
from experiments.training import memory
from experiments.training.arms import TextSource
from experiments.training.device import chosen_device
from experiments.training.model_folders import ModelFolder, check_reads_text, one_model
from theory.plans.architecture import Tokens
from theory.plans.rooms import cache_bytes

if TYPE_CHECKING:
    from icl.models.sampling import Sampling

HALF = "\ufffd"  # what a part of a character becomes


class Speaks(Protocol):
    def encode(self, texts: list[str]) -> list[list[int]]: ...

    def encode_special(self, texts: list[str]) -> list[list[int]]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def spelt(self, ids: Sequence[int], before: int) -> int: ...

    @property
    def vocab(self) -> int: ...


@dataclass(frozen=True)
class Language:
    """A model's tokenizer.  start: tokens in front of every text, or of one that is empty; ends: those that end one."""

    tokenizer: Speaks
    start: tuple[int, ...]
    of_all: bool
    ends: frozenset[int]

    def after(self, ids: Sequence[int], tokens: Sequence[int]) -> str:
        """Return the text of tokens that follow ids: some tokenizers leave out a space where a text begins."""
        whole, before = self.tokenizer.decode([*ids, *tokens]), self.tokenizer.decode(ids)
        return whole[len(before) :] if whole.startswith(before) else self.tokenizer.decode(tokens)

    def encode(self, text: str, *, special_tokens: bool = False) -> list[int]:
        """Return the ids of a text that is to be gone on with.

        Args:
            text: What stands there already.
            special_tokens: Whether names of special tokens become those tokens; a text that begins with those that are
                in front of every text does not get them again.
        """
        encode = self.tokenizer.encode_special if special_tokens else self.tokenizer.encode
        (ids,) = encode([text])
        begun = special_tokens and tuple(ids[: len(self.start)]) == self.start
        return [*self.start, *ids] if (self.of_all and not begun) or not ids else ids


@dataclass
class Written:
    """The text that has followed a prompt, which was read as these ids.

    ended: why it ended (a token that ends texts, a stop text, the requested length, the context); empty while it goes
    on.
    """

    prompt: str
    ids: Sequence[int]
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    ended: str = ""


@dataclass
class Speed:
    """Tokens of the prompts, and seconds until the first was drawn; steps after it, their seconds, and their tokens."""

    read: int = 0
    reading: float = 0.0
    steps: int = 0
    stepping: float = 0.0
    drawn: int = 0


@dataclass(frozen=True)
class Writer:
    """The texts under way, of all prompts, and how fast they grow."""

    written: Sequence[Written]
    speed: Speed
    steps: Iterator[None]  # of one token each; text may be short of what a token holds until more of it is there


def write(
    folder: Path | str,
    prompts: Sequence[str],
    *,
    tokens: int,
    sampling: Sampling | None = None,
    seed: int = 0,
    stop: Sequence[str] = (),
    special_tokens: bool = False,
    variant: str | None = None,
    data: str | None = None,
    device: str = "auto",
) -> Writer:
    """Write text that follows each prompt, by the model of a finished training or of published weights.

    stop     texts that end what is written where they would begin
    special_tokens  names of special tokens in a prompt, such as <|im_start|>, become those tokens
    variant  what published weights are of; by default vanilla
    data     where the text of a training lies now, for its tokenizer, where the training's folder holds none

    Raises UserError or BadInput for what makes no sense.
    """
    from icl.models.sampling import generate

    model_folder = one_model(Path(folder), variant)
    if not all(stop):
        raise UserError("--stop: the empty text is everywhere")
    for prompt in prompts:
        if any("\ud800" <= character <= "\udfff" for character in prompt):
            raise UserError("--prompt is not text in this terminal's encoding")
    spoken, device = language(model_folder, data), chosen_device(device)
    ids = [spoken.encode(prompt, special_tokens=special_tokens) for prompt in prompts]
    config = model_folder.architecture
    room = min(config.context, max(map(len, ids)) + tokens)
    needed = len(ids) * cache_bytes(config, model_folder.plan, room, number=4)
    if needed > (there := memory.available(device)):
        raise UserError(
            f"what is kept of {len(ids):,} texts of {room:,} tokens needs {memory.in_words(needed)} of memory, "
            f"and there are {memory.in_words(there)}"
        )
    model = model_folder.model(device)
    drawn = generate(model, ids, tokens, sampling=sampling, seed=seed, stop=spoken.ends, vocab=spoken.tokenizer.vocab)
    written = [Written(prompt, read) for prompt, read in zip(prompts, ids, strict=True)]
    speed = Speed(read=sum(map(len, ids)))
    return Writer(written, speed, _steps(drawn, written, speed, spoken=spoken, stop=stop))


def _steps(
    drawn: Iterator[list[int | None]], written: Sequence[Written], speed: Speed, spoken: Language, stop: Sequence[str]
) -> Iterator[None]:
    before = time.perf_counter()
    for number, tokens in enumerate(drawn):
        now = time.perf_counter()
        if number:
            speed.steps, speed.stepping = number, speed.stepping + now - before
            speed.drawn += sum(token is not None for token in tokens)
        else:
            speed.reading = now - before
        for one, token in zip(written, tokens, strict=True):
            if token is not None and not one.ended:
                _add(one, token, spoken, stop=stop)
        yield
        if all(one.ended for one in written):
            return
        before = time.perf_counter()
    for one in written:
        if not one.ended:
            one.text, one.ended = spoken.after(one.ids, one.tokens), "length"
    yield


def _add(one: Written, token: int, spoken: Language, stop: Sequence[str]) -> None:
    one.tokens.append(token)
    if token in spoken.ends:
        one.text, one.ended = spoken.after(one.ids, one.tokens[:-1]), "end of text"
        return
    text = spoken.after(one.ids, one.tokens)
    places = [place for x in stop if (place := text.find(x)) >= 0]
    if places:
        one.text, one.ended = text[: min(places)], "stop"
        return
    # Not yet what may be half of a character, or the beginning of what stops it.
    text = text.rstrip(HALF)
    held = max((n for x in stop for n in range(1, len(x)) if text.endswith(x[:n])), default=0)
    one.text = text[: len(text) - held]


def language(model: ModelFolder, data: str | None = None) -> Language:
    """Return the tokenizer of a model's folder.

    Args:
        model: the model and its folder.
        data: where the text of its training lies now.

    Raises:
        UserError: or BadInput, if there is no tokenizer, or it has another vocabulary.
    """
    from icl.data.published import PublishedTokenizer
    from icl.data.published import ends as ends_of
    from icl.data.shards import TokenData, read_manifest
    from icl.data.tokenizers import Foreign, Ranks, saved_tokenizer

    check_reads_text(model)
    if model.kind == "initial":
        if data is None:
            raise UserError(f"{model.folder} is a preset, which has no tokenizer; say --data FOLDER, of prepared text")
    elif model.published and not (model.folder / Ranks.file).is_file():
        published, ends = PublishedTokenizer(model.folder), ends_of(model.folder)
        return Language(published, published.start or tuple(sorted(ends)[:1]), bool(published.start), ends=ends)
    tokenizer = None if model.kind == "initial" else saved_tokenizer(model.folder)
    if tokenizer is None:
        place = Path(data or (model.source.folder if isinstance(model.source, TextSource) else ""))
        if not place.is_dir():
            raise UserError(f"{model.folder} holds no tokenizer, and {place} is not there; say --data FOLDER")
        tokenizer = TokenData(place, read_manifest(place)).tokenizer()
    stem = model.architecture.stem
    if not isinstance(stem, Tokens) or tokenizer.vocab > stem.vocab:
        raise UserError(
            f"{tokenizer.name} is not the tokenizer that {model.folder} was trained by, or has more tokens than it has"
        )
    start = tokenizer.start if isinstance(tokenizer, Foreign) else ()
    return Language(tokenizer, start or (tokenizer.end,), of_all=bool(start), ends=frozenset([tokenizer.end]))
