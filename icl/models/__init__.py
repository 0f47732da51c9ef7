"""Models of the testbed.  Submodules load on first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["decoder", "stacked", "toy"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"icl.models.{name}")
    raise AttributeError(f"module 'icl.models' has no attribute {name!r}")
