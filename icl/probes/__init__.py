"""What happens inside a model: measurements that leave it as it was.  Submodules load on first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["magnitude"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"icl.probes.{name}")
    raise AttributeError(f"module 'icl.probes' has no attribute {name!r}")
