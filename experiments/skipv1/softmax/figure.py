"""The figure of `skipv1-softmax`, from its prediction and measurement alone."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.softmax.points import BUILT, KINDS, arm_key
from experiments.store.folders import Json
from experiments.toys.checks import SHARE
from experiments.verdicts.intervals import t_interval

LINES: dict[str, dict[str, Any]] = {
    "two heads": {"color": style.SKIPV1["color"], "linestyle": "-."},
    "three heads": dict(style.SKIPV1),
}
MARKERS = {"two heads": "o", "three heads": "^", "transformer": "D"}
ABREAST = {"two heads": 0.93, "three heads": 1.07, "transformer": 1.0}  # of the place on the axis
LABELS = {"two heads": "1 + 1 heads", "three heads": "1 + 2 heads"}
TOKENS = {"mha": "squeezed", "skipv1": "raw"}
LINEAR: dict[str, Any] = {"color": "#8a8a8a", "linestyle": "-", "linewidth": 1.0}


def draw(prediction: Json, measurement: Json) -> Figure:
    """Four panels at most: over n for each d, over the logits, and the gap that is proved."""
    widths = list(prediction["curves"])
    fig, axes = style.figure(2, rows=(len(widths) + 3) // 2, width=4.4, height=4.2)
    for axis, d in zip(axes, widths, strict=False):
        _over_n(axis, d, prediction, measurement)
    _over_logits(axes[len(widths)], prediction)
    _gaps(axes[len(widths) + 1], prediction)
    for axis in axes[len(widths) + 2 :]:
        axis.remove()
    style.finish(axes[: len(widths) + 2])
    return fig


def _over_n(axis: Axes, d: str, prediction: Json, measurement: Json) -> None:
    curve = prediction["curves"][d]
    n = [row["n"] for row in curve]
    axis.plot(n, [row["bayes"] for row in curve], label="posterior mean, raw", **style.BOUND)
    axis.plot(n, [row["linear"] for row in curve], label=r"linear skip heads: $\rho$", **LINEAR)
    for kind in BUILT:
        axis.plot(n, [row[kind] for row in curve], label=f"{LABELS[kind]}, theory's weights", **LINES[kind])
    floor = [row["compressed"] for row in curve]
    axis.plot(n, floor, label="squeezed tokens, at most", **style.MHA)
    axis.fill_between(n, 0, floor, color="#ececec", zorder=0)
    sizes = {key: numbers for key, numbers in prediction["sizes"].items() if str(numbers["d"]) == d}
    for kind in KINDS:
        for toy, (name, look, _) in style.TOYS.items():
            trained = {
                numbers["n"]: measurement["explained"].get(arm_key(key, kind, toy)) for key, numbers in sizes.items()
            }
            at = [n for n, values in trained.items() if values]
            if not at:
                continue
            heads = len(KINDS[kind][toy])
            label = f"{name}, {heads} heads" if kind in BUILT else f"Transformer, {TOKENS[toy]}"
            style.bars(
                axis,
                [m * ABREAST[kind] for m in at],
                [t_interval(trained[m]) for m in at],
                marker=MARKERS[kind],
                color=look["color"],
                label=f"{label}, 95 %",
            )
            for m in at:
                style.seeds(axis, m * ABREAST[kind], trained[m], look["color"])
    axis.set_xscale("log", base=2)
    axis.set_ylim(-0.03, 1.08)
    axis.set_xlabel("context length $n$ (pairs)")
    axis.set_ylabel(f"{SHARE} (of $d^2$)")
    axis.set_title(f"Explained, $d={d}$, $\\sigma={curve[0]['sigma']:g}$")


def _over_logits(axis: Axes, prediction: Json) -> None:
    """One pair of curves a task, the first one thin; triangles are what `theory.skipv1.softmax_bound` proves."""
    tasks = list(prediction["logits"].values())
    for numbers, width in zip(tasks, (0.9, 2.0), strict=False):
        axis.axhline(numbers["linear"], **{**LINEAR, "linewidth": width / 2})
        axis.axhline(numbers["compressed"], **{**style.MHA, "linewidth": width})
        for kind, rows in numbers["kinds"].items():
            scales = [row["logit_scale"] for row in rows]
            axis.plot(scales, [row["explained"] for row in rows], **{**LINES[kind], "linewidth": width})
            proved = [(row["logit_scale"], row["proved"]) for row in rows if row["proved"] is not None]
            axis.plot(*zip(*proved, strict=True), "v", markersize=3.5, color="#4d4d4d")
    for kind in BUILT:
        axis.plot([], [], label=f"{LABELS[kind]}, theory's weights", **LINES[kind])
    axis.plot([], [], "v", markersize=3.5, color="#4d4d4d", label="proved")
    axis.plot([], [], label=r"linear skip heads: $\rho$", **LINEAR)
    axis.plot([], [], label="squeezed tokens, at most", **style.MHA)
    axis.set_xscale("log")
    axis.set_ylim(-0.03, 1.08)
    axis.set_xlabel(r"scale $\varepsilon$ of the logits")
    axis.set_ylabel(f"{SHARE} (of $d^2$)")
    lengths = ", ".join(f"$n={numbers['n']}$" for numbers in tasks)
    axis.set_title(f"Over the logits, $d=2$, {lengths}{' (thick)' if len(tasks) > 1 else ''}")


def _gaps(axis: Axes, prediction: Json) -> None:
    looks = ("-", "--", "-.", ":", (0, (1, 3)))
    for look, marker, (d, rows) in zip(looks, style.MARKERS, prediction["gaps"].items(), strict=False):
        axis.plot(
            [row["n"] for row in rows],
            [row["gap"] for row in rows],
            linestyle=look,
            marker=marker,
            markersize=3.5,
            color=style.SKIPV1["color"],
            label=f"$d={d}$",
        )
    axis.axhline(0.75, color="#999999", linewidth=0.8)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xscale("log", base=2)
    axis.set_ylim(0, 1.04)
    axis.set_xlabel("context length $n$ (pairs)")
    axis.set_ylabel("gap of the optima (of $d^2$)")
    axis.set_title("Gap to any architecture, at the least")
