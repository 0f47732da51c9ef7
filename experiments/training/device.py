"""A user's settings for trainings: which device, for how long, and which sizes make sense."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.store.folders import Slot, UserError

if TYPE_CHECKING:
    from experiments.experiment.protocol import Experiment


def chosen_device(name: str) -> str:
    """Return auto, cpu or cuda as a device that is there.  Raises UserError."""
    if name == "cpu":
        return name
    import torch

    there = torch.cuda.is_available()
    if name == "auto":
        return "cuda" if there else "cpu"
    if name != "cuda":
        raise UserError(f"--device must be auto, cpu or cuda, got {name!r}")
    if not there:
        raise UserError("there is no GPU that torch can use here; try --device cpu")
    return name


def check_at_least_one(**options: int | None) -> None:
    """Raise UserError for an option that is given and below 1."""
    for name, value in options.items():
        if value is not None and value < 1:
            raise UserError(f"--{name} must be at least 1, got {value}")


def slot_for(
    experiments: Iterable[Experiment],
    profile: str,
    device: str,
    *,
    jobs: int = 0,
    minutes: float | None = None,
    data: str | None = None,
    on: str = "here",
) -> Slot:
    """Return the machine time for some experiments, checked.

    device   cpu, cuda, or auto: a GPU where a profile wants one; torch looks for it only then
    minutes  until all of it is over
    on       here, or ray: a cluster, whose nodes have the device

    Raises UserError.
    """
    if jobs < 0:
        raise UserError(f"--jobs must not be negative, got {jobs}")
    if minutes is not None and not 0 < minutes < math.inf:
        raise UserError(f"--minutes must be positive, got {minutes}")
    if on not in ("here", "ray"):
        raise UserError(f"--on must be here or ray, got {on!r}")
    if data is not None and not (Path(data) / "manifest.json").is_file():
        raise UserError(f"{data} holds no prepared data; see `crosslayer data prepare --help`")
    wanted = {e.profiles[profile].device for e in experiments if profile in e.profiles}
    if device == "auto":
        device = "cuda" if "cuda" in wanted else "cpu"
    deadline = None if minutes is None else time.time() + 60 * minutes
    if on == "ray":
        if device not in ("cpu", "cuda"):
            raise UserError(f"--device must be auto, cpu or cuda, got {device!r}")
        return Slot(device, jobs, deadline, data=data, on=on)
    return Slot(chosen_device(device), jobs, deadline, data=data)
