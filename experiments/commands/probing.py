"""Probes of trained models' layers, side by side: measured on data that they have not seen, kept, and drawn."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.commands.subjects import Choices, Published, Subject, about, check_alike, named, subjects
from experiments.store.backends import Serial
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.progress import progress, warn
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


Show = Callable[[str, Json, Json], None]
SHORT, LONG = 30.0, 300.0  # seconds: of what nobody needs to be told, and of a family that is measured if it is named


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
    show: Show = lambda _name, _about, _result: None,
) -> Probed:
    """Measure and draw what the layers of trained models do, in a folder below out/probe; what is there is kept.

    Args:
        runs: Folders of finished trainings, or of published weights (`icl.published.reading`); all of text, or all of
            regression.
        what: Families (`FAMILIES`); by default all that every run can answer, but for those that take longer than
            LONG seconds.
        choices: How much data, and which.
        device: auto, cpu or cuda.
        out: Where run folders go.
        show: Called with every family's name, an entry of the record for the run, and the result, as it comes.

    Raises:
        UserError: for what makes no sense; so does BadInput.
    """
    from experiments.commands.layer_figures import draw

    choices = choices or Choices()
    _check_known(what or ())
    device = chosen_device(device)
    models = subjects([Path(run) for run in runs], choices)
    names = families(models, what)
    times = {name: seconds(models, name, choices.sample, device) for name in names}
    if what is None and any(time <= LONG for time in times.values()):
        names = [name for name in names if times[name] <= LONG]
    if (line := cost_line(times, names)) is not None:
        warn(line)
    run = RunFolder(Path(out) / "probe" / named(models, choices.sample, device, module=__name__))
    with run.locked():
        record = _record(run, models, names, sample=choices.sample, device=device, show=show)
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


def seconds(subjects: Sequence[Subject], name: str, sample: Sample, device: str) -> float:
    """Return about how long a family takes for all subjects, from a short product of matrices on this machine."""
    total = 0.0
    for one in subjects:
        config, plan = one.model_folder.architecture, one.model_folder.plan
        context = one.sequences.shape[1] - 1 if isinstance(one, Published) else getattr(one, "context", config.context)
        total += sample.tokens * FAMILIES[name].operations(config, plan, context)
    return total / _speed(device)


@functools.cache
def _speed(device: str) -> float:
    """Return the operations per second of a decoder's pass: half of those of a product of matrices alone."""
    import torch

    x = torch.ones(512, 512, device=device)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        y = x @ x
        float(y[0, 0])  # waits for a GPU
        best = min(best, time.perf_counter() - start)
    return 512**3 / best


def cost_line(times: Mapping[str, float], names: Sequence[str]) -> str | None:
    """Return what takes how long, and what was left out, in a line; None where nobody would wait for it."""
    total = sum(times[name] for name in names)
    if total < SHORT and len(names) == len(times):
        return None
    each = ", ".join(f"{name} {_minutes(times[name])}" for name in names)
    left = ", ".join(f"{name} {_minutes(times[name])}" for name in times if name not in names)
    more = f"; left out unless --what names it: {left}" if left else ""
    return f"probing takes about {_minutes(total)} ({each}){more}; fewer --tokens take less"


def _minutes(time: float) -> str:
    return f"{time:.0f} s" if time < 100 else f"{time / 60:.0f} min"


def _record(
    run: RunFolder, subjects: Sequence[Subject], names: Sequence[str], sample: Sample, device: str, *, show: Show
) -> Json:
    measure = _Measure(sample, device, show)
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

    def __init__(self, sample: Sample, device: str, show: Show) -> None:
        self.sample, self.device, self.show = sample, device, show
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
        self.show(name, {**about(one), "sequences": sequences, "tokens": sequences * task.tokens}, result)
        return {"result": result, "sequences": sequences, "tokens": sequences * task.tokens}
