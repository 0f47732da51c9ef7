"""What trainings on the command line are asked: which device, and which sizes make sense."""

from __future__ import annotations

from experiments.store.folders import UserError


def chosen_device(name: str) -> str:
    """auto, cpu or cuda as a device that is there.  Raises UserError."""
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
