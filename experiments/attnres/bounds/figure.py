"""The figure of `attnres-bounds`: at the start, the worst networks, sublayers, trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log, sqrt
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attnres.bounds.points import KINDS, RULES, TRAINED, cell, largest
from experiments.attnres.bounds.verdicts import of_layers, slopes
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.intervals import Interval, t_interval

LOOKS: dict[str, dict[str, Any]] = {rule: style.look(rule) for rule in RULES}

SHIFT = 1.06  # of markers of neighbouring rules, so that none hides another
WHEN = {"start": "before", "end": "after"}
TRAINED_KINDS = ("attention", "SwiGLU")

FOUND = {  # of a sublayer's outputs: words, colour, marker
    "typical": ("root mean square", "#2f7fb8", "o"),
    "random": ("largest random one", "#8a8a8a", "v"),
    "largest": ("largest by ascents", "#1a1a1a", "^"),
}


BOUND: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.75}  # in its rule's colour and line
MEASURED: dict[str, Any] = {"markerfacecolor": "white", "linestyle": "none"}
BEFORE: dict[str, Any] = {"markersize": 3.5, "linestyle": "none"}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=4.4, height=4.3)
    _start(axes[0], prediction, measurement)
    _worst(axes[1], prediction, measurement)
    _sublayers(axes[2], prediction, measurement)
    _trained(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def _start(axis: Axes, prediction: Json, measurement: Json) -> None:
    depths = prediction["depths"]
    for rule, words in RULES.items():
        line = [sqrt(prediction["start"][cell(rule, depth)]) for depth in depths]
        squares = [t_interval(measurement["start"][cell(rule, depth)]) for depth in depths]
        bounds = [measurement["start_bounds"][cell(rule, depth)] for depth in depths]
        _bound(axis, depths, [sqrt(sum(b**2 for b in x) / len(x)) for x in bounds], rule)
        _line(axis, depths, line, [x.root() for x in squares], rule, words)
    _meanings(axis, {"thick": "closed form", "thin": "bound from the weights", "marker": "measured"})
    axis.set_title("Initial weights: bound, closed form, measured")
    _over_layers(axis, depths)
    axis.set_ylabel("last read, rms norm over weights, 95 %")


def _worst(axis: Axes, prediction: Json, measurement: Json) -> None:
    depths = prediction["depths"]
    for place, (rule, words) in enumerate(RULES.items()):
        law = [prediction["largest"][cell(rule, depth)] for depth in depths]
        found = [Interval(measurement["attained"][cell(rule, depth)], 0, 0) for depth in depths]
        look = LOOKS[rule]
        shifted = [depth * SHIFT ** (place - 1.5) for depth in depths]
        axis.plot(depths, law, color=look["color"], linestyle=look["linestyle"], label=words, **BOUND)
        axis.plot(shifted, [x.mean for x in found], color=look["color"], marker=look["marker"], **MEASURED)
        typical = [prediction["uncorrelated"][cell(rule, depth)] for depth in depths]
        axis.plot(depths, typical, color=look["color"], linestyle=look["linestyle"])
    _meanings(
        axis,
        {
            "thick": "theory, uncorrelated outputs",
            "thin": "bound",
            "marker": "networks built to attain it, side by side",
        },
    )
    axis.set_title("Any network: bound, attained, and typical")
    _over_layers(axis, depths)
    axis.set_ylabel("last read over the largest output")


def _sublayers(axis: Axes, prediction: Json, measurement: Json) -> None:
    """At initial weights of deviation 1 / sqrt(d); and of PreNorm's layers, the deepest network, before and after."""
    widths, trained = prediction["widths"], prediction["trained_width"]
    names = [f"{kind}/{width}" for kind in KINDS for width in widths]
    shares = {what: [[x[what] / x["bound"] for x in measurement["sharp"][name]] for name in names] for what in FOUND}
    ticks = [name.replace("/", ", ") for name in names]
    for kind in TRAINED_KINDS:
        for when, words in WHEN.items():
            for what in FOUND:
                shares[what].append(of_layers(measurement, BASELINE, when, kind, what))
            ticks.append(f"{kind}, {trained}, {words}")
    places = range(len(ticks))
    for what, (label, colour, marker) in FOUND.items():
        found = [t_interval(x) for x in shares[what] if len(x) > 1]
        at = [place for place, x in zip(places, shares[what], strict=True) if len(x) > 1]
        style.bars(axis, at, found, label=f"{label}, 95 %", color=colour, marker=marker)
    means = [sum(x["bound"] for x in measurement["sharp"][name]) / len(measurement["sharp"][name]) for name in names]
    typical = [sqrt(prediction["typical"][name]) / mean for name, mean in zip(names, means, strict=True)]
    axis.plot(range(len(names)), typical, "_", color="#2f7fb8", markersize=14, label="root mean square, closed form")
    axis.axhline(1, **style.BOUND, label="bound")
    axis.set_yscale("log")
    axis.set_xticks(places, ticks, fontsize=7, rotation=40, ha="right", rotation_mode="anchor")
    axis.set_ylabel("sublayer's output over its bound")
    axis.set_title("One sublayer by width; before and after training")


def _trained(axis: Axes, prediction: Json, measurement: Json) -> None:
    """All three over seeds alike: geometric means."""
    depths = prediction["trained_depths"]
    for place, rule in enumerate(TRAINED):
        words = RULES[rule]
        cells = [[x for x in measurement["trained"][cell(rule, depth)] if x] for depth in depths]
        if any(len(of_seeds) < 2 for of_seeds in cells):
            continue
        look, slope = LOOKS[rule], t_interval(slopes(prediction, measurement, rule))
        logs = [t_interval([log(largest(x)) for x in of_seeds]) for of_seeds in cells]
        shifted = [depth * SHIFT ** (place - 1) for depth in depths]
        said = f"{words}: power {slope.mean:.2f} ± {slope.half_width:.2f}"
        style.geometric(axis, shifted, logs, label=said, elinewidth=1, color=look["color"], marker=look["marker"])
        _bound(axis, depths, [_geometric(max(x["bounds"]) for x in of_seeds) for of_seeds in cells], rule)
        begun = [_geometric(measurement["trained_from"][cell(rule, depth)]) for depth in depths]
        axis.plot(shifted, begun, color=look["color"], marker=look["marker"], **BEFORE)
    _meanings(axis, {"small": "measured before training", "thin": "bound, trained", "marker": "measured, trained"})
    axis.set_title("Trained: bound, measured before and after")
    _over_layers(axis, depths)
    axis.set_ylabel("largest read, rms norm over tokens, 95 %")


def _geometric(values: Iterable[float]) -> float:
    logs = [log(x) for x in values]
    return exp(sum(logs) / len(logs))


def _bound(axis: Axes, x: list[int], bounds: list[float], rule: str) -> None:
    look = LOOKS[rule]
    axis.plot(x, bounds, color=look["color"], linestyle=look["linestyle"], **BOUND)


def _line(axis: Axes, x: list[int], line: list[float], found: list[Interval], rule: str, words: str) -> None:
    look = LOOKS[rule]
    axis.plot(x, line, color=look["color"], linestyle=look["linestyle"], label=words)
    style.bars(axis, x, found, color=look["color"], marker=look["marker"])


def _meanings(axis: Axes, words: Mapping[str, str]) -> None:
    """In the legend, of all rules: what thick and thin lines, markers and small ones are."""
    looks: dict[str, dict[str, Any]] = {
        "thick": {},
        "thin": BOUND,
        "marker": {"marker": "o", **MEASURED},
        "small": {"marker": "o", **BEFORE},
    }
    for kind, said in words.items():
        axis.plot([], [], color="#8a8a8a", label=said, **looks[kind])


def _over_layers(axis: Axes, depths: list[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(depths, [str(n) for n in depths])
    axis.minorticks_off()
    axis.set_xlabel("layers, two sublayers each")
