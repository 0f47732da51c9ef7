"""Subjects of probes: the models of finished trainings, and weights that others have published."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from experiments.store.folders import Json, UserError, in_a_path
from experiments.store.sources import source_digest
from experiments.training.arms import PromptSource, Source, TextSource, task_of
from experiments.training.by_layer import Sample, check_spread
from experiments.training.model_folders import OPEN, WEIGHTS, ModelFolder, any_model, check_reads_text, digest_of
from theory.errors import at_least
from theory.plans.architecture import Architecture, Tokens
from theory.plans.identity import text

if TYPE_CHECKING:
    import numpy as np

    from icl.training.objectives import HeldOut

CONTEXT = 512  # tokens a sequence of published weights, unless it is asked for or their context is shorter
STDLIB, RANDOM = "stdlib", "random"
SPREAD = 64  # calibration takes sequences evenly from so many times as much text: a chapter is no sample of a book


@dataclass(frozen=True)
class Choices:
    """A user's choices for subjects that leave them open.

    data      where the text of trainings lies now, if not where it lay
    context   tokens per sequence of text; by default as trained, of published weights at most CONTEXT
    text      a source as `icl.data.sources.documents` takes it, or `random`; by default what a training holds out, of
              others' models stdlib where a tokenizer lies beside them, else random tokens
    variant   what published weights are of; by default vanilla
    start     where the part of the text begins that is read: tokens, or a share of its characters; by default the
              text's beginning
    stop      where it ends, likewise; by default the text's end
    spread    of how many times as much of the text, as far as it goes, sequences are taken evenly
    """

    sample: Sample = field(default_factory=Sample)
    data: str | None = None
    context: int | None = None
    text: str | None = None
    variant: str | None = None
    start: int | float | None = None
    stop: int | float | None = None
    spread: int = 1


class Subject(Protocol):
    """A model, and what is needed to ask it anything.

    weights     their digest
    key         a digest of all that decides what is found
    data        what it is asked about, in a few words
    """

    @property
    def model_folder(self) -> ModelFolder: ...

    @property
    def weights(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def data(self) -> str: ...

    @property
    def kind(self) -> str: ...

    def task(self) -> HeldOut: ...


@dataclass(frozen=True)
class Trained:
    """A finished training, and its held-out data."""

    model_folder: ModelFolder
    source: Source
    context: int
    weights: str

    @property
    def key(self) -> str:
        return f"{self.weights} {self.context}"

    @property
    def kind(self) -> str:
        return self.source.kind

    @property
    def data(self) -> str:
        if isinstance(self.source, TextSource):
            return f"text in {self.source.folder}"
        return "regression prompts" if isinstance(self.source, PromptSource) else f"recall of {self.source.pairs} pairs"

    def task(self) -> HeldOut:
        return task_of(self.source, self.context)


@dataclass(frozen=True, eq=False)
class Published:
    """Published weights under a plan, and sequences of tokens: (count, context + 1)."""

    model_folder: ModelFolder
    sequences: np.ndarray
    data: str
    weights: str
    kind: str = TextSource.kind

    @property
    def key(self) -> str:
        """A digest of weights and sequences, and of what these do not say: the plan, eps and theta."""
        return _digest(
            [
                self.weights,
                repr(self.model_folder.architecture),
                text(self.model_folder.plan),
                str(self.sequences.tolist()),
            ]
        )

    def task(self) -> HeldOut:
        from icl.training.objectives import GivenTokens

        return GivenTokens(self.sequences)


def subjects(folders: Iterable[Path], choices: Choices) -> list[Subject]:
    """Return the models in some folders.  Raises UserError or BadInput, also for options that apply to none of them."""
    models = [subject(folder, choices) for folder in folders]
    if models and choices.variant is not None and all(one.model_folder.kind not in OPEN for one in models):
        raise UserError(
            f"--variant is for published weights, and {models[0].model_folder.folder} says itself what it holds"
        )
    return models


def subject(folder: Path, choices: Choices | None = None) -> Subject:
    """Return the model in a folder.  Raises UserError or BadInput if there is none, or no finished one."""
    choices = choices or Choices()
    if choices.context is not None:
        at_least("--context", choices.context, 2)
    model_folder = any_model(folder, choices.variant)
    if model_folder.published or choices.text is not None:
        return _on_any_text(model_folder, choices)
    if choices.start is not None or choices.stop is not None:
        raise UserError("--from and --to are for the text that --text names; a training says itself what it holds out")
    return _trained(model_folder, choices)


def _trained(model_folder: ModelFolder, choices: Choices) -> Trained:
    assert model_folder.source is not None
    folder, source, context = model_folder.folder, model_folder.source, model_folder.architecture.context
    if isinstance(source, TextSource):
        context = _context(folder, model_folder.architecture, choices, by_default=source.context or context)
        windows = source.held_out_windows * max(1, (source.context or model_folder.architecture.context) // context)
        source = replace(source, folder=choices.data or source.folder, held_out_windows=windows)
        if not Path(source.folder).is_dir():
            raise UserError(f"{source.folder}, the text that {folder} was trained on, is not there; say --data FOLDER")
    else:
        for option, value in (("data", choices.data), ("context", choices.context)):
            if value is not None:
                raise UserError(f"--{option} is for text, and {folder} was trained on {source.kind}")
    return Trained(model_folder, source, context, weights=digest_of(folder / WEIGHTS))


def _on_any_text(model_folder: ModelFolder, choices: Choices) -> Published:
    """Return a subject on text by the tokenizer that lies beside the weights, which a training leaves there too."""
    from icl.data.published import TOKENIZER, Part, PublishedTokenizer, random_sequences, sequences
    from icl.published.files import weight_files

    folder, architecture = model_folder.folder, model_folder.architecture
    check_reads_text(model_folder)
    assert isinstance(architecture.stem, Tokens)
    if choices.data is not None:
        raise UserError(f"--data is for the text of trainings; {folder} is asked about other text, which --text says")
    context = _context(folder, architecture, choices, by_default=min(architecture.context, CONTEXT))
    count, vocab = choices.sample.tokens // context, architecture.stem.vocab
    if model_folder.kind == "initial" and choices.text not in (None, RANDOM):
        raise UserError(f"{folder} is a preset, which has no tokenizer: it is asked about tokens drawn at random")
    source = (STDLIB if (folder / TOKENIZER).is_file() else RANDOM) if choices.text is None else choices.text
    part = Part(choices.start or 0, choices.stop)
    if source == RANDOM and str(part):
        raise UserError("--from and --to are for text, and tokens drawn at random have no parts")
    if source == RANDOM:
        drawn, data = random_sequences(context + 1, count, vocab), "text drawn at random"
    else:
        tokenizer = PublishedTokenizer(folder)
        drawn = sequences(tokenizer, source, context + 1, count, vocab, part=part, spread=choices.spread)
        data = f"the text of {source} {part}".rstrip()
    check_spread(count, context)
    check_spread(len(drawn), context, f"all that {source} holds")
    initial = [f"initial weights, seed {model_folder.seed}"] if model_folder.kind == "initial" else None
    return Published(
        model_folder, drawn, data, weights=_digest(initial or [digest_of(path) for path in weight_files(folder)])
    )


def _context(folder: Path, architecture: Architecture, choices: Choices, *, by_default: int) -> int:
    if choices.context is None:
        return by_default
    if choices.context > architecture.context:
        raise UserError(f"--context {choices.context} is more than the {architecture.context} tokens of {folder}")
    return choices.context


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check_alike(models: Sequence[Subject]) -> None:
    """Raise UserError for no models, and for those of different kinds of data together."""
    if not models:
        raise UserError("name the folder of a finished training, or of several")
    kinds = {one.kind: one.model_folder.folder for one in sorted(models, key=lambda one: one.kind)}
    if len(kinds) > 1:
        (kind, folder), (other, beside), *_ = kinds.items()
        raise UserError(f"{folder} was trained on {kind} and {beside} on {other}: they share no axes")


def named(models: Sequence[Subject], sample: Sample, device: str, module: str) -> str:
    """Return the folder of a module's results for these subjects."""
    parts = [[one.key for one in models], asdict(sample), device, source_digest(module)]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return f"{in_a_path('-'.join(one.model_folder.name for one in models))}-{digest}"


def about(one: Subject) -> Json:
    """Return a subject's entry in a record."""
    model_folder = one.model_folder
    return {
        "name": model_folder.name,
        "seed": model_folder.seed,
        "folder": str(model_folder.folder),
        "weights": one.weights,
        "data": one.data,
    }
