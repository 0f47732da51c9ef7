"""Draw `attnres-bounds`: networks at the start, the worst ones, sublayers, and trained networks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log, sqrt
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from experiments.attnres.bounds.measurement import KINDS, RULES, TRAINED, cell, largest, mean_shares, slopes
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.intervals import t_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHIFT = 1.06  # between markers of neighbouring rules, so that none hides another
THICK: dict[str, Any] = {}
THIN: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.75}
MARKER: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "linestyle": "none"}
SMALL: dict[str, Any] = {"marker": "o", "markersize": 3.5, "linestyle": "none"}
NORMS = {  # of a sublayer's outputs: words, colour, marker
    "typical": ("root mean square", "#2f7fb8", "o"),
    "random": ("largest random one", "#8a8a8a", "v"),
    "largest": ("largest by ascents", "#1a1a1a", "^"),
}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=4.4, height=4.3)
    draw_start(axes[0], prediction, measurement)
    draw_worst(axes[1], prediction, measurement)
    draw_sublayers(axes[2], prediction, measurement)
    draw_trained(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def draw_start(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw the last read at initial weights: bound, closed form, measured."""
    depths = prediction["depths"]
    for rule, words in RULES.items():
        names, look = [cell(rule, depth) for depth in depths], style.look(rule)
        bounds = [measurement["start_bounds"][name] for name in names]
        draw_line(axis, depths, [sqrt(sum(b**2 for b in x) / len(x)) for x in bounds], rule=rule, **THIN)
        draw_line(axis, depths, [sqrt(prediction["start"][name]) for name in names], rule=rule, label=words)
        intervals = [t_interval(measurement["start"][name]).root() for name in names]
        style.bars(axis, depths, intervals, color=look["color"], marker=look["marker"])
    explain(axis, ("closed form", THICK), ("bound from the weights", THIN), ("measured", MARKER))
    axis.set_title("Initial weights: bound, closed form, measured")
    over_layers(axis, depths)
    axis.set_ylabel("last read, rms norm over weights, 95 %")


def draw_worst(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw the largest read of any network: bound, attained, and typical."""
    depths = prediction["depths"]
    for place, (rule, words) in enumerate(RULES.items()):
        names = [cell(rule, depth) for depth in depths]
        shifted = [depth * SHIFT ** (place - 1.5) for depth in depths]
        draw_line(axis, depths, [prediction["largest"][name] for name in names], rule=rule, label=words, **THIN)
        draw_line(axis, shifted, [measurement["attained"][name] for name in names], rule=rule, markers=MARKER)
        draw_line(axis, depths, [prediction["uncorrelated"][name] for name in names], rule=rule)
    built = ("networks built to attain it, side by side", MARKER)
    explain(axis, ("theory, uncorrelated outputs", THICK), ("bound", THIN), built)
    axis.set_title("Any network: bound, attained, and typical")
    over_layers(axis, depths)
    axis.set_ylabel("last read over the largest output")


def draw_sublayers(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw outputs over bounds: at initial weights, and of PreNorm's deepest network before and after training."""
    names = [f"{kind}/{width}" for kind in KINDS for width in prediction["widths"]]
    shares = {norm: [[x[norm] / x["bound"] for x in measurement["sharp"][name]] for name in names] for norm in NORMS}
    ticks = [name.replace("/", ", ") for name in names]
    for kind in ("attention", "SwiGLU"):
        for when, words in (("start", "before"), ("end", "after")):
            ticks.append(f"{kind}, {prediction['trained_width']}, {words}")
            for norm in NORMS:
                shares[norm].append(mean_shares(measurement, BASELINE, when, kind=kind, norm=norm))
    for norm, (label, color, marker) in NORMS.items():
        known = {place: t_interval(x) for place, x in enumerate(shares[norm]) if len(x) > 1}
        style.bars(axis, list(known), list(known.values()), label=f"{label}, 95 %", color=color, marker=marker)
    means = [sum(x["bound"] for x in measurement["sharp"][name]) / len(measurement["sharp"][name]) for name in names]
    typical = [sqrt(prediction["typical"][name]) / mean for name, mean in zip(names, means, strict=True)]
    axis.plot(range(len(names)), typical, "_", color="#2f7fb8", markersize=14, label="root mean square, closed form")
    axis.axhline(1, **style.BOUND, label="bound")
    axis.set_yscale("log")
    axis.set_xticks(range(len(ticks)), ticks, fontsize=7, rotation=40, ha="right", rotation_mode="anchor")
    axis.set_ylabel("sublayer's output over its bound")
    axis.set_title("One sublayer by width; before and after training")


def draw_trained(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Draw the largest read of trained networks, bound and before training: geometric means over seeds."""
    depths = prediction["trained_depths"]
    for place, rule in enumerate(TRAINED):
        names, look = [cell(rule, depth) for depth in depths], style.look(rule)
        cells = [[x for x in measurement["trained"][name] if x] for name in names]
        if any(len(seeds) < 2 for seeds in cells):
            continue
        slope = t_interval(slopes(prediction, measurement, rule))
        logs = [t_interval([log(largest(x)) for x in seeds]) for seeds in cells]
        shifted = [depth * SHIFT ** (place - 1) for depth in depths]
        label = f"{RULES[rule]}: power {slope.mean:.2f} ± {slope.half_width:.2f}"
        style.geometric(axis, shifted, logs, label=label, elinewidth=1, color=look["color"], marker=look["marker"])
        draw_line(axis, depths, [geometric_mean(max(x["bounds"]) for x in seeds) for seeds in cells], rule=rule, **THIN)
        draw_line(
            axis,
            shifted,
            [geometric_mean(measurement["trained_from"][name]) for name in names],
            rule=rule,
            markers=SMALL,
        )
    explain(axis, ("measured before training", SMALL), ("bound, trained", THIN), ("measured, trained", MARKER))
    axis.set_title("Trained: bound, measured before and after")
    over_layers(axis, depths)
    axis.set_ylabel("largest read, rms norm over tokens, 95 %")


def draw_line(axis: Axes, x: Sequence[float], y: Sequence[float], rule: str, markers: Any = None, **more: Any) -> None:
    """Draw a rule's line, or its markers, in its colour."""
    look = style.look(rule)
    own = {**markers, "marker": look["marker"]} if markers else {"linestyle": look["linestyle"]}
    axis.plot(x, y, color=look["color"], **own, **more)


def explain(axis: Axes, *meanings: tuple[str, dict[str, Any]]) -> None:
    """Say in the legend what thick and thin lines, markers and small ones mean, for all rules."""
    for label, look in meanings:
        axis.plot([], [], color="#8a8a8a", label=label, **look)


def over_layers(axis: Axes, depths: Iterable[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(list(depths), [str(n) for n in depths])
    axis.minorticks_off()
    axis.set_xlabel("layers, two sublayers each")
