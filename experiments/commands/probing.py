"""Probes of trained models' layers, side by side: measured on data that they have not seen, kept, and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.commands.subjects import Choices, Subject, about, check_alike, named, subjects
from experiments.store.backends import Serial
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.progress import progress
from experiments.store.provenance import provenance
from experiments.store.work import results
from experiments.training.arms import PromptSource
from experiments.training.by_layer import Sample
from experiments.training.device import chosen_device
from experiments.training.layer_probes import FAMILIES
from theory.plans.suggestions import unknown

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Batch, HeldOut


@dataclass(frozen=True)
class Probed:
    """The result of a probe.

    folder: holds summary.json and the figures.  record: what was measured, on what, by family and then by run.
    """

    folder: Path
    record: Json


def probe(
    runs: Sequence[Path | str],
    what: Sequence[str] | None = None,
    *,
    choices: Choices | None = None,
    device: str = "auto",
    out: Path | str = "runs",
) -> Probed:
    """Measure and draw what the layers of trained models do, in a folder below out/probe; what is there is kept.

    runs    folders of finished trainings, or of published weights (`icl.published.reading`); all of text, or all of
            regression
    what    families (`FAMILIES`); by default all that every run can answer
    choices  how much data, and which

    Raises UserError or BadInput for what makes no sense.
    """
    from experiments.commands.layer_figures import draw

    choices = choices or Choices()
    _check_known(what or ())
    device = chosen_device(device)
    models = subjects([Path(run) for run in runs], choices)
    names = families(models, what)
    run = RunFolder(Path(out) / "probe" / named(models, choices.sample, device, module=__name__))
    with run.locked():
        record = _record(run, models, names, sample=choices.sample, device=device)
        with progress("drawing", len(names)) as at:
            for place, name in enumerate(names):
                at(place, name)
                draw(name, record, run)
            at(len(names))
        run.write("summary.json", record)
    return Probed(run.path, record)


def families(subjects: Sequence[Subject], what: Sequence[str] | None) -> list[str]:
    """Return the families that all subjects are probed by.

    Raises:
        UserError: for an unknown family, or a requested one that a subject does not have.
    """
    check_alike(subjects)
    _check_known(what or ())
    chosen = []
    for name in dict.fromkeys(FAMILIES if what is None else what):
        obstacles = {
            one.model_folder.folder: FAMILIES[name].obstacle(one.model_folder.architecture, one.model_folder.plan)
            for one in subjects
        }
        folder, why = next(((folder, why) for folder, why in obstacles.items() if why), (None, ""))
        if why and what is not None:
            raise UserError(f"{name} {why}: not {folder}")
        if not why:
            chosen.append(name)
    if not chosen:
        raise UserError(f"name one or more of {', '.join(FAMILIES)}")
    return chosen


def _check_known(what: Sequence[str]) -> None:
    for name in what:
        if name not in FAMILIES:
            raise UserError(unknown("probe", name, FAMILIES))


def _record(run: RunFolder, subjects: Sequence[Subject], names: Sequence[str], sample: Sample, device: str) -> Json:
    measure = _Measure(sample, device)
    items = {f"{number} {name}": (one, name) for number, one in enumerate(subjects, 1) for name in names}
    measured = results("probe", items, measure, run=run, label="probing", backend=Serial())
    numbers = range(1, len(subjects) + 1)
    counts = [measured[f"{number} {names[0]}"] for number in numbers]
    return {
        "kind": "probe",
        "runs": [
            {**about(one), **{name: count[name] for name in ("sequences", "tokens")}}
            for one, count in zip(subjects, counts, strict=True)
        ],
        "regression": subjects[0].kind == PromptSource.kind,
        "families": {name: [measured[f"{number} {name}"]["result"] for number in numbers] for name in names},
        **provenance(device, __name__),
    }


class _Measure:
    """A measurement of a family on a training; the last model is kept, as most are measured several times in a row."""

    def __init__(self, sample: Sample, device: str) -> None:
        self.sample, self.device = sample, device
        self._last: tuple[Subject, Decoder, HeldOut, list[Batch]] | None = None

    def __call__(self, item: tuple[Subject, str], _: Desk) -> Json:
        one, name = item
        if self._last is None or self._last[0] is not one:
            self._last = None  # one model at a time
            task = one.task()
            batches = self.sample.batches(task, self.device)
            self._last = one, one.model_folder.model(self.device), task, batches
        model, task, batches = self._last[1:]
        sequences = sum(len(batch.inputs) for batch in batches)
        result = FAMILIES[name].measure(model, task, batches)
        return {"result": result, "sequences": sequences, "tokens": sequences * task.tokens}
