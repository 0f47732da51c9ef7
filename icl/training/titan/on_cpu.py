"""torchtitan's training on a CPU: its own loop, told of a device that it does not look for.

    python -m icl.training.titan.on_cpu --module icl.training.titan --config skipv1_small

torchtitan takes the first accelerator that there is, and counts its memory; without one it fails.  This module names
the CPU in its place, counts no memory, and runs torchtitan.train.  Started without torchrun, it is one process.
torchtitan 0.3 also calls `torch.distributed.set_timeout`, which torch 2.13 has under another name.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _set_pg_timeout
from torchtitan.tools import utils

ONE_PROCESS = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}


class Cpu:
    """A device's module for the CPU, with the functions that torchtitan calls; torch.cpu has the others."""

    memory = SimpleNamespace()

    def get_device_name(self, _device: Any = None) -> str:
        return "CPU"

    def get_device_properties(self, _device: Any = None) -> Any:
        return SimpleNamespace(total_memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))

    def memory_stats(self, _device: Any = None) -> dict[str, int]:
        return {}

    def reset_peak_memory_stats(self, _device: Any = None) -> None: ...

    def empty_cache(self) -> None: ...

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, _device: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


def prepare() -> None:
    """Name the CPU as torchtitan's device; before anything else of torchtitan is imported."""
    if "WORLD_SIZE" not in os.environ:
        os.environ.update(ONE_PROCESS)
    utils.device_type, utils.device_module = "cpu", Cpu()
    if not hasattr(dist, "set_timeout"):
        dist.set_timeout = _set_pg_timeout  # type: ignore[attr-defined]


def main() -> None:
    """Run torchtitan's training on the CPU."""
    prepare()
    from torchtitan.train import main as train

    train()


if __name__ == "__main__":
    main()
