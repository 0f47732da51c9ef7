"""Trainings whose models are kept in the run's folder, for others to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, UserError
from experiments.training.arms import Arm, Initial
from experiments.training.model_folders import WEIGHTS
from experiments.training.pool import record, train_all
from experiments.training.records import describe

MODELS = "models"


def train_keeping(arms: Sequence[Arm], run: RunFolder, label: str) -> dict[Arm, Json]:
    """As `pool.train_all`; of every training that ends, a folder with its model (`icl.load`) is left."""
    return train_all(arms, run, label, work=partial(_kept, models=str(run / MODELS)))


def beginning(arm: Arm, run: RunFolder, how: str = "mean") -> Initial:
    """What begins with the model that a training kept; how: the way to another plan.

    Raises UserError where it has gone, as where a run was carried to another machine without it.
    """
    key = arm.key(run.slot.device)
    folder = run / MODELS / key
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} is gone, with which other trainings begin; delete the lines of {key} to train again")
    return Initial(str(folder), key, how)


def _kept(arm: Arm, desk: Desk, models: str) -> Json:
    folder = Path(models) / arm.key(desk.slot.device)
    folder.mkdir(parents=True, exist_ok=True)
    describe(arm, RunFolder(folder))
    return record(arm, desk, folder / WEIGHTS)
