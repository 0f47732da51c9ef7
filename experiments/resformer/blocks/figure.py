"""The figure of `resformer-blocks`, from its prediction and measurement alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.resformer.blocks.points import BLOCK, CROSS, WAYS, distance_key
from experiments.store.folders import Json
from experiments.toys.runs import point_key
from experiments.verdicts.intervals import t_interval

LINES = ("-", "--", "-.", ":")
GREYS = ("#1a1a1a", "#2f7fb8", "#7a4fa3", "#d98a2b")
PLANS: dict[str, tuple[str, dict[str, Any], str]] = {
    CROSS: ("cross-layer attention, Eqn. (2)", {"color": "#1a1a1a", "linestyle": "--"}, "s"),
    BLOCK: ("its block form, ResFormer", {"color": style.look(BLOCK)["color"], "linestyle": "-"}, "^"),
}


def draw(prediction: Json, measurement: Json) -> Figure:
    """Four panels: keys moved apart, toys trained, the largest move under a softmax, normal moves under a softmax."""
    fig, axes = style.figure(2, rows=2, width=4.1, height=4.2)
    _keys(axes[0], prediction, measurement["keys"])
    _toys(axes[1], prediction["toys"], measurement)
    _largest(axes[2], prediction["softmax"], measurement)
    _normal(axes[3], prediction["softmax"], measurement["normal"])
    style.finish(axes)
    return fig


def _keys(axis: Axes, prediction: Json, measured: Json) -> None:
    shown = prediction["shown"]
    of_size = [said for said in prediction["keys"].values() if said["size"] == shown]
    for (way, name), line, grey, marker in zip(WAYS.items(), LINES, GREYS, style.MARKERS, strict=False):
        said = sorted((p["distance"], p["share"]) for p in of_size if p["way"] == way)
        slope = math.sqrt(said[-1][1]) / said[-1][0]
        axis.plot([0, said[-1][0]], [0, slope * said[-1][0]], color=grey, linestyle=line)
        roots = [
            t_interval([math.sqrt(x) for x in measured[distance_key(shown, way, distance)]]) for distance, _ in said
        ]
        axis.plot([], [], color=grey, linestyle=line, marker=marker, markerfacecolor="white", label=name)
        style.bars(axis, [distance for distance, _ in said], roots, color=grey, marker=marker)
    axis.set_xlabel("distance of the layers' keys (of their root mean square)")
    axis.set_ylabel("difference, over the block form's attention")
    d, n, sigma = (part[1:] for part in shown.split("-"))
    axis.set_title(f"Keys apart, linear attention, $d={d}$, $n={n}$, $\\sigma={sigma}$")


def _toys(axis: Axes, said: Json, measurement: Json) -> None:
    d, rho, trained = said["d"], said["rho"], measurement["trained"]
    fine = [d * i / 100 for i in range(101)]
    curves = {CROSS: [rho * a * (d - a) for a in fine], BLOCK: [rho * a * d for a in fine]}
    for plan, (name, look, marker) in PLANS.items():
        axis.plot(fine, curves[plan], label=f"{name}, closed form", **look)
        keys = [point_key(said["size"], plan, a) for a in range(d + 1)]
        style.crosses(axis, range(d + 1), [measurement["exact"][key]["explained"] for key in keys])
        intervals = [t_interval(trained["explained"][key]) for key in keys[1:]]
        style.bars(axis, range(1, d + 1), intervals, color=look["color"], marker=marker, label=f"{name}, trained, 95 %")
    style.crosses(axis, [], [], "exact minimisation")
    dots = [(a + 0.12, v) for a in range(1, d + 1) for v in trained["swapped"][point_key(said["size"], CROSS, a)]]
    x, y = zip(*dots, strict=True)
    axis.plot(x, y, "+", color="#2f7fb8", markersize=4, label="block form put into trained (2), each seed")
    axis.set_xticks(range(d + 1))
    axis.set_xlabel("rank $a$ of the copy of $x$ (of $d$ numbers)")
    axis.set_ylabel("explained signal (squared units of $y$)")
    axis.set_title(f"Toys trained, $d={d}$, $n={said['n']}$, $\\sigma={said['sigma']:g}$")


def _largest(axis: Axes, said: Json, measurement: Json) -> None:
    axis.plot(said["fine"], said["all_move"], color="#999999", linestyle=":", label=r"$\tanh(\epsilon/2)$, all move")
    looks = zip(LINES, GREYS, style.MARKERS, strict=False)
    for (layers, curve), (line, grey, marker) in zip(said["curves"].items(), looks, strict=False):
        axis.plot(said["fine"], curve, color=grey, linestyle=line, label=f"sharp bound, {layers} layers")
        axis.plot(
            said["eps"],
            measurement["climbed"][layers],
            marker,
            color=grey,
            markerfacecolor="white",
            label=f"worst found, {layers} layers",
        )
    layers = str(next(iter(said["curves"])))
    drawn = measurement["random"][layers]
    label = f"random moves, {layers} layers, 95 % of rows"
    low, high = [x["low"] for x in drawn], [x["high"] for x in drawn]
    axis.fill_between(said["eps"], low, high, color="#c8c8c8", linewidth=0, label=label)
    axis.set_xlabel(r"largest move $\epsilon$ of a score (nats)")
    axis.set_ylabel("total variation of the weights")
    axis.set_title("Softmax: the largest move")


def _normal(axis: Axes, said: Json, measured: Sequence[Json]) -> None:
    spreads = said["spreads"]
    axis.plot(spreads, said["endless"], color="#1a1a1a", linestyle="--", label="Pinsker's bound, endless rows")
    axis.plot(spreads, [x["pinsker"] for x in measured], "s", color="#1a1a1a", markerfacecolor="white")
    axis.plot([], [], "s", color="#1a1a1a", markerfacecolor="white", label="Pinsker's bound, mean over the rows")
    axis.plot(spreads, [x["kappa"] for x in measured], ":", color="#d98a2b", label="sharp bound, by each row's largest")
    off = [x["variation"] for x in measured]
    axis.plot(spreads, [x["middle"] for x in off], "-", color="#2f7fb8", label="measured, median of rows")
    low, high = [x["low"] for x in off], [x["high"] for x in off]
    axis.fill_between(spreads, low, high, color="#2f7fb8", alpha=0.2, linewidth=0, label="measured, 95 % of rows")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(top=1.2)
    axis.set_xlabel("standard deviation of the moves (nats)")
    axis.set_ylabel("total variation of the weights")
    axis.set_title("Softmax: normal moves, one earlier layer")
