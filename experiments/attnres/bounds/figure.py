"""The figure of `attnres-bounds`: at the start, the worst networks, sublayers, trained."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attnres.bounds.points import FULL, KINDS, RULES, TRAINED, cell, largest
from experiments.attnres.bounds.verdicts import slopes
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.intervals import Interval, t_interval

LOOKS: dict[str, dict[str, Any]] = {
    BASELINE: style.look(BASELINE),
    FULL: style.look(FULL),
    "attnres-block:size=4": style.look("attnres-block"),
    "attnres-block:blocks=8": {"color": "#7a4fa3", "linestyle": ":", "marker": "D"},
}

FOUND = {  # of a sublayer's outputs: words, colour, marker
    "typical": ("root mean square", "#2f7fb8", "o"),
    "random": ("largest random one", "#8a8a8a", "v"),
    "largest": ("largest by ascents", "#1a1a1a", "^"),
}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=4.4, height=4.1)
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
        _line(axis, depths, line, [x.root() for x in squares], rule, words)
    axis.set_title("Initial weights: closed form and measured")
    _over_layers(axis, depths)
    axis.set_ylabel("last read, rms norm over weights, 95 %")


def _worst(axis: Axes, prediction: Json, measurement: Json) -> None:
    depths = prediction["depths"]
    for rule, words in RULES.items():
        law = [prediction["largest"][cell(rule, depth)] for depth in depths]
        found = [Interval(measurement["attained"][cell(rule, depth)], 0, 0) for depth in depths]
        _line(axis, depths, law, found, rule, words)
    axis.set_title("The worst networks: bound and attained")
    _over_layers(axis, depths)
    axis.set_ylabel("last read over the largest output")


def _sublayers(axis: Axes, prediction: Json, measurement: Json) -> None:
    widths = prediction["widths"]
    names = [f"{kind}/{width}" for kind in KINDS for width in widths]
    places = range(len(names))
    for what, (label, colour, marker) in FOUND.items():
        over = [[x[what] / x["bound"] for x in measurement["sharp"][name]] for name in names]
        style.bars(axis, places, [t_interval(x) for x in over], label=f"{label}, 95 %", color=colour, marker=marker)
    means = [sum(x["bound"] for x in measurement["sharp"][name]) / len(measurement["sharp"][name]) for name in names]
    typical = [sqrt(prediction["typical"][name]) / mean for name, mean in zip(names, means, strict=True)]
    axis.plot(places, typical, "_", color="#2f7fb8", markersize=18, label="root mean square, closed form")
    axis.axhline(1, **style.BOUND, label="bound")
    axis.set_yscale("log")
    axis.set_xticks(places, [f"{kind}\nd = {width}" for kind in KINDS for width in widths])
    axis.set_ylabel("sublayer's output over its bound")
    axis.set_title("One sublayer: how sharp its bound is")


def _trained(axis: Axes, prediction: Json, measurement: Json) -> None:
    depths = prediction["trained_depths"]
    for rule in TRAINED:
        words = RULES[rule]
        cells = [[x for x in measurement["trained"][cell(rule, depth)] if x] for depth in depths]
        if any(len(of_seeds) < 2 for of_seeds in cells):
            continue
        look, slope = LOOKS[rule], t_interval(slopes(prediction, measurement, rule))
        logs = [t_interval([log(largest(x)) for x in of_seeds]) for of_seeds in cells]
        means = [exp(i.mean) for i in logs]
        errors = [[m * (1 - exp(-i.half_width)) for m, i in zip(means, logs, strict=True)]]
        errors.append([m * (exp(i.half_width) - 1) for m, i in zip(means, logs, strict=True)])
        axis.plot(depths, means, color=look["color"], linestyle=look["linestyle"], linewidth=0.8)
        said = f"{words}: power {slope.mean:.2f} ± {slope.half_width:.2f}"
        marks = {"color": look["color"], "marker": look["marker"], "markerfacecolor": "white"}
        axis.errorbar(depths, means, yerr=errors, linestyle="none", label=said, **marks)
        bounds = [max(max(x["bounds"]) for x in of_seeds) for of_seeds in cells]
        axis.plot(depths, bounds, color=look["color"], linestyle=look["linestyle"], linewidth=0.6, alpha=0.7)
    axis.set_title("Trained: measured, and thin above their bounds")
    _over_layers(axis, depths)
    axis.set_ylabel("largest read, rms norm over tokens, 95 %")


def _line(axis: Axes, x: list[int], line: list[float], found: list[Interval], rule: str, words: str) -> None:
    look = LOOKS[rule]
    axis.plot(x, line, color=look["color"], linestyle=look["linestyle"], label=words)
    style.bars(axis, x, found, color=look["color"], marker=look["marker"])


def _over_layers(axis: Axes, depths: list[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(depths, [str(n) for n in depths])
    axis.minorticks_off()
    axis.set_xlabel("layers, two sublayers each")
