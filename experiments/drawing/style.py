"""The look of figures: readable in greyscale, with labels large enough to print at column width.

Matplotlib is imported when something is drawn, so that an experiment can import this module at its top.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.verdicts.intervals import Interval
from icl.files import write_atomically
from theory.dva import paper as dva
from theory.plans import variants
from theory.skipv1 import paper as skipv1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Black against a mid grey-blue and a light orange: apart in colour, in brightness and in line style.
MHA: dict[str, Any] = {"color": "#1a1a1a", "linestyle": "--"}
DVA = dva.PAPER.colour
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
    "resformer-learned": {"color": "#8a5a10", "linestyle": ":", "marker": "H"},
    "skipv0": {"color": "#8a8a8a", "linestyle": ":", "marker": "v"},
    "attnres": {"linestyle": "-", "marker": "P"},
    "attnres-block": {"color": "#66b266", "linestyle": "--", "marker": "X"},
    "attnres-block:size": {"color": "#c96a8b", "linestyle": "-.", "marker": "p"},  # their size is set, not their number
    "denseformer": {"color": "#b3261e", "linestyle": ":", "marker": "<"},
    "cla-v": {"color": "#c2a500", "linestyle": "-.", "marker": ">"},
    "yoco-v": {"color": "#00a0a0", "linestyle": "--", "marker": "h"},
    "shared-keys": {"color": "#5b6b3a", "linestyle": "--", "marker": "p"},
    "first-added": {"color": "#a05a2c", "linestyle": ":", "marker": "*"},
    "twin": {"color": "#b8b8b8", "linestyle": "-", "marker": "."},
}
LEGEND_GAP = 0.08  # inches between a panel's labels and its legend
# Of formulas matplotlib names one font, without which a browser takes one with serifs; of other text it names several.
ALONE = (b"font-family: 'DejaVu Sans'\"", b"font-family: 'DejaVu Sans', 'Bitstream Vera Sans', 'Verdana', sans-serif\"")
MARKERS = ("o", "s", "^", "D", "v", "P")

RC: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "errorbar.capsize": 2.5,
    "svg.hashsalt": "crosslayer",
    "svg.fonttype": "none",
}


def look(variant: str) -> dict[str, Any]:
    """Return colour, line and marker of a variant, or of `twin`; its paper's colour, and a star, where none is set.

    With options, such as attnres-block:size=4: the option's own, or else the variant's.
    """
    names = (variant, variant.partition("=")[0], variant.partition(":")[0])
    known = next((VARIANTS[name] for name in names if name in VARIANTS), {"linestyle": "-", "marker": "*"})
    if "color" in known:
        return known
    registered = variants.VARIANTS.get(names[-1])
    paper = registered.paper if registered else None
    return {"color": paper.colour if paper else "#1a1a1a", **known}


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the settings above to whatever is drawn and saved inside."""
    import matplotlib

    with matplotlib.rc_context(RC):  # type: ignore[arg-type]
        yield


def figure(columns: int, rows: int = 1, width: float = 3.5, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """Return panels of width x height inches, row by row, with room for a legend under each."""
    from experiments.drawing.canvas import canvas

    fig = canvas(width * columns, height * rows)
    return fig, list(fig.subplots(rows, columns, squeeze=False).flat)


def panels(count: int, width: float = 3.5, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """Return so many panels of width x height inches, two in a row, so that their words stay as large as a page's."""
    fig, axes = figure(min(count, 2), rows=(count + 1) // 2, width=width, height=height)
    for axis in axes[count:]:
        axis.remove()
    return fig, axes[:count]


def bars(axis: Axes, x: Sequence[float], intervals: Sequence[Interval], *, unit: float = 1.0, **look: Any) -> None:
    """Draw hollow markers with intervals: what was trained."""
    axis.errorbar(
        x,
        [i.mean / unit for i in intervals],
        yerr=[i.half_width / unit for i in intervals],
        **{"linestyle": "none", "markerfacecolor": "white", **look},
    )


def geometric(
    axis: Axes, x: Sequence[float], logs: Sequence[Interval], *, along: bool = False, **look: Any
) -> list[float]:
    """Draw hollow markers at geometric means and return these; intervals are of logarithms, so none goes below 0.

    along: the means lie along the horizontal axis, and x on the other
    """
    means = [math.exp(i.mean) for i in logs]
    errors = [[abs(m * math.expm1(s * i.half_width)) for m, i in zip(means, logs, strict=True)] for s in (-1, 1)]
    places: dict[str, Any] = {"x": means, "y": x, "xerr": errors} if along else {"x": x, "y": means, "yerr": errors}
    axis.errorbar(**places, **{"linestyle": "none", "markerfacecolor": "white", **look})
    return means


def seeds(axis: Axes, x: float, values: Sequence[float], color: str) -> None:
    """Draw a small dot per seed: where seeds fall into several kinds, an interval of their mean hides it."""
    from matplotlib.transforms import ScaledTranslation

    beside = axis.transData + ScaledTranslation(4 / 72, 0, axis.figure.dpi_scale_trans)
    axis.plot([x] * len(values), values, ".", color=color, markersize=3.5, markeredgewidth=0, transform=beside)


def crosses(axis: Axes, x: Sequence[float], y: Sequence[float], label: str | None = None) -> None:
    """Draw crosses for the results of exact minimisation."""
    axis.plot(x, y, "x", color="black", markersize=8, markeredgewidth=0.8, zorder=4, label=label)  # hides no marker


def tokens_per_parameter(axis: Axes, x: Sequence[float]) -> None:
    """Make these the axis's x, in doublings, written out; x: the points, whether or not anything is known there."""
    axis.set_xlim(x[0] / 1.1, 1.1 * x[-1])
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("tokens per parameter")


def finish(axes: list[Axes]) -> None:
    """Put (a), (b), ... before each panel's title, and its legend below, clear of the data."""
    for name, axis in zip("abcdefgh", axes, strict=False):
        axis.set_title(f"({name}) {axis.get_title(loc='left')}", loc="left")
        legend_below(axis)


def legend_below(axis: Axes, columns: int = 3) -> None:
    """Draw a legend below the panel's own labels, in as many columns as fit: it is not to outgrow the panel."""
    from matplotlib.transforms import ScaledTranslation

    handles, labels = axis.get_legend_handles_labels()
    if not handles:
        return
    under = axis.xaxis.get_tightbbox()
    below = axis.bbox.y0 - under.y0 if under is not None else 0.0
    gap = ScaledTranslation(0, -below / axis.figure.dpi - LEGEND_GAP, axis.figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 0.0}
    grid = axis.get_gridspec()
    room = 0.95 * axis.figure.bbox.width / (grid.ncols if grid else 1)
    for tried in range(min(columns, (len(labels) + 1) // 2), 0, -1):
        legend = axis.legend(handles, labels, bbox_transform=axis.transAxes + gap, ncols=tried, **place)
        if legend.get_window_extent().width < room:
            return


def save(fig: Figure, folder: Path, name: str = "figure") -> None:
    """Save a figure under this name, as .svg and .png."""
    for suffix in ("svg", "png"):
        save_as(fig, folder / f"{name}.{suffix}")


def save_as(fig: Figure, path: Path) -> None:
    """Save a figure in the format of the name's suffix, without dates, so that equal figures are equal files."""
    kind = path.suffix[1:]
    dated = {"svg": "Date", "pdf": "CreationDate"}
    options: dict[str, Any] = {"metadata": {dated[kind]: None}} if kind in dated else {"dpi": 200}
    buffer = io.BytesIO()
    fig.savefig(buffer, format=kind, bbox_inches="tight", **options)
    content = buffer.getvalue()
    write_atomically(path, content.replace(*ALONE) if kind == "svg" else content)
