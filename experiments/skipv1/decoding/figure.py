"""The figure of `scale-decode`: bytes of the cache, time of a step beside what it reads, and time of a prompt."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.decoding.verdicts import BASELINE, logs, over_vanilla
from experiments.store.folders import Json
from experiments.verdicts.intervals import Interval

COARSE = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 8, 16)
FINE = (*(x / 10 for x in range(1, 16)), 1.75, 2, 2.5, 3, 4)
COLOURS = ("#1a1a1a", "#2f7fb8", "#d98a2b", "#7a4fa3", "#66b266", "#8a8a8a")


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(3, width=4.6, height=4.8)
    names = list(prediction["kept"])
    _kept(axes[0], prediction, measurement, names)
    _steps(axes[1], prediction, measurement, names)
    _prompts(axes[2], prediction, measurement, names)
    style.finish(axes)
    return fig


def _kept(axis: Axes, prediction: Json, measurement: Json, names: list[str]) -> None:
    """Bytes a token over vanilla's, of the formula and as they were allocated; and those of the longest cache."""
    base = prediction["kept"][BASELINE]
    size = max(prediction["read"][BASELINE], key=lambda size: int(size.split(" x ")[1]))
    bytes_ = {name: side["sizes"][size]["bytes"] for name, side in measurement["sides"].items()}
    rows = [*names, *(name for name in bytes_ if name not in names)]
    places = list(range(len(rows), 0, -1))
    shares = [prediction["kept"].get(name, base) / base for name in rows]  # others have vanilla's keys and values
    axis.barh(places, shares, color="#c9dcec", edgecolor="#2f7fb8", height=0.6, label="formula")
    found = [bytes_[name] / bytes_[BASELINE] for name in names]
    axis.plot(found, places[: len(names)], "o", color="#1a1a1a", markerfacecolor="white", label="allocated")
    for name, place, share in zip(rows, places, shares, strict=True):
        words = f"{share:.0%}, {bytes_[name] / 1e6:.3g} MB"
        axis.annotate(words, (share, place), xytext=(6, -3), textcoords="offset points", fontsize=8)
    axis.set_xlim(0, 1.5)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axis.set_yticks(places, rows)
    axis.set_xlabel(f"bytes kept of a token, over vanilla's;\nMB: of {_in_words(size)}")
    axis.set_title("The cache")


def _steps(axis: Axes, prediction: Json, measurement: Json, names: list[str]) -> None:
    """Time of a step over vanilla's, all sizes; crosses: what it reads over what vanilla reads."""
    others = [name for name in [*names, *measurement["sides"]] if name != BASELINE]
    others = list(dict.fromkeys(others))
    for i, size in enumerate(prediction["read"][BASELINE]):
        places = [len(others) - k + 0.28 - 0.18 * i for k in range(len(others))]
        colour = COLOURS[i % len(COLOURS)]
        for place, name in zip(places, others, strict=True):
            _bar(axis, place, over_vanilla(measurement, name, size), color=colour, marker=style.MARKERS[i])
            if name in prediction["read"]:
                said = prediction["read"][name][size] / prediction["read"][BASELINE][size]
                axis.plot([said], [place], "x", color=colour, markersize=5, zorder=4)
        each = 1e3 * median(measurement["sides"][BASELINE]["sizes"][size]["turns"])
        label = f"after {_in_words(size)}: vanilla takes {each:.3g} ms"
        axis.plot([], [], style.MARKERS[i], color=colour, markerfacecolor="white", label=label)
    axis.plot([], [], "x", color="#1a1a1a", label="what a step reads, over vanilla's")
    _finish(axis, others, "time of a step over vanilla's (factor), 95 % for all at once", "A decoded token")


def _prompts(axis: Axes, prediction: Json, measurement: Json, names: list[str]) -> None:
    sides = measurement["sides"]
    others = [name for name in dict.fromkeys([*names, *sides]) if name != BASELINE]
    timed = [name for name in others if sides[name]["prompts"]]
    sizes = list(prediction["prompt"][BASELINE])
    for i, size in enumerate(sizes):
        colour = COLOURS[i % len(COLOURS)]
        base = sides[BASELINE]["prompts"][size]
        for k, name in enumerate(others):
            place = len(others) - k - 0.2 * i
            if name not in timed:
                axis.annotate("not timed", (1, place), xytext=(6, -3), textcoords="offset points", fontsize=8)
                continue
            ratios = [a / b for a, b in zip(sides[name]["prompts"][size], base, strict=True)]
            _bar(axis, place, logs(ratios, len(timed) * len(sizes)), color=colour, marker=style.MARKERS[i])
            if name in prediction["prompt"]:
                said = prediction["prompt"][name][size] / prediction["prompt"][BASELINE][size]
                axis.plot([said], [place], "x", color=colour, markersize=5, zorder=4)
        label = f"{_in_words(size)}: vanilla takes {1e3 * median(base):.3g} ms"
        axis.plot([], [], style.MARKERS[i], color=colour, markerfacecolor="white", label=label)
    axis.plot([], [], "x", color="#1a1a1a", label="FLOPs over vanilla's")
    _finish(axis, others, "time of a prompt over vanilla's (factor), 95 % for all at once", "Reading a prompt")


def _in_words(size: str) -> str:
    batch, tokens = map(int, size.split(" x "))
    return f"{batch} sequence{'s' if batch > 1 else ''} of {tokens:,} tokens"


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
    axis.set_ylim(0.4, len(names) + 0.6)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    known = COARSE if high > 2.5 * low else FINE
    low = max((x for x in known if x <= low), default=low)  # the axis begins and ends with a tick
    high = min((x for x in known if x >= high), default=high)
    axis.set_xlim(low / 1.03, high * 1.03)
    ticks = [x for x in known if low <= x <= high]
    axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axis.minorticks_off()
    axis.set_xlabel(label)
    axis.set_title(title)
