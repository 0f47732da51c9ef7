"""The figure of `dva-against-gpt2`: curves to the left, Table 2's and of epochs, and differences to the right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.drawing.rows import PRINTED, in_rows
from experiments.dva.against_gpt2.factors import BARE, DYNAMIC, FACTORS, HEAD, MODEL_B, named
from experiments.dva.against_gpt2.points import B_AT_A_S, FLOPS, GATE, MANY_DYNAMIC, ONE_ORDINARY, SHALLOW, THIN
from experiments.dva.against_gpt2.verdicts import FAMILY, differences, of_trainings, what_adds
from experiments.dva.tables import SECONDS, TABLE_2
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.tuning import mark, other_rates
from experiments.verdicts.intervals import Interval, t_interval

LOOKS: dict[str, dict[str, Any]] = {
    BASELINE: {"color": "#1a1a1a", "linestyle": "--"},
    MODEL_B: {"color": style.DVA, "linestyle": "-"},
}
SHORT = {
    BASELINE: "model a",
    MODEL_B: "model b",
    HEAD: "model a with one head",
    ONE_ORDINARY: "one ordinary head alone",
    named(HEAD, DYNAMIC): "one dynamic head, with feed-forward",
    named(HEAD, BARE, DYNAMIC): "the same without",
    MANY_DYNAMIC: "model b with many heads",
    GATE: "model b's gate alone",
    BARE: "model a without feed-forward",
    THIN: "thin a (b's parameters)",
    SHALLOW: "shallow a (b's parameters)",
    FLOPS: "thin a (b's FLOPs)",
}
TOGETHER = "together:\nmodel b less model a"
MEAN = "mean of all orders"
HOW: dict[str, dict[str, Any]] = {
    MEAN: {"color": "#6e2c59", "marker": "o", "markerfacecolor": "#6e2c59"},
    "first, from model a": {"color": "#8a8a8a", "marker": "^", "markerfacecolor": "white"},
    "last, to model b": {"color": style.DVA, "marker": "v", "markerfacecolor": "white"},
}
COLOUR = "#6e2c59"
BAND = 2.0  # standard errors


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=6.0, height=5.0)
    _curves(axes[0], measurement)
    _parts(axes[1], prediction, measurement)
    _again(axes[2], measurement)
    _pairs(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def _curves(axis: Axes, measurement: Json) -> None:
    """Draw model a, and model b at model a's learning rate: curves on the way are compared at one rate."""
    for name, look in ((BASELINE, LOOKS[BASELINE]), (B_AT_A_S, LOOKS[MODEL_B])):
        whole = [x for x in measurement["curves"][name] if x is not None]
        model = MODEL_B if name == B_AT_A_S else name
        starts = zip(measurement["start"][model], measurement["curves"][name], strict=True)
        held_out = [[[0, start], *curves["held_out"]] for start, curves in starts if curves is not None]
        _band(axis, held_out, f"{SHORT[model]}, held out", look)
        _band(axis, [x["training"] for x in whole], "", {**look, "linewidth": 0.6}, band=False)
    axis.plot([], [], color="#8a8a8a", linewidth=0.6, label="thin: training, mean of seeds")
    axis.set_xlabel("steps")
    axis.set_ylabel("loss (nats a token)")
    axis.set_title(f"Table 2's columns, at a's rate; {_time(measurement)}")


def _time(measurement: Json) -> str:
    """What model b saves, where it is told from nothing: other work on a machine may hide it."""
    found, printed = t_interval(of_trainings(measurement, MODEL_B)["time"], FAMILY), 1 - SECONDS["b"] / SECONDS["a"]
    if not abs(found.mean) > found.half_width:  # nor where a training diverged
        return f"b's time is not told from a's (printed: {100 * printed:.1f} % less)"
    ends = (found.mean, found.mean + found.half_width, found.mean - found.half_width)
    mean, least, most = (100 * (1 - math.exp(x)) for x in ends)
    return f"b takes {mean:.0f} % ({least:.0f} to {most:.0f}) less time (printed: {100 * printed:.1f} %)"


def _band(
    axis: Axes, curves: Sequence[Sequence[Sequence[float]]], label: str, look: dict[str, Any], *, band: bool = True
) -> None:
    if not curves:
        return
    steps = [step for step, _ in curves[0]]
    losses = np.array([[loss for _, loss in curve] for curve in curves])
    mean = losses.mean(0)
    axis.plot(steps, mean, label=label or None, **look)
    if band and len(losses) > 1:
        off = BAND * losses.std(0, ddof=1) / len(losses) ** 0.5
        axis.fill_between(steps, mean - off, mean + off, color=look["color"], alpha=0.2, linewidth=0)


def _parts(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Of every factor three numbers, one below another; of the whole, and of what is nothing, one."""
    found, every = what_adds(measurement), differences(measurement)
    places, names = [], []
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--")
    for i, (factor, part) in enumerate(found.items()):
        at = 2.0 * (len(found) + 1 - i)
        for j, (interval, (label, look)) in enumerate(
            zip((part.mean, part.earliest, part.latest), HOW.items(), strict=True)
        ):
            _bar(axis, interval, at + 0.45 * (1 - j), "" if i else f"{label}, 95 %", look)
        places.append(at)
        names.append(FACTORS[factor])
    whole = {TOGETHER: every[MODEL_B, BASELINE], "model a, other weights,\nless model a": every[TWIN, BASELINE]}
    for at, (name, interval) in zip((2.0, 0.8), whole.items(), strict=True):
        _bar(axis, interval, at, "", HOW[MEAN])
        places.append(at)
        names.append(name)
    printed = TABLE_2[1500][3] - TABLE_2[1500][1]
    axis.plot([printed], [2.0], label="printed, one run each", **PRINTED)
    axis.set_yticks(places, names)
    axis.set_ylim(0.2, max(places) + 0.9)
    count, share = prediction["parameters"], prediction["faster"]["flops"]
    axis.set_xlabel("change of the held-out loss (nats a token)")
    sizes = f"{100 * count[MODEL_B] / count[BASELINE]:.0f} % of parameters, {100 * share:.0f} % of FLOPs"
    axis.set_title(f"The difference in parts (b: {sizes})")


def _bar(axis: Axes, interval: Interval, place: float, label: str, look: dict[str, Any]) -> None:
    axis.errorbar([interval.mean], [place], xerr=[interval.half_width], label=label or None, linestyle="none", **look)


def _pairs(axis: Axes, prediction: Json, measurement: Json) -> None:
    found = differences(measurement)
    rows = {}
    for pair in prediction["compared"]:
        arm, against = pair["arm"], pair["against"]
        said = {-1: "said: lower", 0: "said: no lower", 1: "said: higher"}[pair["sign"]]
        rates = other_rates((arm, against), measurement).strip(" ()")
        about = f"{said}; {rates}" if rates else said
        names = [f"{SHORT[name]}{mark(name, measurement)}" for name in (arm, against)]
        rows[f"{names[0]}\nless {names[1]} ({about})"] = found[arm, against]
    in_rows(axis, list(rows.values()), list(rows), color=COLOUR, label="95 %, for all pairs at once")
    axis.tick_params(axis="y", labelsize=8)
    axis.set_xlabel("difference of held-out losses (nats a token)")
    axis.set_title("What the paper says, and matched models")


def _again(axis: Axes, measurement: Json) -> None:
    """The axis has room for all means; a band that a single seed makes wider is cut off."""
    means = []
    for name, look in LOOKS.items():
        whole = [x for x in measurement["again"][name] if x is not None]
        _band(axis, [x["held_out"] for x in whole], f"{SHORT[name]}, held out", look)
        _band(axis, [x["training"] for x in whole], f"{SHORT[name]}, training", {**look, "linewidth": 0.7}, band=False)
        if whole:
            means += [np.array([x[kind] for x in whole])[..., 1].mean(0) for kind in ("held_out", "training")]
    if means:
        lowest, highest = (float(limit(np.concatenate(means))) for limit in (np.min, np.max))
        room = 0.05 * (highest - lowest)
        axis.set_ylim(lowest - room, highest + room)
    axis.set_xlabel("steps")
    axis.set_ylabel("loss (nats a token)")
    axis.set_title(f"A part of the text, read {measurement['epochs']:.2g} times")
