"""Checkpoints: a folder with tensors (safetensors) and their description (JSON), written aside and renamed.

The two newest are kept.  One that cannot be read gives way to the one before it.  The tensors lie in one file or, where
several processes have saved them (`icl.training.parallel`), cut along their first dimension into a file each, as
torch.distributed.checkpoint writes safetensors.  Both are read here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
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
FILES = "files"  # of several processes, by name their digests
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError)


class BadCheckpoint(ValueError):
    """An error: no checkpoint can be read, or it belongs to another run.  The message is one line meant for a user."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A saved training after `step` steps: tensors by name, on the CPU, and numbers by name.  It lies in `folder`."""

    step: int
    tensors: dict[str, Tensor]
    numbers: dict[str, float]
    folder: Path


class Checkpoints:
    """The checkpoints of one training, which `identity` names; `warn` receives a message for unreadable ones."""

    def __init__(self, folder: Path, identity: str, warn: Callable[[str], None]) -> None:
        self.folder, self.identity, self._warn = folder, identity, warn

    def save(self, step: int, tensors: Mapping[str, Tensor], **numbers: float) -> None:
        content = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        about = {"step": step, **numbers, "identity": self.identity}
        part = self.begun(step)
        _write(part / TENSORS, content)
        self.ended(part, about, _digest(about, content))

    def begun(self, step: int) -> Path:
        """Return an empty folder for a checkpoint after `step` steps."""
        final = self._path(step)
        part = final.with_suffix(".part")
        for stale in (part, final):
            shutil.rmtree(stale, ignore_errors=True)
        part.mkdir(parents=True)
        return part

    def ended(self, part: Path, about: Mapping[str, Any], digest: str) -> None:
        """Write the description and the digest of all into the folder, and give it its name."""
        _write(part / ABOUT, json.dumps({**about, "sha256": digest}).encode())
        part.rename(part.with_suffix(""))
        _remove(self.paths()[KEPT:])

    def newest(self, *, of_any: bool = False) -> Checkpoint | None:
        """Return the newest checkpoint that can be read; None if there is none at all.

        Raises BadCheckpoint if there are some and none can be read, or, unless `of_any`, if it belongs to another run.
        """
        paths = self.paths()
        for number, path in enumerate(paths, 1):
            try:
                about, tensors = _read(path)
                step, identity = int(about.pop("step")), about.pop("identity")
            except UNREADABLE as error:
                self._warn(f"{path} cannot be read ({error}); resuming from the one before")
                continue
            if identity != self.identity and not of_any:
                raise BadCheckpoint(f"{path} belongs to another run; delete {self.folder} to retrain")
            if not of_any:  # a kill may have come between a save and the removal of what it replaces
                _remove(paths[max(KEPT, number) :])
            return Checkpoint(step, tensors, about, folder=path)
        if paths:
            raise BadCheckpoint(f"no checkpoint in {self.folder} can be read; delete it to retrain")
        return None

    def wait(self) -> None:
        """Do nothing, as everything is on disk when `save` returns."""

    def _path(self, step: int) -> Path:
        return self.folder / f"checkpoint-{step:09d}"

    def paths(self) -> list[Path]:
        """Return the paths, newest first."""
        return sorted((p for p in self.folder.glob("checkpoint-*") if p.suffix != ".part"), reverse=True)


def state(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return weights, and the optimiser's tensors for each, as `model.NAME` and `optimiser.KIND.NAME`.

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
    """Restore model and optimiser from the tensors that `state` returned.

    Raises KeyError for tensors of no parameter of the model.
    """
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
    about = json.loads((path / ABOUT).read_bytes())
    if FILES in about:
        return described(path), _joined(path)
    content = (path / TENSORS).read_bytes()
    written = about.pop("sha256")
    if _digest(about, content) != written:
        raise ValueError("it is not what was written")
    return about, load(content)


def described(path: Path, rank: int = 0, count: int = 1) -> dict[str, Any]:
    """Return a checkpoint's description, after checking every `count`-th of its files, from `rank` on.

    Raises one of UNREADABLE if anything is not as it was written.
    """
    about: dict[str, Any] = json.loads((path / ABOUT).read_bytes())
    written = about.pop("sha256")
    if FILES not in about:
        if rank == 0 and _digest(about, (path / TENSORS).read_bytes()) != written:
            raise ValueError("it is not what was written")
        return about
    if digest_of(about) != written:
        raise ValueError("it is not what was written")
    digests = about.pop(FILES)
    if digests.keys() != {file.name for file in path.glob("*.safetensors")}:
        raise ValueError("its files are not those that were written")
    for name in sorted(digests)[rank::count]:
        if digest_of_file(path / name) != digests[name]:
            raise ValueError(f"{name} is not what was written")
    return about


def _joined(path: Path) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint in several files."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(path))
    there: dict[str, Any] = reader.read_metadata().state_dict_metadata
    tensors = {name: torch.empty(about.size, dtype=about.properties.dtype) for name, about in there.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)  # as is meant
        load(tensors, storage_reader=reader, no_dist=True)
    return tensors


def digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(about: Mapping[str, Any]) -> str:
    """Return the digest of the description of a checkpoint in several files, which holds their digests."""
    return _digest(about, b"")


def _digest(about: Mapping[str, Any], content: bytes) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode() + b"\0")
    digest.update(content)  # joined, it would be held twice
    return digest.hexdigest()
