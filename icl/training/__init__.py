"""Training loops of the testbed.  Submodules load on first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["checkpoint", "devices", "loop", "optimiser", "recipe", "stacked", "tasks"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"icl.training.{name}")
    raise AttributeError(f"module 'icl.training' has no attribute {name!r}")
