"""The figure of `ladder-text`: losses, what variants are worth, and when curves cross."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.across.text.verdicts import CROSSING, crossings, when
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.comparing import own_names
from experiments.training.of_widths import differences, drawn, rates, untuned, worth_of

LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
SHADES = ("#1a1a1a", "#2f7fb8", "#d98a2b", "#8a8a8a", "#7a4fa3", "#66b266")
REACHES = (2.0, 4.0, 8.0)  # factors, up or down, to the least of which that shows what is known the axis of worths goes


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=5.0, height=4.2)
    _losses(axes[0], prediction, measurement)
    _worths(axes[1], prediction, measurement)
    watched = ([name for name in CROSSING if name in prediction["papers"]] or own_names(prediction))[:2]
    for name, axis in zip(watched, axes[2:], strict=False):
        _curves(axis, measurement, name)
    for axis in axes[2 + len(watched) :]:
        axis.set_visible(False)
    axes = axes[: 2 + len(watched)]
    style.finish(axes)
    return fig


def _names(prediction: Json) -> list[str]:
    return [*prediction["papers"], TWIN]


def _called(name: str, measurement: Json) -> str:
    if name == TWIN:
        return "vanilla, other initial weights"
    marks = [untuned(name, width, measurement) for width in measurement["widths"]]
    return f"{name}{max(marks, default='')}"


def _positions(measurement: Json, i: int, count: int) -> list[float]:
    """Vanilla's parameters, millions, at each width: names are set apart a little, so that intervals do not overlap."""
    apart = 1.03 ** (i - (count - 1) / 2)
    return [about["parameters"][BASELINE] / 1e6 * apart for about in measurement["widths"].values()]


def _losses(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Final losses less vanilla's, 95 % for all of a size at once; vanilla's own stand above its sizes."""
    names, by_width = _names(prediction), {w: differences(measurement, w) for w in measurement["widths"]}
    for i, name in enumerate(names):
        look = {**style.look(name), "linewidth": 1.0, "markersize": 4}
        look.pop("linestyle")
        intervals = [by_width[w][name] for w in measurement["widths"]]
        x = _positions(measurement, i, len(names))
        style.bars(axis, x, intervals, label=_called(name, measurement), **look)
    for place, (width, about) in zip(_positions(measurement, 0, 1), measurement["widths"].items(), strict=True):
        losses = [loss for loss in about["loss"][BASELINE] if loss is not None]
        text = f"width {width}\nvanilla {np.mean(losses):.3f}" if losses else f"width {width}"
        axis.annotate(text, (place, 1), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=6.5)
    axis.axhline(0, color="#1a1a1a", linewidth=1, linestyle="--")
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.15 * (high - low))
    _sizes(axis, measurement)
    axis.set_ylabel("held-out loss less vanilla's (nats a token)")
    axis.set_title("At the end, 95 % for all at once")


def _worths(axis: Axes, prediction: Json, measurement: Json) -> None:
    """With intervals; an end that is not known goes to the edge.  Crosses: what printed losses make of it."""
    names = _names(prediction)
    worths = {name: [worth_of(measurement, name, width) for width in measurement["widths"]] for name in names}
    known = [x for of in worths.values() for w in of if w for x in (w.least, w.factor, w.most) if math.isfinite(x)]
    known += [factor for printed in prediction["papers_worth"].values() for factor in printed.values()]
    farthest = max((max(x, 1 / x) for x in known), default=1.0)
    reach = next((reach for reach in REACHES if farthest <= reach), REACHES[-1])
    for i, name in enumerate(names):
        look: dict[str, Any] = {k: v for k, v in style.look(name).items() if k != "linestyle"}
        places = _positions(measurement, i, len(names))
        for place, found in zip(places, worths[name], strict=True):
            if found is None:
                continue
            ends = [min(max(end, 1 / reach), reach) for end in (found.least, found.most)]
            axis.plot([place, place], ends, color=look["color"], linewidth=1.0)
            style.going_on(axis, place, (found.least, found.most), (1 / reach, reach), look["color"])
            if math.isfinite(found.factor):
                axis.plot(place, found.factor, markerfacecolor="white", linestyle="none", markersize=4, **look)
        for factor in prediction["papers_worth"].get(name, {}).values():
            axis.plot(max(places) * 1.25 * 1.04**i, factor, "x", color=look["color"], markersize=4)
    if any(prediction["papers_worth"].values()):
        axis.plot([], [], "x", color="#555555", markersize=4, label="by the papers' printed losses, at 60M and more")
    axis.axhline(1, color="#1a1a1a", linewidth=1, linestyle="--", label="vanilla's own")
    axis.set_yscale("log")
    axis.set_ylim(1 / reach, reach)
    ticks = {"1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2, "0.7": 0.7, "1": 1, "1.4": 1.4, "2": 2, "4": 4, "8": 8}
    shown = {text: at for text, at in ticks.items() if 1 / reach <= at <= reach and (reach == 2 or "." not in text)}
    axis.set_yticks(list(shown.values()), list(shown))
    axis.minorticks_off()
    _sizes(axis, measurement)
    axis.set_ylabel("worth: vanilla's parameters for the\nsame loss, over those at equal width")
    axis.set_title("Worth in parameters, 95 % each; names as in (a)")


def _curves(axis: Axes, measurement: Json, variant: str) -> None:
    """Held-out loss less vanilla's during training: mean over seeds, 95 % point by point, and crossings.

    Where the two were trained at different rates, at the end alone, moved apart by size.
    """
    there = whole = False
    for i, (width, about) in enumerate(measurement["widths"].items()):
        if variant not in about["loss"]:
            continue
        curve = drawn(measurement, width, variant)
        if curve is None:
            continue
        look: dict[str, Any] = {"color": SHADES[i % len(SHADES)], "linestyle": LINES[i % len(LINES)]}
        parameters = about["parameters"][BASELINE]
        x, intervals = curve.x, curve.points
        if not curve.whole:
            both = " and ".join(f"{rate:g}" for rate in rates(measurement, width, variant))
            label = f"{parameters / 1e6:.2f}M, at the end (rates {both})"
            style.bars(axis, [x[0] * (1 + 0.02 * i)], intervals, color=look["color"], marker="s", label=label)
            continue
        whole = True
        middle, half = (np.array([getattr(at, field) for at in intervals]) for field in ("mean", "half_width"))
        axis.plot(x, middle, linewidth=1.2, label=f"{parameters / 1e6:.2f}M parameters", **look)
        axis.fill_between(x, middle - half, middle + half, color=look["color"], alpha=0.15, linewidth=0)
        found = when(crossings(measurement, width, variant, CROSSING.get(variant, -1.0)), parameters)
        if found:
            mean, ends = math.exp(found.mean), [math.exp(found.mean + s * found.half_width) for s in (-1, 1)]
            widths = [[mean - ends[0]], [ends[1] - mean]]
            axis.errorbar([mean], [0], xerr=widths, fmt="D", color=look["color"], markerfacecolor="white", zorder=5)
            there = True
    if there:
        axis.plot([], [], "D", color="#555555", markerfacecolor="white", label="crosses for good")
    axis.axhline(0, color="#999999", linewidth=0.8, label=BASELINE)
    axis.set_xlabel("tokens a parameter of vanilla")
    axis.set_ylabel("held-out loss less vanilla's (nats a token)")
    axis.set_title(f"{variant} {'during training' if whole else 'at the end'}, 95 %")
    if not whole:
        axis.set_xlim(0, 1.02 * axis.get_xlim()[1])
        axis.text(0.03, 0.05, "not compared before the end:\nthe learning rates differ", transform=axis.transAxes)


def _sizes(axis: Axes, measurement: Json) -> None:
    axis.set_xscale("log")
    axis.minorticks_off()
    at = [about["parameters"][BASELINE] / 1e6 for about in measurement["widths"].values()]
    axis.set_xticks(at, [f"{x:.2g}" for x in at])
    axis.set_xlabel("vanilla's parameters (millions)")
