"""The figure of `resformer-ablations`, from its prediction and measurement alone."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.drawing import style
from experiments.drawing.rows import in_rows
from experiments.resformer.ablations.points import (
    ALL,
    ALL_KEYS,
    ALL_QUERIES,
    ANCHORS,
    KEYS,
    LEARNED,
    ONE,
    PREVIOUS,
    QUERIES,
    RESFORMER,
    SPARSE,
    SVFORMER,
    TWO,
)
from experiments.resformer.ablations.verdicts import differences, rates
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.tuning import mark
from experiments.verdicts.intervals import Interval, t_interval

NOISE = (TWIN, BASELINE, "vanilla's twin")
PANELS = {
    "What is carried over (Figs. 7, 16)": (
        (RESFORMER, BASELINE, "half of layer 1's values"),
        (QUERIES, BASELINE, "half of layer 1's queries"),
        (KEYS, BASELINE, "half of layer 1's keys"),
        (SVFORMER, BASELINE, "all of its values"),
        (ALL_QUERIES, BASELINE, "all of its queries"),
        (ALL_KEYS, BASELINE, "all of its keys"),
        NOISE,
    ),
    "From which layer (Figs. 9, 17)": (
        (PREVIOUS, RESFORMER, "the layer before's less layer 1's"),
        (ALL, RESFORMER, "all layers' less layer 1's"),
        (ANCHORS, SVFORMER, "SVFormer: 2 anchors less 1"),
        (PREVIOUS, BASELINE, "the layer before's"),
        (ALL, BASELINE, "all layers'"),
        (ANCHORS, BASELINE, "SVFormer with 2 anchors"),
        NOISE,
    ),
    "With which weight (Fig. 6)": (
        (ONE, BASELINE, r"$V_n + V_1$"),
        (TWO, BASELINE, r"$V_n + 2 V_1$"),
        (TWO, ONE, r"$V_n + 2 V_1$ less $V_n + V_1$"),
        (RESFORMER, BASELINE, r"$(V_n + V_1) / 2$"),
        (LEARNED, BASELINE, "learned, each layer its own"),
        (LEARNED, RESFORMER, "learned less 1/2"),
        (SPARSE, BASELINE, "1/2, in the last layers alone"),
        NOISE,
    ),
}
WORDS = {-1: "lower", 1: "higher"}
LINES = {
    RESFORMER: (r"$(V_n + V_1) / 2$", style.look(RESFORMER)),
    ONE: (r"$V_n + V_1$", {"color": "#1a1a1a", "linestyle": "--", "marker": "d"}),
    TWO: (r"$V_n + 2 V_1$", {"color": "#8a8a8a", "linestyle": "-.", "marker": "p"}),
    LEARNED: ("learned", style.look(LEARNED)),
}


def draw(prediction: Json, measurement: Json) -> Figure:
    """Three panels of losses, one a question, and how much of the values is layer 1's."""
    fig, axes = style.figure(2, rows=2, width=5.6, height=4.0)
    found = differences(prediction, measurement)
    for axis, (title, rows) in zip(axes, PANELS.items(), strict=False):
        _losses(axis, prediction, measurement, found, rows)
        axis.set_title(title)
    _shares(axes[3], measurement["values"])
    style.finish(axes)
    return fig


def _losses(
    axis: Axes,
    prediction: Json,
    measurement: Json,
    found: dict[tuple[str, str], Interval],
    rows: Sequence[tuple[str, str, str]],
) -> None:
    """A row a pair, and beside its name what was predicted."""
    said = {(pair["arm"], pair["against"], pair["by"]): pair for pair in prediction["compared"]}
    labels = []
    for arm, against, words in rows:
        heard = [
            f"{by}: {WORDS[said[arm, against, by]['sign']]}" for by in ("paper", "toy") if (arm, against, by) in said
        ]
        untuned = mark(arm, measurement) or mark(against, measurement)
        heard.append(rates(arm, against, measurement).strip(" ()"))
        labels.append("\n".join(filter(None, (f"{words}{untuned}", ", ".join(filter(None, heard))))))
    in_rows(
        axis,
        [found[arm, against] for arm, against, _ in rows],
        labels,
        label="trained, 95 % for all pairs at once",
        printed=[said.get((arm, against, "paper"), {}).get("nats") for arm, against, _ in rows],
        source="the paper's number, at 82M",
    )
    axis.set_xlabel("loss less vanilla's, unless it says otherwise (nats a token)")


def _shares(axis: Axes, values: Json) -> None:
    """Layer 1's share of what heads attend over, in the end, with 95 % over seeds."""
    for shift, (name, (label, look)) in zip((-0.09, -0.03, 0.03, 0.09), LINES.items(), strict=True):
        seeds = [seed for seed in values[name] if seed]
        if len(seeds) < 2:
            continue
        layers = seeds[0]["layer"]
        means = [t_interval([seed["share"][i] for seed in seeds]) for i in range(len(layers))]
        x = [layer + shift for layer in layers]
        axis.plot(x, [i.mean for i in means], color=look["color"], linestyle=look["linestyle"])
        style.bars(axis, x, means, color=look["color"], marker=look["marker"])
        axis.plot([], [], markerfacecolor="white", label=label, **look)
    axis.set_ylim(0, 1)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("layer $n$")
    axis.set_ylabel("layer 1's share of the mix, by rms, 95 %")
    axis.set_title("How much of the values is layer 1's")
