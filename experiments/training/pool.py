"""Many trainings, each a line of the run's metrics.jsonl once it is finished (`experiments.store.work`).

Models that others begin with are kept in the run's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.store.backends import Work
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.progress import warn
from experiments.store.work import results
from experiments.training import memory
from experiments.training.arms import Arm, Initial
from experiments.training.model_folders import WEIGHTS
from experiments.training.records import describe, note, train_arm

if TYPE_CHECKING:
    from icl.training.loop import Logged

Trainer = Callable[[Sequence[Arm], RunFolder, str], dict[Arm, Json]]  # `train_all`, or its like


def train_all(arms: Sequence[Arm], run: RunFolder, label: str, *, work: Work[Arm] | None = None) -> dict[Arm, Json]:
    """Return the records of all arms that are finished, or get finished before the slot's deadline, in the order given.

    work: what trains one, by default `record`.  Raises UserError, before any is trained, if one of the others needs
    more memory than there is.
    """
    keys = {arm: arm.key(run.slot.device) for arm in arms}
    items = {key: arm for arm, key in keys.items()}
    finished = {line.get("key") for line in run.metrics()}
    for key, arm in items.items():
        if key not in finished:
            memory.check(arm, run.slot.device)
    records = results(
        "run", items, work or record, run=run, label=label, size=lambda arm: arm.recipe.steps, partial=True
    )
    return {arm: records[key] for arm, key in keys.items() if key in records}


def record(arm: Arm, desk: Desk, weights: Path | None = None) -> Json:
    """Return the record of a training, which is resumed from the desk's folder; its weights are left at `weights`."""

    def report(logged: Logged) -> None:
        desk.report(logged.step, note(arm, logged))

    return train_arm(arm, desk.folder, desk.slot.device, on_log=report, warn=warn, weights=weights)


MODELS = "models"


def train_keeping(arms: Sequence[Arm], run: RunFolder, label: str) -> dict[Arm, Json]:
    """Train as `pool.train_all` does; every training that ends leaves a folder with its model (`icl.load`)."""
    return train_all(arms, run, label, work=partial(_kept, models=str(run / MODELS)))


def beginning(arm: Arm, run: RunFolder, how: str | None = None) -> Initial:
    """Return initial weights from the model that a training kept; how: the way to another plan.

    It need not be there for what is finished: a run may be carried to another machine without it.
    """
    key = arm.key(run.slot.device)
    return Initial(str(run / MODELS / key), key, how)


def _kept(arm: Arm, desk: Desk, models: str) -> Json:
    return record(arm, desk, model_folder(models, arm, desk.slot.device) / WEIGHTS)


def model_folder(models: str, arm: Arm, device: str) -> Path:
    """Return the folder for an arm's model, which says what it is and still lacks the weights."""
    folder = Path(models) / arm.key(device)
    folder.mkdir(parents=True, exist_ok=True)
    describe(arm, RunFolder(folder))
    return folder
