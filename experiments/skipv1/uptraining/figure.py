"""The figure of `scale-uptrain`: first losses beside theory's distances, losses while trained on, and at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.uptraining.points import CONTINUED, CONTINUED_TWIN, SKIPV1
from experiments.skipv1.uptraining.verdicts import at_the_end, numbers
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.tuning import mark
from experiments.verdicts.intervals import t_interval

LOOKS: dict[str, dict[str, Any]] = {
    CONTINUED: {"color": "#1a1a1a", "linestyle": "-", "marker": "o"},
    CONTINUED_TWIN: {"color": "#1a1a1a", "linestyle": ":", "marker": "o"},
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
    _ends(axes[2], measurement)
    style.finish(axes)
    for axis in axes:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return fig


def _begins(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Over the distance that theory has for independent heads; svd, of which it has none, over what was measured."""
    vanilla = numbers(measurement["scratch"][BASELINE])
    for i, way in enumerate(measurement["first"]):
        added = [a - b for a, b in zip(numbers(measurement["first"][way]), vanilla, strict=True)]
        interval = t_interval(added)
        ends = prediction["distances"].get(way)
        measured = float(np.mean(measurement["distance"][way]))
        if ends:
            axis.plot(ends, [interval.mean] * 2, color="#2f7fb8", linewidth=3, alpha=0.3, zorder=1)
        axis.errorbar(
            [measured],
            [interval.mean],
            yerr=[interval.half_width],
            marker="o" if way in prediction["printed"] else "s",
            markerfacecolor="white",
            color="#1a1a1a",
            zorder=2,
        )
        axis.annotate(
            way, (measured, interval.mean), xytext=(5, 4 if i % 2 else -9), textcoords="offset points", fontsize=8
        )
    axis.plot([], [], "o", markerfacecolor="white", color="#1a1a1a", label="measured, 95 %: the paper's ways")
    axis.plot([], [], "s", markerfacecolor="white", color="#1a1a1a", label="others")
    axis.plot([], [], color="#2f7fb8", linewidth=3, alpha=0.3, label="distance, independent heads")
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("mean square added to layer 2's attention, over its own")
    axis.set_ylabel("first held-out loss less MHA's (nats a token)")
    axis.set_title("As SkipV1Former, before it is trained on")


def _during(axis: Axes, prediction: Json, measurement: Json) -> None:
    shares = [100 * share for share in measurement["share"]]
    for name in prediction["choices"]:
        curves = [curve for curve in measurement["held_out"][name] if curve is not None]
        if len(curves) < 2:
            continue
        look = {k: v for k, v in LOOKS[name].items() if k != "marker"}
        intervals = [t_interval(at) for at in zip(*curves, strict=True)]
        middle = np.array([i.mean for i in intervals])
        axis.plot(shares, middle, linewidth=1.3, label=f"{name}{mark(name, measurement)}", **look)
    for name, line in ((BASELINE, "--"), (SKIPV1, ":")):
        mean = float(np.nanmean(numbers(measurement["scratch"][name])))
        axis.axhline(mean, color="#777777", linestyle=line, linewidth=1.0, label=f"{name} from scratch, at its end")
    axis.set_xlabel("tokens of training on (% of those from scratch)")
    axis.set_ylabel("held-out loss (nats a token), means over seeds")
    axis.set_title("Trained on")


def _ends(axis: Axes, measurement: Json) -> None:
    found = at_the_end(measurement)
    pairs = [(name, CONTINUED) for name in measurement["loss"] if name != CONTINUED]
    for place, pair in enumerate(reversed(pairs)):
        look = {k: v for k, v in LOOKS[pair[0]].items() if k != "linestyle"}
        interval = found[pair]
        axis.errorbar(
            [interval.mean], [place], xerr=[interval.half_width], linestyle="none", markerfacecolor="white", **look
        )
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--", label="MHA trained on for as long")
    axis.set_yticks(range(len(pairs)), [_words(pair[0], measurement) for pair in reversed(pairs)])
    axis.set_xlabel("held-out loss at the end, less MHA's trained on\n(nats a token), 95 % for all at once")
    axis.set_title("At the end")


def _words(name: str, measurement: Json) -> str:
    return "MHA, other weights" if name == CONTINUED_TWIN else f"{name}{mark(name, measurement)}"
