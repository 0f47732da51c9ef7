"""The material of the site: the papers, the ledger with its outcomes, and the finished runs that are shown."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments import catalogue
from experiments.experiment.execution import committed_results, conclusions, latest_runs, summary, table
from experiments.experiment.protocol import Experiment, Profile, figure_files
from experiments.ledger.claim import Claim
from experiments.ledger.verify import Verification
from experiments.report.prose import Names
from experiments.store.folders import Json, RunFolder, UserError, in_a_path
from experiments.store.provenance import provenance
from experiments.store.sources import source_digest
from experiments.training.comparing import known_as, own_places
from experiments.training.tuning import untuned
from experiments.verdicts.checks import Judgement, worst
from theory.plans.papers import Paper, rooms
from theory.plans.variants import VARIANTS

SEVERAL = "several"
LARGEST = 400_000  # bytes of a drawing that a page shows; in place of a larger one its PNG
NUMBERS = ("prediction.json", "measurement.json", "summary.json")


@dataclass(frozen=True)
class Room:
    """A paper with what is checked of it, or (paper None) what needs several."""

    paper: Paper | None
    package: str

    @property
    def slug(self) -> str:
        return in_a_path(self.package.rpartition(".")[2]) if self.paper else SEVERAL

    @property
    def name(self) -> str:
        return self.paper.name[:1].upper() + self.paper.name[1:] if self.paper else "Several papers"

    def holds(self, module: str) -> bool:
        return module.startswith(f"{self.package}.")


@dataclass(frozen=True)
class Evaluation:
    """The conclusions from a run's measurement, which may be large: it is read once, and not kept.

    checks   by the present rules
    untuned  arms whose best learning rate is at an end of those tried, and why that matters
    table    of an experiment that has one: columns' names, then rows
    """

    checks: Sequence[Judgement]
    untuned: Mapping[str, str]
    table: list[tuple[str, ...]] | None


@dataclass(frozen=True)
class Run:
    """A finished run that is shown.  committed: it is of the committed results, not below --out."""

    folder: RunFolder
    experiment: Experiment
    saved: Json
    committed: bool

    @cached_property
    def prediction(self) -> Json:
        return self.folder.read("prediction.json")

    @cached_property
    def evaluation(self) -> Evaluation:
        measurement = self.folder.read("measurement.json")
        return Evaluation(
            conclusions(self.experiment, self.saved, self.prediction, measurement=measurement),
            untuned(measurement),
            table(self.experiment, self.prediction, measurement),
        )

    @property
    def checks(self) -> Sequence[Judgement]:
        return self.evaluation.checks

    @property
    def verdict(self) -> str:
        return worst(self.checks)

    @property
    def profile(self) -> Profile | None:
        return self.experiment.profiles.get(self.saved["profile"])

    @property
    def decides(self) -> str:
        return self.profile.decides if self.profile else f"detects {self.saved['detects']}"

    @property
    def title(self) -> str:
        own = self.experiment.name != self.saved["experiment"]
        return self.saved["title"] if own else self.experiment.title

    @property
    def changed_since(self) -> bool:
        """True if the source of its experiment has changed since."""
        return bool(self.saved["source"] != source_digest(type(self.experiment).__module__))

    def files(self) -> list[Path]:
        """Return the files of its numbers and figures that exist."""
        names = (*NUMBERS, *figure_files(self.experiment))
        return [self.folder / name for name in names if (self.folder / name).is_file()]


@dataclass(frozen=True)
class Material:
    """Everything that a page may show."""

    out: Path
    rooms: Sequence[Room]
    ledger: Mapping[str, Claim]
    verified: Mapping[str, Verification]
    experiments: Mapping[str, Experiment]
    runs: Mapping[str, Sequence[Run]]
    here: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def names(self) -> Names:
        others = {name: f"/experiments/{in_a_path(name)}.md" for name in self.experiments}
        others |= {name: f"/variants/{in_a_path(name)}.md" for name in VARIANTS}
        return Names({name: claim_page(name) for name in self.ledger}, others)

    def claims_of(self, room: Room) -> list[Claim]:
        return [claim for claim in self.ledger.values() if room.holds(claim.module)]

    def room_of(self, claim: Claim) -> Room:
        return next((room for room in self.rooms if room.holds(claim.module)), self.rooms[-1])

    def experiments_of(self, room: Room) -> list[Experiment]:
        return [one for one in self.experiments.values() if room.holds(type(one).__module__)]

    def resting_on(self, name: str) -> list[str]:
        """Return the ids of the entries that use one."""
        return [other.id for other in self.ledger.values() if name in other.uses]


def claim_page(name: str) -> str:
    return f"/claims/{in_a_path(name)}.md"


def gathered(out: Path, verified: Sequence[Verification]) -> Material:
    """Gather the material.

    Raises:
        UserError: where no experiment is finished, or a file of one is damaged.
    """
    check_finished(out)
    known = {name: catalogue.experiment(name) for name in catalogue.names()}
    runs: dict[str, list[Run]] = {}
    for name, experiment in known.items():
        own = _runs(experiment, out)
        if folders := own or _runs(experiment, committed_results()):
            runs[name] = [_run(run, committed=not own) for run in folders]
    papers = [Room(room.paper, catalogue.package_beside(room)) for room in rooms()]
    return Material(
        out=out,
        rooms=[*papers, Room(None, catalogue.ACROSS)],
        ledger=catalogue.claims(),
        verified={v.claim.id: v for v in verified},
        experiments=known,
        runs=runs,
        here=provenance("cpu", __name__),
    )


def own_experiments(out: Path) -> list[str]:
    """Return the names of the experiments that have a finished run below `out`."""
    return [name for name in catalogue.names() if _runs(catalogue.experiment(name), out)]


def check_finished(out: Path) -> None:
    """Raise UserError where there is nothing to show: no finished run below `out`, and no committed result."""
    if not own_experiments(out) and not latest_runs(committed_results(), catalogue.names()):
        raise UserError(f"{none_finished(out)}; make one with `crosslayer run --all --out {out}`")


def none_finished(out: Path) -> str:
    """Return the message for a folder without a finished experiment, in which there may be trainings."""
    trainings = " (trainings are shown by `crosslayer evaluate`)" if (out / "train").is_dir() else ""
    return f"no finished experiment below {out}{trainings}"


def _runs(experiment: Experiment, folder: Path) -> list[RunFolder]:
    """Return the newest finished run of the largest profile, then those of other profiles and a user's variants."""
    first = latest_runs(folder, [experiment.name])
    profiles = [latest_runs(folder, [experiment.name], (name,)) for name in reversed(list(experiment.profiles))]
    own = latest_runs(folder, own_places(folder, experiment.name))
    return list({run.path: run for run in (*first, *(run for runs in profiles for run in runs), *own)}.values())


def _run(folder: RunFolder, *, committed: bool) -> Run:
    saved = summary(folder)
    run = Run(folder, catalogue.experiment(known_as(saved["experiment"])), saved, committed=committed)
    _check_figure(folder / "figure.png")
    return run


def picture(path: Path) -> Path:
    """Return the file that shows a figure, given as its PNG: the drawing beside it, sharp at any size and in print."""
    drawing = path.with_suffix(".svg")
    return drawing if drawing.is_file() and drawing.stat().st_size <= LARGEST else path


def _check_figure(path: Path) -> None:
    """Raise UserError if a figure is missing, or what is shown of it damaged."""
    from xml.etree import ElementTree

    from PIL import Image

    if not path.exists():
        raise UserError(f"{path} is missing; run the experiment again to draw it")
    shown = path
    try:
        Image.open(io.BytesIO(path.read_bytes()), formats=["PNG"]).verify()
        shown = picture(path)
        if shown != path:
            ElementTree.fromstring(shown.read_bytes())
    except IsADirectoryError as error:
        raise UserError(f"cannot read {shown}: {error.strerror}; put that right, or move it away") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{shown} is damaged; delete it and run the experiment again to draw it") from error


def verdicts_in_order(claims: Iterable[Claim]) -> dict[str, int]:
    """Return how many entries have each verdict, from verified to open."""
    from collections import Counter
    from typing import get_args

    from experiments.ledger.claim import Status

    counts = Counter(claim.verdict for claim in claims)
    return {verdict: counts[verdict] for verdict in get_args(Status) if counts[verdict]}
