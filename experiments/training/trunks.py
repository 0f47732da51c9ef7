"""Trainings that differ in length alone: what they share is trained once, as a trunk, of which each is a branch.

The rate of a recipe whose decay is `late` is constant until its last fifth.  So a training of a quarter of the steps is
the beginning of the whole one, but for the steps over which its rate falls.  The trunk stops where a branch leaves it,
the branch is trained to its end, and the trunk goes on.  On a CPU every record is, bit for bit, that of the same
training alone (`records.train_arm`).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.store.common import packed
from experiments.store.desk import Desk, OutOfTime
from experiments.store.folders import METRICS, Json, RunFolder
from experiments.store.progress import warn
from experiments.store.work import results
from experiments.training import memory
from experiments.training.arms import Arm
from experiments.training.model_folders import WEIGHTS
from experiments.training.pool import MODELS, model_folder
from experiments.training.records import describe, note, probed, train_arm
from experiments.training.stacks import finished
from icl.files import write_atomically

if TYPE_CHECKING:
    from icl.training.loop import Logged

START, SUMMARY = "start.json", "summary.json"


class _Leaves(OutOfTime):
    """The trunk has come to where a branch leaves it."""


@dataclass(frozen=True)
class Trunk:
    """Trainings of one model to several lengths.

    Args:
        arms: the shortest first.
    """

    arms: tuple[Arm, ...]

    def name(self, device: str) -> str:
        """Return a digest of what is trained."""
        keys = " ".join(arm.key(device) for arm in self.arms)
        return hashlib.sha256(keys.encode()).hexdigest()[:16]

    def steps(self) -> int:
        """Return how many steps are taken in all, shared ones once."""
        from icl.stacks.training import stretches

        return sum(stretch.last - stretch.first for stretch in stretches([arm.recipe for arm in self.arms]))


def train_sharing(arms: Sequence[Arm], run: RunFolder, label: str, *, keeping: bool = False) -> dict[Arm, Json]:
    """Return the records of all arms that are finished, or get finished before the slot's deadline, in the order given.

    Those that are not yet there are trained in the order given too, each with all the lengths that share its trunk.  If
    `keeping`, the longest of each trunk of seed 0 leaves its model in the run's folder MODELS, under the arm's key, in
    half precision (`icl.load` reads it).
    Raises UserError, before any is trained, if one of them needs more memory than there is.
    """
    device = run.slot.device
    keys = {arm: arm.key(device) for arm in arms}
    there = finished(run)
    todo = {key: arm for arm, key in keys.items() if key not in there}  # one of each key
    for arm in todo.values():
        memory.check(arm, device)
    items = {trunk.name(device): trunk for trunk in trunks(list(todo.values()))}
    work = partial(_trained, models=str(run / MODELS)) if keeping else _trained
    results("stack", items, work, run=run, label=label, size=Trunk.steps, partial=True)
    records = finished(run)
    return {arm: records[key] for arm, key in keys.items() if key in records}


def trunks(arms: Sequence[Arm]) -> list[Trunk]:
    """Return the arms put together that share a beginning; others stand alone."""
    together: dict[Arm, list[Arm]] = defaultdict(list)
    for arm in arms:
        unsized = replace(arm.recipe, steps=1, warmup=0.0)
        together[replace(arm, recipe=unsized)].append(arm)
    grouped = []
    for some in together.values():
        some.sort(key=lambda arm: arm.recipe.steps)
        grouped += [Trunk(tuple(some))] if _share(some) else [Trunk((arm,)) for arm in some]
    return grouped


def _share(arms: Sequence[Arm]) -> bool:
    from icl.stacks.training import stretches
    from theory.errors import BadInput

    try:
        parts = stretches([arm.recipe for arm in arms])
    except BadInput:
        return False
    return all(part.ends or part.last % arms[0].recipe.log_every == 0 for part in parts)


def _trained(trunk: Trunk, desk: Desk, models: str = "") -> Json:
    from icl.stacks.training import stretches

    *shorter, whole = trunk.arms
    at_start = _at_start(whole, desk)
    records, done = [], 0
    for part in stretches([arm.recipe for arm in trunk.arms]):
        report = _reporter(desk, done - part.first)
        if not part.ends:
            _grow(whole, desk, part.last, report=report, at_start=at_start)
        elif part.recipe < len(shorter):
            records.append(_branch(shorter[part.recipe], whole, desk, report=report, at_start=at_start))
        else:
            folder = _folder(desk, whole)
            weights = folder / WEIGHTS if models and whole.seed == 0 and not whole.twin else None
            log = report(whole)
            record = train_arm(
                whole, folder, desk.slot.device, on_log=log, warn=warn, weights=weights, at_start=at_start
            )
            records.append(record)
            if weights and weights.exists():
                _keep(whole, folder, model_folder(models, whole, desk.slot.device))
        done += part.last - part.first
    common, rest = packed([{name: x for name, x in record.items() if name != "kind"} for record in records])
    return {"common": common, "records": rest}


def _keep(arm: Arm, trained: Path, folder: Path) -> None:
    """Leave the model of a finished training in a folder, in half precision."""
    from icl.models import saved

    describe(arm, RunFolder(trained))
    model = saved.load(trained, variant=arm.plan)
    write_atomically(folder / WEIGHTS, saved.weights(model.half()))


Reporter = Callable[[Arm], "Callable[[Logged], None]"]


def _reporter(desk: Desk, offset: int) -> Reporter:
    """Return what tells the desk of an arm's steps, of which `offset` more are done than its own."""
    return lambda arm: lambda logged: desk.report(offset + logged.step, note(arm, logged))


def _folder(desk: Desk, arm: Arm) -> Path:
    return desk.folder / f"steps-{arm.recipe.steps:09d}"


def _at_start(arm: Arm, desk: Desk) -> Json:
    """Return what the probes measure before the first step, which is the same for all lengths."""
    folder = RunFolder(desk.folder)
    if not folder.has(START):
        device = desk.slot.device
        folder.write(START, {"probed": probed(arm, arm.model(device), arm.task(), device=device)})
    at_start: Json = folder.read(START)["probed"]
    return at_start


def _grow(whole: Arm, desk: Desk, step: int, report: Reporter, at_start: Json) -> None:
    """Train the trunk up to a step, unless it has been there."""
    folder = _folder(desk, whole)
    if any(path.name >= f"checkpoint-{step:09d}" for path in folder.glob("checkpoint-*[0-9]")):
        return

    def on_log(logged: Logged) -> None:
        report(whole)(logged)
        if logged.step >= step:
            raise _Leaves

    with suppress(_Leaves):
        train_arm(whole, folder, desk.slot.device, on_log=on_log, warn=warn, at_start=at_start)


def _branch(arm: Arm, whole: Arm, desk: Desk, report: Reporter, at_start: Json) -> Json:
    """Return the record of a shorter training, which begins where the trunk has stopped.

    Where the trunk has diverged before, it begins with the trunk's last good state, and diverges too.
    """
    branch, trunk = RunFolder(_folder(desk, arm)), RunFolder(_folder(desk, whole))
    if branch.has(SUMMARY):
        return branch.read(SUMMARY)
    if not branch.has(METRICS):
        branch.path.mkdir(exist_ok=True)
        branch.keep_metrics(trunk.metrics())
    device = desk.slot.device
    record = train_arm(arm, branch.path, device, on_log=report(arm), warn=warn, start=trunk.path, at_start=at_start)
    branch.write(SUMMARY, record)
    return record
