"""Differences of many arms, one below another, with a mark that says whether each is as predicted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.verdicts.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = (("o", "#1a1a1a"), ("s", "#2f7fb8"), ("^", "#8a5a10"))  # of series
STROKE: dict[str, Any] = {
    "linestyle": "none",
    "marker": "|",
    "color": "#d98a2b",
    "markersize": 14,
    "markeredgewidth": 2,
}
APART = 0.24  # rows between the marks of one arm


@dataclass(frozen=True)
class Mark:
    """A difference.

    Args:
        arm: the row in which it stands.
        series: what it is called in the legend.
        interval: which may be unknown (NaN).
        held: True as predicted, filled; False against it, a cross; None not decided, hollow.
    """

    arm: str
    series: str
    interval: Interval
    held: bool | None


def judged(
    axis: Axes,
    marks: Sequence[Mark],
    labels: Mapping[str, str],
    *,
    band: float,
    predicted: Mapping[str, float] | None = None,
) -> None:
    """Draw marks with their intervals from above, in the order of the labels.

    Args:
        axis: on which.
        marks: any number of each arm, in up to three series.
        labels: of each arm, beside its row.
        band: what is nearer to zero is no difference; it is grey.
        predicted: of some arms, drawn as a stroke.
    """
    place = {arm: len(labels) - i for i, arm in enumerate(labels)}
    series = list(dict.fromkeys(mark.series for mark in marks))
    axis.axvspan(-band, band, color="#e6e6e6", zorder=0)
    axis.axvline(0, color="#1a1a1a", linewidth=0.8, linestyle="--")
    if predicted:
        axis.plot([*predicted.values()], [place[arm] for arm in predicted], label="predicted", **STROKE)
    for mark in marks:
        number = series.index(mark.series)
        shape, color = LOOKS[number]
        at = place[mark.arm] + APART * ((len(series) - 1) / 2 - number)
        if not math.isfinite(mark.interval.mean + mark.interval.half_width):
            axis.text(0, at, "not known of every seed", fontsize=7, va="center", ha="center")
            continue
        look: dict[str, Any] = {"marker": "X", "markersize": 7} if mark.held is False else {"marker": shape}
        face = "white" if mark.held is None else color
        axis.errorbar(
            mark.interval.mean, at, xerr=mark.interval.half_width, color=color, markerfacecolor=face, zorder=3, **look
        )
    for name, (shape, color) in zip(series, LOOKS, strict=False):
        axis.plot([], [], shape, color=color, markerfacecolor="white", label=name)
    axis.set_yticks([place[arm] for arm in labels], list(labels.values()))
    axis.set_ylim(0.4, len(labels) + 0.6)
