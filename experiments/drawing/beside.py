"""Several measurements of the same rows beside each other, and a grid of words on what became of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.drawing import style
from experiments.verdicts.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
