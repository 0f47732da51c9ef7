"""Trainings whose models are kept in the run's folder, for others to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.training.arms import Arm, Initial
from experiments.training.model_folders import WEIGHTS
from experiments.training.pool import record, train_all
from experiments.training.records import describe

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
