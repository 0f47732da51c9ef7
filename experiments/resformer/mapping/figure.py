"""The figure of `resformer-mapping`, from its prediction and measurement alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.resformer.mapping.points import (
    CURRENT,
    EVEN,
    IDENTITY,
    MAPPINGS,
    OTHER_TEXT,
    RESFORMER,
    SOURCES,
    layers_of,
    pair,
)
from experiments.store.folders import Json
from experiments.training.campaign import TWIN
from experiments.verdicts.intervals import against_baseline, t_interval

LOOKS = {
    CURRENT: ("#2f7fb8", "-", "o"),
    IDENTITY: ("#1a1a1a", "--", "s"),
    EVEN: ("#8a8a8a", ":", "v"),
    OTHER_TEXT: ("#d98a2b", "-.", "^"),
}


def draw(prediction: Json, measurement: Json) -> Figure:
    """Four panels: nearness with the layer before and with layer 1, rows under the bound, and losses."""
    fig, axes = style.figure(2, rows=2, width=4.1, height=4.1)
    probed = [seed for seed in measurement["probed"]["end"] if seed]
    titles = {"previous": "With the layer before, as in Fig. 3", "first": "With layer 1, as in ResFormer"}
    for axis, source in zip(axes, SOURCES, strict=False):
        _nearness(axis, probed, source)
        axis.set_title(titles[source])
    _bound(axes[2], prediction, measurement["probed"])
    _losses(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def _nearness(axis: Axes, probed: Sequence[Json], source: str) -> None:
    layers = layers_of(probed, source)
    for shift, (name, (grey, line, marker)) in zip((-0.04, 0.04, -0.12, 0.12), LOOKS.items(), strict=True):
        by_layer = [
            t_interval([seed["pairs"][pair(layer, source)]["cosine"][name] for seed in probed]) for layer in layers
        ]
        x = [layer + shift for layer in layers]
        axis.plot(x, [i.mean for i in by_layer], color=grey, linestyle=line)
        style.bars(axis, x, by_layer, color=grey, marker=marker)
        axis.plot([], [], color=grey, linestyle=line, marker=marker, markerfacecolor="white", label=MAPPINGS[name])
    axis.set_xticks(layers)
    axis.set_ylim(0, 1.05)
    axis.set_xlabel("layer $n$")
    axis.set_ylabel("mean cosine with cross-layer attention, 95 %")


def _bound(axis: Axes, prediction: Json, probed: Json) -> None:
    """Rows of weights by their largest move, all layers but the first, with the layer before; all seeds together."""
    axis.plot(prediction["eps"], prediction["bound"], color="#1a1a1a", label=r"sharp bound $\kappa_{1/2}(\epsilon)$")
    for stage, grey, line, label in (("end", "#2f7fb8", "-", "trained"), ("start", "#8a8a8a", "--", "before training")):
        told = [row for seed in probed[stage] if seed for row in seed["by_move"]["previous"]]
        bins = sorted({round(math.log2(row["eps"]) - 0.5) for row in told})
        gathered = [[row for row in told if round(math.log2(row["eps"]) - 0.5) == b] for b in bins]

        def mean(name: str, gathered: list[list[Json]] = gathered) -> list[float]:
            return [sum(r[name] * r["rows"] for r in rows) / sum(r["rows"] for r in rows) for rows in gathered]

        axis.plot(mean("eps"), mean("middle"), color=grey, linestyle=line, label=f"{label}, median of rows")
        axis.fill_between(
            mean("eps"), mean("low"), mean("high"), color=grey, alpha=0.25, linewidth=0, label=f"{label}, 95 % of rows"
        )
        if stage == "end":
            axis.plot(
                mean("eps"), mean("mean"), "s", color="#d98a2b", markerfacecolor="white", label="Pinsker's bound, mean"
            )
    axis.set_xscale("log", base=2)
    axis.set_ylim(0, 1.05)
    axis.set_xlabel(r"largest move $\epsilon$ of a row's scores (nats)")
    axis.set_ylabel("total variation of the weights")
    axis.set_title("$K_{n-1}$ in the place of $K_n$")


def _losses(axis: Axes, prediction: Json, measurement: Json) -> None:
    losses = {name: [math.nan if x is None else x for x in of] for name, of in measurement["loss"].items()}
    intervals = against_baseline(losses.pop(RESFORMER), losses)
    for place, (name, interval) in enumerate(intervals.items()):
        said = prediction["losses"].get(name)
        look = {k: v for k, v in style.look(name).items() if k != "linestyle"}
        style.bars(axis, [place], [interval], markersize=6, **look)
        if said:
            axis.annotate(
                "Fig. 8:\nhigher" if said > 0 else "Fig. 8:\nlower",
                (place, interval.mean + interval.half_width),
                (0, 4),
                textcoords="offset points",
                ha="center",
                fontsize=7.5,
            )
    axis.plot(
        [], [], "s", color="#777777", markerfacecolor="white", label="trained, 95 % for all at once; words: the paper's"
    )
    axis.axhline(0, color="#999999", linewidth=0.8)
    names = {TWIN: "ResFormer's\ntwin"}
    axis.set_xticks(range(len(intervals)), [names.get(name, name.replace("-", "-\n")) for name in intervals])
    axis.set_xlim(-0.5, len(intervals) - 0.5)
    axis.set_ylabel("loss less ResFormer's (nats a token)")
    axis.set_title("Trained with each mapping, as in Fig. 8")
