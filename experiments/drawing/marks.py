"""Rows of marks: differences with their intervals, judged or in series; and a grid of words on each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
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
            beside: dict[str, Any] = {"xytext": (-4, 0), "textcoords": "offset points", "va": "center", "ha": "right"}
            axis.annotate("not known in every seed", (0, at), fontsize=7, **beside)
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


COLORS = ("#1a1a1a", "#2f7fb8", "#b3261e", "#8a5a10", "#5b6b3a", "#7a4fa3")  # of series, as many as are drawn
NO, MISSING = "no", ""
FACES = {"yes": "#cfe3f2", NO: "#f0b8b2", MISSING: "#dddddd"}  # of other words: white
Cells = Sequence[str | None]  # None: nothing stands there


def in_series(
    axis: Axes, rows: Mapping[str, str], series: Mapping[str, Mapping[str, Interval]], *, missing: str
) -> None:
    """Draw up to six series around a line at zero; what has no interval is filled.

    Args:
        axis: on which.
        rows: their labels, by name, from above.
        series: by what the legend calls it, the value of each row that it has.
        missing: what is written in a row that no series has.
    """
    place = {row: len(rows) - i for i, row in enumerate(rows)}
    axis.axvline(0, color="#1a1a1a", linewidth=0.8, linestyle="--")
    for number, (label, by_row) in enumerate(series.items()):
        known = [row for row in rows if row in by_row]
        widths = [by_row[row].half_width for row in known]
        axis.errorbar(
            [by_row[row].mean for row in known],
            [place[row] + 0.85 * (0.5 - (number + 1) / (len(series) + 1)) for row in known],
            xerr=widths if any(widths) else None,
            fmt=style.MARKERS[number],
            color=COLORS[number],
            markerfacecolor="white" if any(widths) else COLORS[number],
            label=label,
        )
    for row in rows:
        if not any(row in by_row for by_row in series.values()):
            axis.text(0.0, place[row], f"  {missing}", fontsize=7.5, va="center", color="#666666")
    axis.set_yticks([*place.values()], [*rows.values()])
    axis.set_ylim(0.4, len(rows) + 0.6)


def in_cells(axis: Axes, rows: Mapping[str, Cells], columns: Sequence[tuple[str, str]]) -> None:
    """Write a word into each cell: "yes", "no", MISSING or any other.

    Args:
        axis: on which.
        rows: by label, a word for every column.
        columns: a heading, which neighbours may share, and what stands below it.
    """
    for i, cells in enumerate(rows.values()):
        for j, word in enumerate(cells):
            if word is not None:
                color = FACES.get(word, "white")
                axis.fill_between(
                    [j - 0.46, j + 0.46], i - 0.42, i + 0.42, facecolor=color, edgecolor="#999999", lw=0.5
                )
                axis.text(j, i, word, ha="center", va="center", fontsize=7.5, weight="bold" if word == NO else "normal")
    axis.set_yticks(range(len(rows)), [*rows], fontsize=7.5)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xticks(range(len(columns)), [name for _, name in columns], fontsize=7)
    places = {head: [j for j, (other, _) in enumerate(columns) if other == head] for head, _ in columns}
    axis.xaxis.remove_overlapping_locs = False  # a heading of one column stands where its tick is
    axis.set_xticks([sum(some) / len(some) for some in places.values()], [*places], minor=True, fontsize=7)
    axis.tick_params(axis="x", which="minor", length=0, pad=16)
    axis.grid(visible=False)
