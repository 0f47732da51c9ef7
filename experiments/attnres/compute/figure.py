"""The figure of `attnres-compute`: losses over compute, factors, what decides, and curves during training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullLocator

from experiments.attnres.compute.points import BLOCK, DECAYED, FULL, FULL_EPS, HELD, MUCH, PRINTED, SLOW
from experiments.attnres.compute.verdicts import differences, factor
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.of_widths import drawn, losses_of, untuned
from experiments.verdicts.intervals import t_interval
from experiments.verdicts.worth import Worth

LOOKS: dict[str, dict[str, Any]] = {
    BASELINE: style.look(BASELINE),
    FULL: style.look("attnres"),
    FULL_EPS: {"color": "#d98a2b", "linestyle": "-.", "marker": "^"},
    SLOW: {"color": "#00868b", "linestyle": (0, (5, 1)), "marker": "d"},
    BLOCK: style.look("attnres-block:size"),
    HELD: {"color": "#7d7d3c", "linestyle": (0, (1, 1)), "marker": "o"},
}
SHORT = {
    BASELINE: "PreNorm",
    "vanilla-eps": "PreNorm, eps 0",
    "vanilla-wide": "PreNorm, wide start",
    "full-wide": "Full, wide start",
    FULL: "Full",
    FULL_EPS: "Full, eps 0",
    HELD: "Full, eps 0, queries held",
    SLOW: "Full, eps 0, slow queries",
    DECAYED: "Full, eps 0, decay 0.1",
    MUCH: "Full, eps 0, decay 1",
    BLOCK: "Block, eps 0, slow queries",
    TWIN: "PreNorm, other weights",
}
OF_DECAY: dict[str, dict[str, Any]] = {
    DECAYED: {"color": "#8c5a3c", "linestyle": "--", "marker": "D"},
    MUCH: {"color": "#7d7d3c", "linestyle": (0, (1, 1)), "marker": "o"},
}
WIDEST = 4.0  # factor in compute, up or down, to which the axis goes


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=5.2, height=4.1)
    _losses(axes[0], measurement)
    _factors(axes[1], prediction, measurement)
    _deciding(axes[2], prediction, measurement)
    _curves(axes[3], measurement)
    style.finish(axes)
    return fig


def _looks(measurement: Json) -> dict[str, dict[str, Any]]:
    """Of what was trained, and is shown."""
    there = next(iter(measurement["widths"].values()))["loss"]
    return {name: look for name, look in (LOOKS | OF_DECAY).items() if name in there}


def _losses(axis: Axes, measurement: Json) -> None:
    for name, look in _looks(measurement).items():
        if name == HELD:
            continue
        x = [about["compute"][name] for about in measurement["widths"].values()]
        found = [t_interval(losses_of(measurement, width)[name]) for width in measurement["widths"]]
        marks = [untuned(name, width, measurement) for width in measurement["widths"]]
        axis.plot(x, [i.mean for i in found], color=look["color"], linestyle=look["linestyle"])
        style.bars(axis, x, found, color=look["color"], marker=look["marker"], markersize=4)
        label = f"{SHORT[name]}{max(marks, default='')}"
        axis.plot([], [], markerfacecolor="white", label=label, **look)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 4.0)))
    axis.xaxis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(math.inf, math.inf)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("FLOPs of a training, reads over depth included")
    axis.set_ylabel("held-out loss (nats a token), 95 % over seeds")
    axis.set_title("Loss against compute")


def _factors(axis: Axes, prediction: Json, measurement: Json) -> None:
    """By size, ours and the paper's, which is by printed losses, with what rounding leaves open."""
    sizes = [f"{about['parameters'][BASELINE] / 1e6:.2f}M" for about in measurement["widths"].values()]
    ours = len(sizes)
    sizes += prediction["printed"]["Block"]
    for rule, marker, shift in (("Block", "p", -0.12), ("Full", "P", 0.12)):
        rows = prediction["printed"][rule].values()
        x = [place + shift for place in range(ours, len(sizes))]
        errors = np.abs(np.array([[row[0] - row[1], row[2] - row[0]] for row in rows]).T)
        look: dict[str, Any] = {"color": "#555555", "marker": marker, "markersize": 4, "linestyle": "none"}
        axis.errorbar(x, [row[0] for row in rows], yerr=errors, label=f"{rule}, printed losses, rounding", **look)
    for i, name in enumerate(name for name in PRINTED if name in _looks(measurement)):
        look = {"color": LOOKS[name]["color"], "marker": LOOKS[name]["marker"], "markersize": 5}
        for place, width in enumerate(measurement["widths"]):
            found = factor(measurement, name, width)
            if found is not None:
                _factor(axis, place + 0.18 * (i - (len(PRINTED) - 1) / 2), found, look)
        axis.plot([], [], markerfacecolor="white", label=f"{SHORT[name]}, ours", **look)
    axis.plot([], [], "^", color="#8a8a8a", markersize=4, label="arrow: the interval goes on; filled: its known end")
    axis.axhline(1.25, color="#b3261e", linewidth=1, linestyle=":", label="1.25, as claimed of Block")
    axis.axhline(1, color="#1a1a1a", linewidth=1, linestyle="--")
    axis.axvline(ours - 0.5, color="#8a8a8a", linewidth=0.8)
    axis.set_yscale("log")
    axis.set_ylim(1 / WIDEST, WIDEST)
    axis.set_yticks([1 / 4, 1 / 2, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    axis.minorticks_off()
    axis.set_xticks(range(len(sizes)), sizes)
    axis.set_xlim(-0.5, len(sizes) - 0.5)
    axis.set_xlabel("parameters of PreNorm: ours, and the paper's")
    axis.set_ylabel("PreNorm's compute for the same loss,\nover one's own, 95 % each")
    axis.set_title("Factor in compute, rules side by side")


def _factor(axis: Axes, x: float, found: Worth, look: dict[str, Any]) -> None:
    """One factor with its interval, which the axis may cut; or the end that is known, where there is no factor."""
    ends = [min(max(end, 1 / WIDEST), WIDEST) for end in (found.least, found.most)]
    axis.plot([x, x], ends, color=look["color"], linewidth=1.2)
    style.going_on(axis, x, (found.least, found.most), (1 / WIDEST, WIDEST), look["color"])
    if math.isfinite(found.factor):
        axis.plot(x, found.factor, markerfacecolor="white", **look)
        return
    for end in (found.least, found.most):
        if 1 / WIDEST <= end <= WIDEST:
            axis.plot(x, end, **look)


def _deciding(axis: Axes, prediction: Json, measurement: Json) -> None:
    pairs = [*((pair["arm"], pair["against"]) for pair in prediction["compared"]), (TWIN, BASELINE)]
    widths = list(measurement["widths"])
    for i, width in enumerate(widths):
        found = differences(prediction, measurement, width)
        places = [len(pairs) - row - 0.35 * (i / max(1, len(widths) - 1) - 0.5) for row in range(len(pairs))]
        intervals = [found[pair] for pair in pairs]
        shade = f"{0.55 * (1 - i / max(1, len(widths) - 1)):.2f}"
        axis.errorbar(
            [interval.mean for interval in intervals],
            places,
            xerr=[interval.half_width for interval in intervals],
            fmt="os^Dv"[i % 5],
            color=shade,
            markerfacecolor="white",
            markersize=4,
            label=f"{measurement['widths'][width]['parameters'][BASELINE] / 1e6:.2f}M parameters",
        )
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--")
    axis.set_yticks(range(len(pairs), 0, -1), [f"{SHORT[arm]}\nless {SHORT[against]}" for arm, against in pairs])
    axis.tick_params(axis="y", labelsize=7)
    axis.set_xlabel("difference of losses (nats a token), 95 % for all at once")
    axis.set_title("What decides it")


def _curves(axis: Axes, measurement: Json) -> None:
    """At the largest width, during training; of what has another learning rate than PreNorm the end alone."""
    width, about = list(measurement["widths"].items())[-1]
    edges, ends = [0.0], 0
    for name, look in _looks(measurement).items():
        if name == BASELINE:
            continue
        curve = drawn(measurement, width, name)
        if curve is None:
            continue
        x, points = curve.x, curve.points
        middles, halves = [p.mean for p in points], [p.half_width for p in points]
        if not curve.whole:
            ends += 1
            place, looks = x[0] * (1 + 0.02 * ends), {"color": look["color"], "marker": look["marker"], "markersize": 4}
            style.bars(axis, [place], points, label=f"{SHORT[name]}, at the end", **looks)
            edges += [middles[0] - halves[0], middles[0] + halves[0]]
            continue
        axis.plot(x, middles, color=look["color"], linestyle=look["linestyle"], linewidth=1.3, label=SHORT[name])
        low, high = (np.array(middles) + sign * np.array(halves) for sign in (-1, 1))
        axis.fill_between(x, low, high, color=look["color"], alpha=0.12, linewidth=0)
        settled = len(x) // 4  # the first bands are so wide that they would hide the rest
        edges += [*middles, *low[settled:], *high[settled:]]
    axis.set_ylim(1.05 * min(edges), 1.05 * max(edges))
    axis.axhline(0, color="#1a1a1a", linewidth=1, linestyle="--")
    axis.set_xlabel("tokens a parameter of PreNorm")
    axis.set_ylabel("held-out loss less PreNorm's (nats a token)")
    axis.set_title(f"During training, {about['parameters'][BASELINE] / 1e6:.2f}M parameters")
