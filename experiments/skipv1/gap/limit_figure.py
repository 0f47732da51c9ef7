"""The second figure of `skipv1-gap`: the share of the signal explained as the context grows."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.gap.limit import point_of, shares
from experiments.store.folders import Json
from experiments.verdicts.intervals import t_interval


def draw(prediction: Json, measurement: Json) -> Figure:
    """Return two panels: the share over the context length, and over the width with an endless context."""
    fig, axes = style.figure(2, width=3.7)
    _over_context(axes[0], prediction, measurement)
    _over_width(axes[1], prediction, measurement)
    for axis in axes:
        style.crosses(axis, [], [], "exact minimisation")
        axis.axhline(0.25, color="#999999", linewidth=0.8)
        axis.set_ylim(-0.03, 1.12)
        axis.set_ylabel(r"share of $E\,\|W^*\|^2$ explained")
    style.finish(axes)
    return fig


def _over_context(axis: Axes, prediction: Json, measurement: Json) -> None:
    d, curve, contexts = prediction["d"], prediction["curve"], prediction["contexts"]
    for toy, (name, look, marker) in style.TOYS.items():
        axis.plot([row["n"] for row in curve], [row[toy] for row in curve], label=f"{name}, closed form", **look)
        _crosses(axis, "n", contexts, toy, measurement)
        trained = {row["n"]: measurement["trained"].get(point_of(row, toy)) for row in contexts}
        intervals = {n: t_interval(shares(values, d)) for n, values in trained.items() if values}
        label = f"{name}, trained, 95 %"
        style.bars(axis, list(intervals), list(intervals.values()), marker=marker, color=look["color"], label=label)
    end = (contexts[-1]["n"], 0.25)
    axis.annotate("one quarter", end, xytext=(0, 4), textcoords="offset points", ha="right", fontsize=7.5)
    axis.set_xscale("log", base=2)
    axis.set_xlabel("context length $n$ (pairs)")
    axis.set_title(f"Against context length, $d={d}$, $\\sigma={prediction['sigma']:g}$")


def _over_width(axis: Axes, prediction: Json, measurement: Json) -> None:
    widths = prediction["widths"]
    for toy, (name, look, _) in style.TOYS.items():
        axis.plot([row["d"] for row in widths], [row[toy] for row in widths], label=f"{name}, closed form", **look)
        _crosses(axis, "d", widths, toy, measurement)
    axis.set_xlabel("width $d$")
    axis.set_title("In the limit of endless context")


def _crosses(axis: Axes, over: str, rows: list[Json], toy: str, measurement: Json) -> None:
    found = [measurement["exact"][point_of(row, toy)]["explained"] / row["d"] ** 2 for row in rows]
    style.crosses(axis, [row[over] for row in rows], found)
