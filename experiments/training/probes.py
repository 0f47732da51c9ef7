"""Probes by name: measurements of a model before and after it is trained.

magnitude                 the function `probe` of `experiments.training.magnitude_probe`; so for any other word
standard                  what the campaign measures of every model (`experiments.training.standard_probe`)
package.module:function   a function of one's own, which has to be importable wherever it is trained
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from experiments.store.folders import Json, UserError

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

    Probe = Callable[[Decoder, Task, str], Json]

MAGNITUDE, STANDARD = "magnitude", "standard"


def probe(name: str) -> Probe:
    """Return the function of a probe, which takes a model, its task and the device.

    Raises:
        UserError: if there is nothing of that name.
    """
    _, _, function = name.partition(":")
    try:
        measure: Probe = getattr(import_module(module(name)), function or "probe")
    except (ImportError, AttributeError) as error:
        raise UserError(f"there is no probe {name!r}: {error}") from error
    return measure


def module(name: str) -> str:
    """Return the module that a probe is in."""
    place, _, function = name.partition(":")
    return place if function else f"{__package__}.{name}_probe"
