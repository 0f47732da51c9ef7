"""The figure of `attnres-gradients`: gradients by read, and their unevenness over the size of initial weights."""

from __future__ import annotations

from math import sqrt
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attnres.gradients.points import OUTPUTS, RULES, cell, over_last, unevenness
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.verdicts.intervals import t_interval

LOOKS: dict[str, dict[str, Any]] = {rule: style.look(rule) for rule in RULES}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=4.4, height=3.9)
    for axis, std, words in zip(
        axes, prediction["shown"], ("sublayers add little", "sublayers add much"), strict=False
    ):
        _by_read(axis, prediction, measurement, std)
        axis.set_title(f"Initial weights of std {std:g}: {words}")
    titles = ("Unevenness, all weights alike", "Unevenness, writing weights scaled by depth")
    for axis, outputs, title in zip(axes[2:], OUTPUTS, titles, strict=True):
        _unevenness(axis, prediction, measurement, outputs)
        axis.set_title(title)
    style.finish(axes)
    return fig


def _by_read(axis: Axes, prediction: Json, measurement: Json, std: float) -> None:
    for rule, words in RULES.items():
        at, look = cell(rule, "plain", std), LOOKS[rule]
        roots = [sqrt(square) for square in prediction["squares"][at]][:-1]
        x = range(1, len(roots) + 1)
        axis.plot(x, roots, color=look["color"], linestyle=look["linestyle"], label=f"{words}: limit of wide networks")
        found = [t_interval(of_read).root() for of_read in over_last(measurement, at)][:-1]
        style.bars(axis, x, found, color=look["color"], marker=look["marker"], markersize=3.5)
    axis.set_yscale("log")
    axis.set_xlabel("read of sublayer")
    axis.set_ylabel("gradient, rms over weights, 95 %,\nover PreNorm's at the last read")
    _measured(axis)


def _unevenness(axis: Axes, prediction: Json, measurement: Json, outputs: str) -> None:
    for rule, words in RULES.items():
        look = LOOKS[rule]
        line = prediction["unevenness"][f"{rule}/{outputs}"]
        axis.plot(prediction["curve"], line, color=look["color"], linestyle=look["linestyle"], label=words)
        means = [
            [sum(of_read) / len(of_read) for of_read in over_last(measurement, cell(rule, outputs, std))]
            for std in prediction["stds"]
        ]
        marks = {"color": look["color"], "marker": look["marker"], "markerfacecolor": "white"}
        axis.plot(prediction["stds"], [unevenness(x) for x in means], linestyle="none", **marks)
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.set_xlabel(f"std of initial weights, width {prediction['width']}, {prediction['layers']} layers")
    axis.set_ylabel("spread of log gradients over reads")
    _measured(axis)


def _measured(axis: Axes) -> None:
    axis.plot([], [], "o", color="#8a8a8a", markerfacecolor="white", label="hollow markers: measured")
