"""Crosslayer's mathematics: what must be true, and by how much.  numpy, scipy and sympy; never torch.

`import theory` costs nothing; `theory.skipv1` and its neighbours load on first use.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = [
    "accounting",
    "architecture",
    "attnres",
    "combine",
    "isserlis",
    "minimise",
    "mix",
    "moments",
    "names",
    "plan",
    "population",
    "presets",
    "raw_keys",
    "raw_keys_weights",
    "regression",
    "sizes",
    "skipv1",
    "skipv1_weights",
    "toy",
    "value_maps",
    "variants",
    "width",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"theory.{name}")
    raise AttributeError(f"module 'theory' has no attribute {name!r}")
