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
    "deep",
    "deep_compressed",
    "enough_heads",
    "few_terms",
    "isserlis",
    "minimise",
    "mix",
    "moments",
    "names",
    "non_gaussian",
    "plan",
    "population",
    "positions",
    "preconditioned",
    "presets",
    "raw_keys",
    "raw_keys_weights",
    "regression",
    "resformer_weights",
    "sizes",
    "skipv1",
    "skipv1_general",
    "skipv1_general_weights",
    "skipv1_w0",
    "skipv1_w0_d2",
    "skipv1_w0_heads",
    "skipv1_weights",
    "spectral",
    "toy",
    "value_maps",
    "variants",
    "width",
    "wishart",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"theory.{name}")
    raise AttributeError(f"module 'theory' has no attribute {name!r}")
