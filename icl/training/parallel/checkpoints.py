"""Checkpoints of several processes, each of which saves its part while training goes on.

A folder as `icl.checkpoint` has it, with a safetensors file per process, by torch.distributed.checkpoint.  It gets its
name when all files are there and synced and the first process has written down their digests; so a kill, at whatever
moment and of whichever process, leaves the one before it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from icl.checkpoint import (
    FILES,
    UNREADABLE,
    BadCheckpoint,
    Checkpoint,
    Checkpoints,
    described,
    digest_of,
    digest_of_file,
)
from icl.training.parallel.agreeing import Agreement


class ShardedCheckpoints:
    """The checkpoints of one training, which `identity` names.

    The first process calls `warn` for unreadable ones.
    """

    def __init__(self, folder: Path, identity: str, warn: Callable[[str], None], agreement: Agreement) -> None:
        self.identity, self._warn, self._agreement = identity, warn, agreement
        self._of_folder = Checkpoints(folder, identity, warn)
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._under_way: Future[None] | None = None

    def save(self, step: int, tensors: Mapping[str, Tensor], **numbers: float) -> None:
        """Copy the tensors and return; they are written meanwhile.

        Raises what went wrong the time before.
        """
        self.wait()
        part = Path(self._agreement.first(lambda: str(self._of_folder.begun(step))))
        writer = HuggingFaceStorageWriter(str(part), save_distributed=True)
        group = self._agreement.saving
        written: Any = async_save(dict(tensors), storage_writer=writer, process_group=group)
        about = {"step": step, **numbers, "identity": self.identity}
        self._under_way = self._thread.submit(self._end, written, part, about)

    def _end(self, written: Future[Any], part: Path, about: Mapping[str, Any]) -> None:
        """Complete a checkpoint, in a thread of its own, after all processes have written."""
        try:
            written.result()
        except BaseException as error:  # of torch, which raises it in all processes
            raise _reason(error, part) from None
        of_all: list[Any] = [None] * self._agreement.count
        dist.all_gather_object(of_all, self._digests(part), group=self._agreement.saving)
        if told := next((found for found in of_all if isinstance(found, str)), None):
            raise OSError(errno.EIO, told, str(part))
        if self._agreement.rank == 0:
            everything = {**about, FILES: {name: digest for some in of_all for name, digest in some.items()}}
            self._of_folder.ended(part, everything, digest_of(everything))

    def _digests(self, part: Path) -> dict[str, str] | str:
        """Return the digests of this process's files, by name; or why they cannot be read."""
        try:
            return {file.name: digest_of_file(file) for file in part.glob(f"shard-{self._agreement.rank + 1:05d}-*")}
        except OSError as error:
            return str(error)

    def wait(self) -> None:
        """Wait until the last save is on disk.  Raises OSError if it could not be written."""
        under_way, self._under_way = self._under_way, None
        with self._agreement.together():
            if under_way is not None:
                under_way.result()

    def close(self) -> None:
        """Wait for the writing thread alone, and ignore its errors."""
        self._thread.shutdown()

    def newest(self, *, of_any: bool = False) -> Checkpoint | None:
        """Return the newest checkpoint as `Checkpoints.newest` does, without the tensors.

        Every process checks a part of the files.
        """
        paths = [Path(path) for path in self._agreement.first(lambda: [str(path) for path in self._of_folder.paths()])]
        for path in paths:
            found, trouble = self._checked(path)
            troubles = self._agreement.all(trouble)
            if told := next(filter(None, troubles), None):
                if self._agreement.rank == 0:
                    self._warn(f"{path} cannot be read ({told}); resuming from the one before")
                continue
            assert found is not None
            with self._agreement.together():
                if found[1] != self.identity and not of_any:
                    raise BadCheckpoint(f"{path} belongs to another run; delete {path.parent} to retrain")
            return Checkpoint(found[0], {}, found[2], folder=path)
        with self._agreement.together():
            if paths:
                raise BadCheckpoint(f"no checkpoint in {paths[0].parent} can be read; delete it to retrain")
        return None

    def _checked(self, path: Path) -> tuple[tuple[int, str, dict[str, float]] | None, str]:
        """Return a checkpoint's description, and what is wrong with it, if anything is."""
        try:
            about = described(path, self._agreement.rank, self._agreement.count)
            return (int(about.pop("step")), about.pop("identity"), about), ""
        except UNREADABLE as error:
            return None, str(error) or type(error).__name__


@torch.no_grad()
def read(model: nn.Module, optimiser: torch.optim.Optimizer, folder: Path) -> None:
    """Restore model and optimiser, saved by any number of processes: each reads its part alone."""
    reader = HuggingFaceStorageReader(str(folder))
    parameters = dict(model.named_parameters())
    wanted: dict[str, Tensor] = {}
    there: dict[str, Any] = reader.read_metadata().state_dict_metadata
    for key, about in there.items():
        if key.startswith("model."):
            wanted[key] = parameters[key.removeprefix("model.")].detach()
            continue
        _, kind, name = key.split(".", 2)
        of = parameters[name]
        cut = about.size == of.shape
        kept = torch.zeros_like(of) if cut else torch.zeros(about.size, device=of.device)
        wanted[key] = optimiser.state[of][kind] = kept.detach()
    if missing := {f"model.{name}" for name in parameters} - wanted.keys():
        raise KeyError(min(missing))
    load(wanted, storage_reader=reader)


def _reason(error: BaseException, part: Path) -> BaseException:
    """Return the error of the process in which it occurred, with a file's name."""
    failures = getattr(error, "failures", {})
    for failure in failures.values():
        inner: BaseException | None = failure[0] if isinstance(failure, tuple) else failure
        while inner is not None:
            if isinstance(inner, OSError):
                inner.filename = inner.filename or str(part)
                return inner
            inner = inner.__cause__ or inner.__context__
    if failures:
        return OSError(errno.EIO, str(next(iter(failures.values()))[0]).partition("\n")[0], str(part))
    return error
