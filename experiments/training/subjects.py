"""What layers are looked at of: the models of finished trainings, and weights that others have published."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from experiments.store.folders import Json, UserError
from experiments.training import extension, memory, user_files
from experiments.training.arms import PromptSource, TextSource, task_of
from experiments.training.by_layer import Sample, check_spread
from theory.errors import BadInput, at_least
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.identity import text
from theory.plans.plan import Plan

if TYPE_CHECKING:
    import numpy as np

    from icl.models.decoder import Decoder
    from icl.training.objectives import HeldOut

WEIGHTS = "model.safetensors"
CONTEXT = 512  # tokens a sequence of published weights, unless it is asked for or their context is shorter
STDLIB, RANDOM = "stdlib", "random"


@dataclass(frozen=True)
class Asked:
    """What is looked at of subjects that leave it open.

    data      where the text of trainings lies now, if not where it lay
    context   tokens a sequence of text; by default a training's own, of published weights at most CONTEXT
    text      for published weights: a source as `icl.data.sources.documents` takes it, or `random`; by default stdlib
              where a tokenizer lies beside them, else random tokens
    variant   what published weights are of; by default vanilla
    """

    sample: Sample = field(default_factory=Sample)
    data: str | None = None
    context: int | None = None
    text: str | None = None
    variant: str | None = None


class Subject(Protocol):
    """A model: its folder, what it is called, and what is needed to ask it anything.

    weights     their digest
    key         a digest of all that decides what is found
    data        what it is asked about, in a few words
    """

    @property
    def folder(self) -> Path: ...

    @property
    def name(self) -> str: ...

    @property
    def seed(self) -> int | None: ...

    @property
    def architecture(self) -> Architecture: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def weights(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def data(self) -> str: ...

    @property
    def of_prompts(self) -> bool: ...

    def model(self, device: str) -> Decoder: ...

    def task(self) -> HeldOut: ...


@dataclass(frozen=True)
class Trained:
    """A finished training, and its held-out data."""

    folder: Path
    name: str
    seed: int
    architecture: Architecture
    source: TextSource | PromptSource
    plan: Plan
    context: int
    weights: str

    @property
    def key(self) -> str:
        return f"{self.weights} {self.context}"

    @property
    def of_prompts(self) -> bool:
        return isinstance(self.source, PromptSource)

    @property
    def data(self) -> str:
        return "regression prompts" if isinstance(self.source, PromptSource) else f"text in {self.source.folder}"

    def model(self, device: str) -> Decoder:
        from icl.models.saved import load

        return load(self.folder, variant=self.plan, device=device)

    def task(self) -> HeldOut:
        return task_of(self.source, self.context)


@dataclass(frozen=True, eq=False)
class Published:
    """Published weights under a plan, and sequences of tokens: (count, context + 1)."""

    folder: Path
    name: str
    architecture: Architecture
    plan: Plan
    sequences: np.ndarray
    data: str
    weights: str
    seed: None = None
    of_prompts: bool = False

    @property
    def key(self) -> str:
        """Of weights and sequences, and of what these do not say: the plan, eps and theta."""
        return _digest([self.weights, repr(self.architecture), text(self.plan), str(self.sequences.tolist())])

    def model(self, device: str) -> Decoder:
        from icl.models.published import load

        need, there = 4 * total_parameters(self.architecture, self.plan), memory.available(device)
        if need > there:
            raise UserError(
                f"{self.folder} needs {memory.in_words(need)} of memory for its weights alone, in float32, and there "
                f"are {memory.in_words(there)}"
            )
        return load(self.folder, variant=self.plan, device=device)

    def task(self) -> HeldOut:
        from icl.training.objectives import GivenTokens

        return GivenTokens(self.sequences)


def subjects(folders: Iterable[Path], asked: Asked) -> list[Subject]:
    """The models in some folders.  Raises UserError or BadInput, also for what was asked of none of them."""
    found = [subject(folder, asked) for folder in folders]
    kinds = {type(one) for one in found}
    if kinds == {Trained} and (asked.text, asked.variant) != (None, None):
        option = "variant" if asked.text is None else "text"
        raise UserError(f"--{option} is for published weights, and {found[0].folder} is of a training")
    if kinds == {Published} and asked.data is not None:
        raise UserError(f"--data is for the text of trainings; for {found[0].folder}, which is of none, say --text")
    return found


def subject(folder: Path, asked: Asked | None = None) -> Subject:
    """The model in a folder.  Raises UserError or BadInput if there is none, or no finished one."""
    from icl.models.published import is_published

    asked = asked or Asked()
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    if asked.context is not None:
        at_least("--context", asked.context, 2)
    if not (folder / "summary.json").exists() and is_published(folder):
        return _published(folder, asked)
    return _trained(folder, asked)


def _trained(folder: Path, asked: Asked) -> Trained:
    from icl.models.saved import architecture_of

    record = extension.finished(folder)
    try:
        arm, name, seed = record["arm"], str(record["name"]), int(record["seed"])
        architecture = architecture_of(arm["architecture"])
        variant, source = str(arm["variant"]), arm["source"]
        of_prompts = "d" in source
        found = PromptSource.from_json(source) if of_prompts else TextSource(**source)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'summary.json'} is damaged; train it again") from error
    context = architecture.context
    if isinstance(found, TextSource):
        context = _context(folder, architecture, asked, by_default=context)
        windows = found.held_out_windows * max(1, architecture.context // context)
        found = replace(found, folder=asked.data or found.folder, held_out_windows=windows)
        if not Path(found.folder).is_dir():
            raise UserError(f"{found.folder}, the text that {folder} was trained on, is not there; say --data FOLDER")
    else:
        for option, value in (("data", asked.data), ("context", asked.context)):
            if value is not None:
                raise UserError(f"--{option} is for text, and {folder} was trained on regression")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} holds no {WEIGHTS}: its weights are missing")
    if "plan" in arm and not user_files.names_a_file(variant):
        raise UserError(
            f"{folder} was trained under a plan that no name stands for, so that nothing can build its model"
        )
    plan = user_files.fitting(variant, architecture)
    return Trained(folder, name, seed, architecture, found, plan, context, _digest_of(folder / WEIGHTS))


def _published(folder: Path, asked: Asked) -> Published:
    from icl.data.published import TOKENIZER, PublishedTokenizer, random_sequences, sequences
    from icl.models import published

    architecture = published.architecture(folder)
    plan = user_files.fitting(asked.variant or "vanilla", architecture)
    context = _context(folder, architecture, asked, by_default=min(architecture.context, CONTEXT))
    assert isinstance(architecture.stem, Tokens)
    published.check(folder, plan)
    count, vocab = asked.sample.tokens // context, architecture.stem.vocab
    source = (STDLIB if (folder / TOKENIZER).is_file() else RANDOM) if asked.text is None else asked.text
    if source == RANDOM:
        drawn, data = random_sequences(context + 1, count, vocab), "text drawn at random"
    else:
        drawn, data = sequences(PublishedTokenizer(folder), source, context + 1, count, vocab), f"the text of {source}"
    check_spread(count, context)
    check_spread(len(drawn), context, f"all that {source} holds")
    weights = _digest(_digest_of(path) for path in published.weight_files(folder))
    name = folder.resolve().name + (f" {asked.variant}" if asked.variant else "")
    return Published(folder, name, architecture, plan, drawn, data, weights)


def _context(folder: Path, architecture: Architecture, asked: Asked, *, by_default: int) -> int:
    if asked.context is None:
        return by_default
    if asked.context > architecture.context:
        raise UserError(f"--context {asked.context} is more than the {architecture.context} tokens of {folder}")
    return asked.context


def _digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def about(one: Subject) -> Json:
    """As a record keeps it."""
    return {"name": one.name, "seed": one.seed, "folder": str(one.folder), "weights": one.weights, "data": one.data}
