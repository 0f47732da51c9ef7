"""Crosslayer's testbed: tasks, models and training in PyTorch.  What happens, measured.

`import icl` does not import torch; `icl.tasks`, `icl.models.toy` and the rest load on first use.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["data", "models", "tasks", "testing", "training"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"icl.{name}")
    raise AttributeError(f"module 'icl' has no attribute {name!r}")
