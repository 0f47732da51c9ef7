"""Checkpoints: a folder with tensors (safetensors) and what they belong to (JSON), written aside and renamed.

The two newest are kept.  One that cannot be read gives way to the one before it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from icl.files import naming

KEPT = 2
TENSORS, ABOUT = "state.safetensors", "state.json"


class BadCheckpoint(ValueError):
    """No checkpoint can be read, or it is of another run.  The message is one line meant for a user."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was saved after `step` steps: tensors by name, on the CPU, and numbers by name."""

    step: int
    tensors: dict[str, Tensor]
    numbers: dict[str, float]


class Checkpoints:
    """The checkpoints of one training, which `identity` names; `warn` is told of unreadable ones."""

    def __init__(self, folder: Path, identity: str, warn: Callable[[str], None]) -> None:
        self.folder, self.identity, self._warn = folder, identity, warn

    def save(self, step: int, tensors: Mapping[str, Tensor], **numbers: float) -> None:
        content = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        about = {"step": step, **numbers, "identity": self.identity}
        about["sha256"] = _digest(about, content)
        final = self._path(step)
        temporary = final.with_suffix(".part")
        for stale in (temporary, final):
            shutil.rmtree(stale, ignore_errors=True)
        temporary.mkdir(parents=True)
        _write(temporary / TENSORS, content)
        _write(temporary / ABOUT, json.dumps(about).encode())
        temporary.rename(final)
        _remove(self._all()[KEPT:])

    def newest(self, *, of_any: bool = False) -> Checkpoint | None:
        """The newest that can be read; None if there is none at all.

        Raises BadCheckpoint if there are some and none can be read, or, unless `of_any`, if it is of another run.
        """
        paths = self._all()
        for number, path in enumerate(paths, 1):
            try:
                about, tensors = _read(path)
                step, identity = int(about.pop("step")), about.pop("identity")
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
                self._warn(f"{path} cannot be read ({error}); resuming from the one before")
                continue
            if identity != self.identity and not of_any:
                raise BadCheckpoint(f"{path} belongs to another run; delete {self.folder} to retrain")
            if not of_any:  # a kill may have come between a save and the removal of what it replaces
                _remove(paths[max(KEPT, number) :])
            return Checkpoint(step, tensors, about)
        if paths:
            raise BadCheckpoint(f"no checkpoint in {self.folder} can be read; delete it to retrain")
        return None

    def _path(self, step: int) -> Path:
        return self.folder / f"checkpoint-{step:09d}"

    def _all(self) -> list[Path]:
        """Newest first."""
        return sorted((p for p in self.folder.glob("checkpoint-*") if p.suffix != ".part"), reverse=True)


def state(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights, and whatever tensors the optimiser keeps of each, as `model.NAME` and `optimiser.KIND.NAME`.

    Raises TypeError for an optimiser that keeps anything else of a parameter, which would be lost.
    """
    tensors = {f"model.{name}": p.detach() for name, p in model.named_parameters()}
    for name, parameter in model.named_parameters():
        for kind, kept in optimiser.state.get(parameter, {}).items():
            if not isinstance(kept, Tensor) or "." in kind:  # names have dots, so kinds must not
                raise TypeError(f"{type(optimiser).__name__} keeps {kind} = {kept!r:.40}; only tensors can be saved")
            tensors[f"optimiser.{kind}.{name}"] = kept
    return tensors


@torch.no_grad()
def restore(model: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give both what `state` had found.  Raises KeyError for what is of no parameter of the model."""
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        parameter.copy_(tensors[f"model.{name}"])
    for key, tensor in tensors.items():
        if key.startswith("optimiser."):
            _, kind, name = key.split(".", 2)
            optimiser.state[parameters[name]][kind] = tensor.to(parameters[name].device)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        shutil.rmtree(path)


def _write(path: Path, content: bytes) -> None:
    with naming(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    about, content = json.loads((path / ABOUT).read_bytes()), (path / TENSORS).read_bytes()
    written = about.pop("sha256")
    if _digest(about, content) != written:
        raise ValueError("it is not what was written")
    return about, load(content)


def _digest(about: dict[str, Any], content: bytes) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode() + b"\0")
    digest.update(content)  # joined, it would be held twice
    return digest.hexdigest()
