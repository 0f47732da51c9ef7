"""How figures look: readable in greyscale, with labels large enough to print at column width."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.verdicts.intervals import Interval
from icl.files import write_atomically
from theory.plans import variants
from theory.skipv1 import paper as skipv1

# Black against a mid grey-blue and a light orange: apart in colour, in brightness and in line style.
MHA: dict[str, Any] = {"color": "#1a1a1a", "linestyle": "--"}
SKIPV1: dict[str, Any] = {"color": skipv1.PAPER.colour, "linestyle": "-"}
TOYS = {"mha": ("MHA", MHA, "s"), "skipv1": (skipv1.PAPER.name, SKIPV1, "o")}  # name, line, marker
BOUND: dict[str, Any] = {"color": "#d98a2b", "linestyle": ":"}
# Variants at full size: colour, line and marker differ, so that any one of the three tells them apart.  Where no colour
# stands, it is the paper's.
VARIANTS: dict[str, dict[str, Any]] = {
    "vanilla": {"color": "#1a1a1a", "linestyle": "--", "marker": "s"},
    "skipv1": {"linestyle": "-", "marker": "o"},
    "resformer": {"linestyle": "-", "marker": "^"},
    "svformer": {"color": "#7a4fa3", "linestyle": "-.", "marker": "D"},
    "skipv0": {"color": "#8a8a8a", "linestyle": ":", "marker": "v"},
    "attnres": {"linestyle": "-", "marker": "P"},
    "attnres-block": {"color": "#66b266", "linestyle": "--", "marker": "X"},
    "denseformer": {"color": "#b3261e", "linestyle": ":", "marker": "<"},
    "cla-v": {"color": "#c2a500", "linestyle": "-.", "marker": ">"},
    "yoco-v": {"color": "#00a0a0", "linestyle": "--", "marker": "h"},
    "twin": {"color": "#b8b8b8", "linestyle": "-", "marker": "."},
}
MARKERS = ("o", "s", "^", "D", "v", "P")

RC: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "errorbar.capsize": 2.5,
    "svg.hashsalt": "crosslayer",
    "svg.fonttype": "none",
}


def look(variant: str) -> dict[str, Any]:
    """Colour, line and marker of a named variant, or of `twin`; its paper's colour, and a star, where none is set."""
    known = VARIANTS.get(variant, {"linestyle": "-", "marker": "*"})
    if "color" in known:
        return known
    registered = variants.VARIANTS.get(variant)
    paper = registered.paper if registered else None
    return {"color": paper.colour if paper else "#1a1a1a", **known}


@contextmanager
def drawing() -> Iterator[None]:
    """The settings above, for whatever is drawn and saved inside."""
    with matplotlib.rc_context(RC):  # type: ignore[arg-type]
        yield


def figure(columns: int, rows: int = 1, width: float = 3.5, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """Panels of width x height inches, row by row, with room for a legend under each."""
    fig = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return fig, list(fig.subplots(rows, columns, squeeze=False).flat)


def bars(axis: Axes, x: Sequence[float], intervals: Sequence[Interval], *, unit: float = 1.0, **look: Any) -> None:
    """Hollow markers with intervals: what was trained."""
    axis.errorbar(
        x,
        [i.mean / unit for i in intervals],
        yerr=[i.half_width / unit for i in intervals],
        linestyle="none",
        markerfacecolor="white",
        **look,
    )


def crosses(axis: Axes, x: Sequence[float], y: Sequence[float], label: str | None = None) -> None:
    """What exact minimisation found."""
    axis.plot(x, y, "x", color="black", markersize=8, zorder=4, label=label)


def finish(axes: list[Axes]) -> None:
    """(a), (b), ... before each panel's title, and its legend below, clear of the data."""
    for name, axis in zip("abcdefgh", axes, strict=False):
        axis.set_title(f"({name}) {axis.get_title(loc='left')}", loc="left")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))


def save(fig: Figure, folder: Path, name: str = "figure") -> None:
    """Of this name, an .svg and a .png."""
    for suffix in ("svg", "png"):
        save_as(fig, folder / f"{name}.{suffix}")


def save_as(fig: Figure, path: Path) -> None:
    """In the format of the name's suffix, without dates, so that equal figures are equal files."""
    kind = path.suffix[1:]
    dated = {"svg": "Date", "pdf": "CreationDate"}
    options: dict[str, Any] = {"metadata": {dated[kind]: None}} if kind in dated else {"dpi": 200}
    buffer = io.BytesIO()
    fig.savefig(buffer, format=kind, bbox_inches="tight", **options)
    write_atomically(path, buffer.getvalue())
