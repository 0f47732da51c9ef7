"""How the ladder's figures show intervals of variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from experiments.drawing import style
from experiments.verdicts.intervals import Interval

ABREAST = 0.07  # of the way to the next place, between the markers of neighbouring variants


def bars(axis: Axes, at: Sequence[float], found: Sequence[Interval], name: str | None, shown: dict[str, Any]) -> None:
    """Open markers with their intervals."""
    plain = {what: x for what, x in shown.items() if what != "linestyle"}
    style.bars(axis, at, found, label=name, elinewidth=0.8, **plain)
