"""How the ladder's figures show a variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from experiments.drawing import style
from experiments.verdicts.intervals import Interval

ABREAST = 0.07  # of the way to the next place, between the markers of neighbouring variants
MORE_LOOKS: dict[str, dict[str, Any]] = {
    "shared-keys": {"color": "#5b6b3a", "linestyle": "--", "marker": "p"},
    "first-added": {"color": "#a05a2c", "linestyle": ":", "marker": "*"},
}


def look_of(variant: str) -> dict[str, Any]:
    """Colour, line and marker."""
    return MORE_LOOKS.get(variant) or style.look(variant)


def bars(axis: Axes, at: Sequence[float], found: Sequence[Interval], name: str | None, shown: dict[str, Any]) -> None:
    """Open markers with their intervals."""
    plain = {what: x for what, x in shown.items() if what != "linestyle"}
    style.bars(axis, at, found, label=name, elinewidth=0.8, **plain)
