"""Real text as tokens: sources, tokenizers, shards on disk and windows over them.  Submodules load on first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["shards", "sources", "tokenizers", "windows"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"icl.data.{name}")
    raise AttributeError(f"module 'icl.data' has no attribute {name!r}")
