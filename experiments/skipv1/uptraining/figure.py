"""The figure of `scale-uptrain`: first losses beside theory's distances, losses while trained on, and at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.uptraining.points import CONTINUED, CONTINUED_TWIN, REORDERED, SKIPV1
from experiments.skipv1.uptraining.verdicts import at_the_end, heads_of, numbers
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.tuning import mark
from experiments.verdicts.intervals import t_interval

LOOKS: dict[str, dict[str, Any]] = {
    CONTINUED: {"color": "#1a1a1a", "linestyle": "-", "marker": "o"},
    CONTINUED_TWIN: {"color": "#1a1a1a", "linestyle": ":", "marker": "o"},
    REORDERED: {"color": "#8a8a8a", "linestyle": ":", "marker": "o"},
    "skipv1, mean": {"color": "#2f7fb8", "linestyle": "-", "marker": "s"},
    "skipv1, apart": {"color": "#2f7fb8", "linestyle": "--", "marker": "D"},
    "skipv1, svd": {"color": "#2f7fb8", "linestyle": "-.", "marker": "v"},
    "skipv1, whole": {"color": "#2f7fb8", "linestyle": ":", "marker": "^"},
    "svformer": {"color": "#d98a2b", "linestyle": "--", "marker": "P"},
    "resformer-learned": {"color": "#d98a2b", "linestyle": "-", "marker": "X"},
    "attnres": {"color": "#7a4fa3", "linestyle": "-", "marker": "h"},
}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(3, width=4.6, height=5.0)
    _begins(axes[0], prediction, measurement)
    _during(axes[1], prediction, measurement)
    _ends(axes[2], prediction, measurement)
    style.finish(axes)
    for axis in axes:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return fig


def _begins(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Over the distance from what was trained, measured, and as theory has it for independent heads."""
    vanilla = numbers(measurement["scratch"][BASELINE])
    points = []
    for way, losses in measurement["first"].items():
        interval = t_interval([a - b for a, b in zip(numbers(losses), vanilla, strict=True)])
        points.append((interval.mean, float(np.mean(measurement["distance"][way])), interval.half_width, way))
    points.sort()
    apart = 0.045 * max(loss + half for loss, _, half, _ in points)
    lowest = -apart
    for loss, distance, half, way in points:
        if ends := prediction["distances"].get(way):
            axis.plot(ends, [loss] * 2, color="#2f7fb8", linewidth=3, alpha=0.3, zorder=1)
            axis.plot(ends, [loss] * 2, "|", color="#2f7fb8", markersize=8, zorder=1)
        marker = "o" if way in prediction["printed"] else "s"
        look: dict[str, Any] = {"marker": marker, "markerfacecolor": "white", "color": "#1a1a1a", "zorder": 2}
        axis.errorbar([distance], [loss], yerr=[half], linewidth=1, **look)
        lowest = max(lowest + apart, loss)  # so that names do not lie on one another
        axis.annotate(way, (distance, lowest), xytext=(6, -3), textcoords="offset points", fontsize=8, zorder=3)
    for marker, words in (("o", "measured, 95 %: the paper's ways"), ("s", "measured: others")):
        axis.plot([], [], marker, markerfacecolor="white", color="#1a1a1a", label=words)
    if prediction["distances"]:
        axis.plot([], [], "|-", color="#2f7fb8", alpha=0.5, label="distance, independent heads")
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("mean square added to layer 2's attention, over its own")
    axis.set_ylabel(f"first held-out loss less {heads_of(prediction)}'s (nats a token)")
    axis.set_title("As SkipV1Former, before it is trained on")


def _during(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Means over seeds; the bands are of the paired difference to vanilla that is trained on."""
    shares = [100 * share for share in measurement["share"]]
    held_out = measurement["held_out"]
    for name in prediction["choices"]:
        pairs = zip(held_out[name], held_out[CONTINUED], strict=True)
        both = [(ours, base) for ours, base in pairs if ours is not None and base is not None]
        if len(both) < 2:
            continue
        look = {k: v for k, v in LOOKS[name].items() if k != "marker"}
        middle = np.mean([ours for ours, _ in both], axis=0)
        apart = [t_interval(at) for at in zip(*(np.subtract(*pair).tolist() for pair in both), strict=True)]
        half = np.array([interval.half_width for interval in apart])
        axis.plot(shares, middle, linewidth=1.3, label=f"{name}{mark(name, measurement)}", **look)
        axis.fill_between(shares, middle - half, middle + half, color=look["color"], alpha=0.12, linewidth=0)
    for name, line in ((BASELINE, "--"), (SKIPV1, ":")):
        mean = float(np.nanmean(numbers(measurement["scratch"][name])))
        axis.axhline(mean, color="#777777", linestyle=line, linewidth=1.0, label=f"{name} from scratch, at its end")
    axis.set_xlabel("tokens of training on (% of those from scratch)")
    axis.set_ylabel(
        "held-out loss (nats a token), means over seeds;\n"
        f"bands: 95 % of the difference to {heads_of(prediction)}'s trained on"
    )
    axis.set_title("Trained on")


def _ends(axis: Axes, prediction: Json, measurement: Json) -> None:
    found, heads = at_the_end(measurement), heads_of(prediction)
    pairs = [(name, CONTINUED) for name in measurement["loss"] if name != CONTINUED]
    for place, pair in enumerate(reversed(pairs)):
        look = {k: v for k, v in LOOKS[pair[0]].items() if k != "linestyle"}
        interval = found[pair]
        axis.errorbar(
            [interval.mean], [place], xerr=[interval.half_width], linestyle="none", markerfacecolor="white", **look
        )
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--", label=f"{heads} trained on for as long")
    axis.locator_params(axis="x", nbins=5)
    axis.set_yticks(range(len(pairs)), [_words(pair[0], heads, measurement) for pair in reversed(pairs)])
    axis.set_xlabel(
        f"held-out loss at the end, less {heads}'s trained on\n(nats a token), 95 % for all of one beginning"
    )
    axis.set_title("At the end")


def _words(name: str, heads: str, measurement: Json) -> str:
    others = {CONTINUED_TWIN: f"{heads}, other weights", REORDERED: f"{heads}, other order of text"}
    return others.get(name) or f"{name}{mark(name, measurement)}"
