"""Which device a training runs on."""

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
