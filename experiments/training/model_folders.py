"""Folders that hold a model: of finished trainings, of what was imported, and of weights that others have published.

A preset's name stands for a model too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from experiments.store.folders import RunFolder, UserError
from experiments.store.progress import warn
from experiments.training import extension, memory, user_files
from experiments.training.arms import Source, TextSource, source_from_json
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import fitting
from theory.plans.plan import Plan
from theory.plans.presets import PRESETS

if TYPE_CHECKING:
    from icl.models.decoder import Decoder

WEIGHTS = "model.safetensors"
BESIDE = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "ranks.tiktoken",
    "generation_config.json",
)  # what goes along with weights, and nothing that is code
OPEN = ("published", "initial")  # kinds whose plan may be said
IMPORTED = "imported"  # in config.json: where from
Kind = Literal["trained", "imported", "published", "initial"]


@dataclass(frozen=True)
class ModelFolder:
    """The content of a folder: the model's sizes and plan, and what it was trained on, where that is known.

    kind     trained here; imported, of which others know what it was trained on; published, as others lay it out; or
             initial: no folder, but a preset, whose weights are those that a training of seed 0 begins with
    """

    kind: Kind
    folder: Path
    name: str
    seed: int | None
    architecture: Architecture
    plan: Plan
    source: Source | None

    @property
    def published(self) -> bool:
        """True if it was not trained here: by others, in whatever layout, or not at all."""
        return self.kind != "trained"

    def model(self, device: str) -> Decoder:
        """Return the model in evaluation mode.

        Raises:
            UserError: where its weights do not fit in memory.
            BadInput: for damaged weights.
        """
        from icl.models import saved
        from icl.published import reading as published

        need, there = 4 * total_parameters(self.architecture, self.plan), memory.available(device)
        if need > there:
            raise UserError(
                f"{self.folder} needs {memory.in_words(need)} of memory for its weights alone, in float32, and there "
                f"are {memory.in_words(there)}"
            )
        if self.kind == "initial":
            from icl.models.build import build

            warn(f"{self.folder} is a preset: its initial weights, of seed 0, which nobody has trained")
            return build(self.architecture, self.plan, seed=0, device=device).eval()
        load = published.load if self.kind == "published" else saved.load
        return load(self.folder, variant=self.plan, device=device)


def model_folder(folder: Path, variant: str | None = None) -> ModelFolder:
    """Return what a folder holds; no weights are read.

    variant  what published weights are of, by default vanilla; a training's folder says it itself

    Raises UserError or BadInput if there is no model, or its training has not ended.
    """
    from icl.published.reading import is_published

    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    if is_published(folder):
        return _published(folder, variant)
    if not (folder / "summary.json").exists() and (imported := _imported(folder)) is not None:
        return imported
    return _trained(folder)


def any_model(place: Path, variant: str | None) -> ModelFolder:
    """Return a folder's model as `model_folder` does; or a preset's, by its name, where there is no such folder."""
    name = str(place)
    if place.is_dir():
        return model_folder(place, variant)
    if name not in PRESETS:
        raise UserError(f"{place}: no such folder, and no preset of that name")
    config, plan = user_files.model(name, variant)
    return ModelFolder(
        "initial", place, f"{name} {variant}" if variant else name, seed=0, architecture=config, plan=plan, source=None
    )


def one_model(folder: Path, variant: str | None) -> ModelFolder:
    """Return a model as `any_model` does; raise UserError for a variant where the folder says itself what it holds."""
    model = any_model(folder, variant)
    if variant is not None and model.kind not in OPEN:
        raise UserError(f"--variant is for published weights, and {folder} says itself what it holds")
    return model


def check_reads_text(model: ModelFolder) -> None:
    """Raise UserError for a model that does not read text."""
    if model.source and not isinstance(model.source, TextSource):
        raise UserError(f"{model.folder} was trained on {model.source.kind}: it has no text")
    if not isinstance(model.architecture.stem, Tokens):
        raise UserError(f"{model.folder} holds a model that reads no tokens: it has no text")


def digest_of(path: Path) -> str:
    """Return the sha256 of a file.  Raises UserError for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _trained(folder: Path) -> ModelFolder:
    from icl.models.saved import architecture_of, saved_plan

    record = extension.finished(folder)
    if "experiment" in record:
        raise UserError(f"{folder} is an experiment's folder, and holds no model of its own")
    try:
        arm, name, seed = record["arm"], str(record["name"]), int(record["seed"])
        architecture = architecture_of(arm["architecture"])
        variant, source = str(arm["variant"]), arm["source"]
        data = source_from_json(source)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'summary.json'} is damaged; train it again") from error
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} holds no {WEIGHTS}: its weights are missing")
    plan = saved_plan(folder) if "plan" in arm else None
    if plan is None and ("plan" in arm or user_files.names_a_file(variant)):  # and nothing that a folder names is run
        raise UserError(
            f"{folder} was trained under a plan that no name stands for and holds no plan.json, so that nothing can "
            "build its model; train it again, or read it in Python, by `icl.load` with its plan"
        )
    return ModelFolder(
        "trained",
        folder,
        name,
        seed=seed,
        architecture=architecture,
        plan=plan or fitting(variant, architecture),
        source=data,
    )


def _imported(folder: Path) -> ModelFolder | None:
    """Return the model that was imported into a folder; None if nothing was."""
    from icl.models.saved import architecture_of, saved_plan

    run = RunFolder(folder)
    if not run.has("config.json"):
        return None
    config = run.read("config.json", advice="import it again")
    if IMPORTED not in config:
        return None
    try:
        architecture, name = architecture_of(config["architecture"]), str(config["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'} is damaged; import it again") from error
    plan = saved_plan(folder)  # and nothing that a folder names is run
    if plan is None or not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} is not whole; import it again")
    return ModelFolder("imported", folder, name, seed=None, architecture=architecture, plan=plan, source=None)


def _published(folder: Path, variant: str | None) -> ModelFolder:
    from icl.published import reading as published

    architecture = published.architecture(folder)
    chosen = None if variant is None else user_files.fitting(variant, architecture)
    plan = published.plan(folder, chosen)
    published.check(folder, plan)
    name = folder.resolve().name + (f" {variant}" if variant else "")
    return ModelFolder("published", folder, name, seed=None, architecture=architecture, plan=plan, source=None)
