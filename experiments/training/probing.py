"""What the layers of finished trainings do, side by side: measured on held-out data, kept, and drawn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.store.backends import Serial
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, UserError, in_a_path
from experiments.store.progress import progress
from experiments.store.provenance import provenance
from experiments.store.sources import source_digest
from experiments.store.work import results
from experiments.training import extension, user_files
from experiments.training.arms import PromptSource, TextSource, task_of
from experiments.training.by_layer import Sample
from experiments.training.device import chosen_device
from experiments.training.layer_probes import FAMILIES
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Batch, Task

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Subject:
    """A finished training: its folder, what it is called, and what is needed to ask its model anything.

    plan    where the variant is a user's file's; None where a name stands for it
    """

    folder: Path
    name: str
    seed: int
    architecture: Architecture
    source: TextSource | PromptSource
    plan: Plan | None
    digest: str

    @property
    def tokens(self) -> int:
        """In a sequence."""
        return self.architecture.context

    def model(self, device: str) -> Decoder:
        from icl.models.saved import load

        return load(self.folder, variant=self.plan, device=device)


@dataclass(frozen=True)
class Probed:
    """folder: holds summary.json and the figures.  record: what was measured, on what, by family and then by run."""

    folder: Path
    record: Json


def probe(
    runs: Sequence[Path | str],
    what: Sequence[str] | None = None,
    *,
    sample: Sample | None = None,
    data: str | None = None,
    device: str = "auto",
    out: Path | str = "runs",
) -> Probed:
    """Measure and draw what the layers of trained models do, in a folder below out/probe; what is there is kept.

    runs    folders of finished trainings, all of text or all of regression
    what    families (`FAMILIES`); by default all that can be asked of every run
    sample  of the held-out data; by default of 16,384 tokens
    data    the folder where the text of the trainings lies now, if not where it lay

    Raises UserError or BadInput for what makes no sense.
    """
    from experiments.training.layer_figures import draw

    subjects = [subject(Path(run), data) for run in runs]
    names = families(subjects, what)
    device = chosen_device(device)
    sample = sample or Sample()
    run = RunFolder(Path(out) / "probe" / _named(subjects, sample, device))
    with run.locked():
        record = _record(run, subjects, names, sample, device)
        with progress("drawing", len(names)) as at:
            for place, name in enumerate(names):
                at(place, name)
                draw(name, record, run)
            at(len(names))
        run.write("summary.json", record)
    return Probed(run.path, record)


def families(subjects: Sequence[Subject], what: Sequence[str] | None) -> list[str]:
    """What is asked of all.  Raises UserError for what is not there, or cannot be asked of one of them."""
    if not subjects:
        raise UserError("name the folder of a finished training, or of several")
    kinds = {isinstance(one.source, PromptSource): one.folder for one in subjects}
    if len(kinds) > 1:
        raise UserError(f"{kinds[True]} was trained on regression and {kinds[False]} on text: they share no axes")
    for name in what or ():
        if name not in FAMILIES:
            raise UserError(f"unknown probe {name!r}; there are {', '.join(FAMILIES)}")
    chosen = []
    for name in dict.fromkeys(FAMILIES if what is None else what):
        obstacles = {one.folder: FAMILIES[name].obstacle(one.architecture) for one in subjects}
        folder, why = next(((folder, why) for folder, why in obstacles.items() if why), (None, ""))
        if why and what is not None:
            raise UserError(f"{name} {why}: not {folder}")
        if not why:
            chosen.append(name)
    if not chosen:
        raise UserError(f"name one or more of {', '.join(FAMILIES)}")
    return chosen


def subject(folder: Path, data: str | None = None) -> Subject:
    """The training in a folder.  Raises UserError if there is none, or if it has not ended."""
    from icl.models.saved import architecture_of

    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    record = extension.finished(folder)
    try:
        arm, name, seed = record["arm"], str(record["name"]), int(record["seed"])
        architecture = architecture_of(arm["architecture"])
        variant, source = str(arm["variant"]), arm["source"]
        of_prompts = "d" in source
        found = PromptSource(**source) if of_prompts else TextSource(**source)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'summary.json'} is damaged; train it again") from error
    if isinstance(found, TextSource):
        found = replace(found, folder=data or found.folder)
        if not Path(found.folder).is_dir():
            raise UserError(f"{found.folder}, the text that {folder} was trained on, is not there; say --data FOLDER")
    elif data is not None:
        raise UserError(f"--data says where text lies, and {folder} was trained on regression")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} holds no {WEIGHTS}: its weights are missing")
    plan = user_files.fitting(variant, architecture) if "plan" in arm and user_files.names_a_file(variant) else None
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    return Subject(folder, name, seed, architecture, found, plan, digest)


def _named(subjects: Sequence[Subject], sample: Sample, device: str) -> str:
    about = [[one.digest for one in subjects], asdict(sample), device, source_digest(__name__)]
    digest = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
    return f"{in_a_path('-'.join(one.name for one in subjects))}-{digest}"


def _record(run: RunFolder, subjects: Sequence[Subject], names: Sequence[str], sample: Sample, device: str) -> Json:
    asked = _Asked(sample, device)
    items = {f"{number} {name}": (one, name) for number, one in enumerate(subjects, 1) for name in names}
    found = results("probe", items, asked, run, label="probing", backend=Serial())
    abouts = []
    for number, one in enumerate(subjects, 1):
        sequences = found[f"{number} {names[0]}"]["sequences"]
        about = {"name": one.name, "seed": one.seed, "folder": str(one.folder), "weights": one.digest}
        abouts.append({**about, "sequences": sequences, "tokens": sequences * one.tokens})
    numbers = range(1, len(subjects) + 1)
    return {
        "kind": "probe",
        "runs": abouts,
        "regression": isinstance(subjects[0].source, PromptSource),
        "families": {name: [found[f"{number} {name}"]["result"] for number in numbers] for name in names},
        **provenance(device, __name__),
    }


class _Asked:
    """Measures a family of a training; the model asked last is kept, as most are asked several in a row."""

    def __init__(self, sample: Sample, device: str) -> None:
        self.sample, self.device = sample, device
        self._last: tuple[Subject, Decoder, Task, list[Batch]] | None = None

    def __call__(self, item: tuple[Subject, str], _: Desk) -> Json:
        one, name = item
        if self._last is None or self._last[0] is not one:
            model, task = one.model(self.device), task_of(one.source, one.architecture.context)
            self._last = one, model, task, self.sample.batches(task, self.device)
        model, task, batches = self._last[1:]
        sequences = sum(len(batch.inputs) for batch in batches)
        return {"result": FAMILIES[name].measure(model, task, batches), "sequences": sequences}
