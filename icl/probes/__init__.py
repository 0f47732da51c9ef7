"""Measurements inside a model that leave it unchanged.

    icl.probes.observed(model, tokens, attention=lambda at: at.weights()).attention[1]      layer 1's attention maps
    with icl.probes.attending(model, see): model(tokens)        `see` is shown every layer's `Attended`

Both work under every plan.  `crosslayer probe` and the experiments use the modules beside these.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icl.probes.recording import Attended, Observed, attending, observed

__all__ = ["Attended", "Observed", "attending", "observed"]

_HOMES = dict.fromkeys(__all__, "icl.probes.recording")

if not TYPE_CHECKING:  # a type checker reads the imports above, and a name that is not there is an error

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, without what happens to be loaded."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
