"""The figure of `svformer-length`, from its prediction and measurement alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from statistics import median_low
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.resformer.length.points import (
    LAYERS,
    LEARNING_RATE,
    LENGTH,
    SVFORMER,
    WARMUP,
    critical_point,
    relative,
)
from experiments.resformer.length.verdicts import Measure, common, late, of_case, positions_of_all
from experiments.store.folders import Json
from experiments.training.campaign import TWIN
from experiments.verdicts.intervals import t_interval

LINES = ("-", "--", "-.", ":")
GREYS = ("#1a1a1a", "#2f7fb8", "#d98a2b", "#8a8a8a")


def draw(prediction: Json, measurement: Json) -> Figure:
    """Relative curves by length and by rate; critical points; final differences."""
    fig, axes = style.figure(2, rows=2, width=4.4, height=4.1)
    _curves(axes[0], prediction, measurement, LENGTH, "T = {:g}")
    _curves(axes[1], prediction, measurement, LEARNING_RATE, "peak rate {:g}")
    axes[0].set_title("By context length, as in Fig. 14 (left)")
    axes[1].set_title(f"By learning rate, as in Fig. 15a, {_rest(prediction)}")
    _points(axes[2], prediction, measurement)
    _finals(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def _rest(prediction: Json) -> str:
    key: str = prediction["axes"][LEARNING_RATE]["cases"][0]
    return f"at T = {key.split(',')[0].removeprefix(LENGTH).strip()}"


def _curves(axis: Axes, prediction: Json, measurement: Json, name: str, label: str) -> None:
    """Smoothed differences, the mean over seeds with its 95 % interval step by step; a tick at each critical point."""
    window, about = prediction["window"], prediction["axes"][name]
    seeds = range(measurement["seeds"])
    for i, (value, key) in enumerate(zip(about["values"], about["cases"], strict=True)):
        case = measurement["cases"][key]
        curves = [curve for seed in seeds if (curve := relative(case, seed, SVFORMER, window))]
        look: dict[str, Any] = {"color": GREYS[i % len(GREYS)], "linestyle": LINES[i % len(LINES)]}
        _band(axis, curves, label.format(value), look)
        at = [point.last for seed in seeds if (point := critical_point(case, seed, SVFORMER, window)).seen]
        axis.plot(at, [0.0] * len(at), style.MARKERS[i], color=look["color"], markerfacecolor="white", zorder=5)
    axis.plot([], [], "o", color="#555555", markerfacecolor="white", label="markers: seeds' critical points")
    axis.axhline(0, color="#999999", linewidth=0.8)
    axis.set_xlabel(f"optimiser steps of {prediction['tokens']} tokens")
    axis.set_ylabel("SVFormer's training loss less\nvanilla's (nats a token), 95 %")


def _band(axis: Axes, curves: Sequence[tuple[list[float], list[float]]], label: str, look: dict[str, Any]) -> None:
    if len(curves) < 2:
        return
    intervals = [t_interval(values) for values in zip(*(d for _, d in curves), strict=True)]
    middle, half = (np.array([getattr(i, x) for i in intervals]) for x in ("mean", "half_width"))
    axis.plot(curves[0][0], middle, linewidth=1.3, label=label, **look)
    axis.fill_between(curves[0][0], middle - half, middle + half, color=look["color"], alpha=0.15, linewidth=0)


def _points(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Every seed's critical point; the line joins the lower medians, which are there whatever is censored."""
    last = max(case["steps"][-1] for case in measurement["cases"].values())
    before, after = -0.12 * last, 1.12 * last
    looks = {
        LENGTH: ("#1a1a1a", "-", "o", "context length", -0.06),
        LEARNING_RATE: ("#d98a2b", "--", "s", "rate", 0.06),
    }
    for name, (grey, line, marker, words, shift) in looks.items():
        about = prediction["axes"][name]
        places = [math.log2(v / about["values"][0]) + shift for v in about["values"]]
        medians = []
        for place, key in zip(places, about["cases"], strict=True):
            case, seeds = measurement["cases"][key], range(measurement["seeds"])
            found = [critical_point(case, seed, SVFORMER, prediction["window"]) for seed in seeds]
            y = [before if p.last < 0 else after if p.last > last else p.last for p in found]
            axis.plot([place] * len(y), y, marker, color=grey, markerfacecolor="white", markersize=5, alpha=0.9)
            medians.append(median_low(y))
        words = f"{words}, {', '.join(f'{v:g}' for v in about['values'])}"
        axis.plot(places, medians, color=grey, linestyle=line, marker=marker, markersize=2, label=words)
    axis.plot([], [], "o", color="#555555", markerfacecolor="white", label="a seed's; the lines join lower medians")
    ticks = [round(last * i / 5) for i in range(6)]
    axis.set_yticks([before, *ticks, after], ["never\nahead", *map(str, ticks), "not by\nthe end"])
    axis.set_ylim(before - 0.06 * last, after + 0.06 * last)
    for edge in (0, last):
        axis.axhline(edge, color="#555555", linewidth=0.8)
    axis.set_xlabel("doublings of the length, or of the peak rate")
    axis.set_ylabel("critical point (steps)")
    axis.set_title("Critical points (paper: up with length, down with rate)")


def _finals(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Final differences along every axis, SVFormer's and the twin's."""
    measures: dict[str, tuple[str, Measure]] = {
        LENGTH: ("length", late),
        LEARNING_RATE: ("peak rate", late),
        WARMUP: ("warm-up", late),
        LAYERS: ("layers", late),
        "common": ("length, first\npositions only", partial(common, positions_of_all(prediction))),
    }
    ticks: list[tuple[float, str]] = []
    place = 0.0
    for name, (words, of) in measures.items():
        about = prediction["axes"][LENGTH if name == "common" else name]
        if len(about["cases"]) < 2:
            continue
        start = place
        for arm, shift in ((TWIN, 0.15), (SVFORMER, 0.0)):
            x = [start + i + shift for i in range(len(about["cases"]))]
            intervals = [of_case(measurement, key, arm, of) for key in about["cases"]]
            look = style.look(arm)
            style.bars(axis, x, intervals, color=look["color"], marker=look["marker"])
            axis.plot(x, [i.mean for i in intervals], color=look["color"], linewidth=0.8, linestyle=look["linestyle"])
        ticks += [(start + i, f"{v:g}") for i, v in enumerate(about["values"])]
        axis.text(start, 0.99, words, transform=axis.get_xaxis_transform(), fontsize=7, va="top")
        place = start + len(about["cases"]) + 0.8
    for arm, label in ((SVFORMER, "SVFormer, 95 %"), (TWIN, "vanilla, other initial weights: no effect")):
        axis.plot([], [], markerfacecolor="white", label=label, **style.look(arm))
    axis.axhline(0, color="#999999", linewidth=0.8)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.16 * (high - low))  # room for the words
    axis.set_xticks([x for x, _ in ticks], [word for _, word in ticks], rotation=45, fontsize=7.5)
    axis.set_ylabel("final loss less vanilla's (nats a token)")
    axis.set_xlabel("value along each axis")
    axis.set_title("At the end (paper: above 0; toy: below 0)")
