"""Differences of many pairs, one below another, beside what was printed of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.verdicts.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRINTED: dict[str, Any] = {"marker": "x", "color": "#b3261e", "linestyle": "none", "markersize": 7}


def in_rows(
    axis: Axes,
    intervals: Sequence[Interval],
    labels: Sequence[str],
    *,
    color: str = "#1a1a1a",
    label: str,
    printed: Sequence[float | None] = (),
    source: str = "",
) -> None:
    """Draw hollow markers with intervals around zero, row by row; crosses: `printed`, of all rows or none."""
    places = list(range(len(intervals), 0, -1))
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--")
    axis.errorbar(
        [i.mean for i in intervals],
        places,
        xerr=[i.half_width for i in intervals],
        fmt="o",
        color=color,
        markerfacecolor="white",
        label=label,
    )
    known = [(x, place) for x, place in zip(printed or [None] * len(places), places, strict=True) if x is not None]
    if known:
        axis.plot(*zip(*known, strict=True), label=source, **PRINTED)
    axis.set_yticks(places, labels)
    axis.set_ylim(0.4, len(intervals) + 0.6)
