"""The figure of `scale-decode`: bytes of the cache, time of a step beside what it reads, and time of a prompt."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.decoding.verdicts import BASELINE, logs, over_vanilla
from experiments.store.folders import Json
from experiments.verdicts.intervals import Interval

COLOURS = ("#1a1a1a", "#2f7fb8", "#d98a2b", "#7a4fa3", "#66b266", "#8a8a8a")


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(3, width=4.6, height=4.8)
    names = list(prediction["kept"])
    _kept(axes[0], prediction, measurement, names)
    _steps(axes[1], prediction, measurement, names)
    _prompts(axes[2], prediction, measurement, names)
    style.finish(axes)
    for axis in axes:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=1)
    return fig


def _kept(axis: Axes, prediction: Json, measurement: Json, names: list[str]) -> None:
    """Bytes a token over vanilla's: of the formula, and as they were allocated."""
    base = prediction["kept"][BASELINE]
    places = list(range(len(names), 0, -1))
    shares = [prediction["kept"][name] / base for name in names]
    axis.barh(places, shares, color="#c9dcec", edgecolor="#2f7fb8", height=0.6, label="formula")
    size = next(iter(prediction["read"][BASELINE]))
    bytes_ = {name: measurement["sides"][name]["sizes"][size]["bytes"] for name in names}
    found = [bytes_[name] / bytes_[BASELINE] for name in names]
    axis.plot(found, places, "o", color="#1a1a1a", markerfacecolor="white", label="allocated")
    for place, share in zip(places, shares, strict=True):
        axis.annotate(f"{share:.0%}", (share, place), xytext=(6, -3), textcoords="offset points", fontsize=8)
    axis.set_xlim(0, 1.15)
    axis.set_yticks(places, names)
    axis.set_xlabel("bytes kept of a token, over vanilla's")
    axis.set_title("The cache")


def _steps(axis: Axes, prediction: Json, measurement: Json, names: list[str]) -> None:
    """Time of a step over vanilla's, all sizes; crosses: what it reads over what vanilla reads."""
    others = [name for name in [*names, *measurement["sides"]] if name != BASELINE]
    others = list(dict.fromkeys(others))
    for i, size in enumerate(prediction["read"][BASELINE]):
        places = [len(others) - k + 0.28 - 0.18 * i for k in range(len(others))]
        batch, tokens = map(int, size.split(" x "))
        colour = COLOURS[i % len(COLOURS)]
        for place, name in zip(places, others, strict=True):
            _bar(axis, place, over_vanilla(measurement, name, size), color=colour, marker=style.MARKERS[i])
            if name in prediction["read"]:
                said = prediction["read"][name][size] / prediction["read"][BASELINE][size]
                axis.plot([said], [place], "x", color=colour, markersize=5)
        label = f"{batch} sequence{'s' if batch > 1 else ''} of {tokens:,} tokens before"
        axis.plot([], [], style.MARKERS[i], color=colour, markerfacecolor="white", label=label)
    axis.plot([], [], "x", color="#1a1a1a", label="what a step reads, over vanilla's")
    _finish(axis, others, "time of a step over vanilla's, 95 % for all at once", "A decoded token")


def _prompts(axis: Axes, prediction: Json, measurement: Json, names: list[str]) -> None:
    others = [name for name in names if name != BASELINE]
    sides = measurement["sides"]
    for i, size in enumerate(prediction["prompt"][BASELINE]):
        batch, tokens = map(int, size.split(" x "))
        colour = COLOURS[i % len(COLOURS)]
        base = sides[BASELINE]["prompts"][size]
        for k, name in enumerate(others):
            place = len(others) - k - 0.2 * i
            ratios = [a / b for a, b in zip(sides[name]["prompts"][size], base, strict=True)]
            family = len(others) * len(prediction["prompt"][BASELINE])
            _bar(axis, place, logs(ratios, family), color=colour, marker=style.MARKERS[i])
            said = prediction["prompt"][name][size] / prediction["prompt"][BASELINE][size]
            axis.plot([said], [place], "x", color=colour, markersize=5)
        each = 1e3 * sorted(base)[len(base) // 2] / (batch * tokens / 100)
        label = f"{tokens:,} tokens: vanilla takes {each:.3g} ms per 100"
        axis.plot([], [], style.MARKERS[i], color=colour, markerfacecolor="white", label=label)
    axis.plot([], [], "x", color="#1a1a1a", label="FLOPs over vanilla's")
    _finish(axis, others, "time of a prompt over vanilla's, 95 % for all at once", "Reading a prompt")


def _bar(axis: Axes, place: float, interval: Interval, **look: Any) -> None:
    middle = math.exp(interval.mean)
    ends = [math.exp(interval.mean + sign * interval.half_width) for sign in (-1, 1)]
    axis.errorbar(
        [middle],
        [place],
        xerr=[[middle - ends[0]], [ends[1] - middle]],
        linestyle="none",
        markerfacecolor="white",
        markersize=4,
        **look,
    )


def _finish(axis: Axes, names: list[str], label: str, title: str) -> None:
    axis.axvline(1, color="#8a8a8a", linewidth=1, linestyle="--")
    axis.set_yticks(range(len(names), 0, -1), names)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    ticks = [x for x in (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 8) if low <= x <= high]
    axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axis.minorticks_off()
    axis.set_xlabel(label)
    axis.set_title(title)
