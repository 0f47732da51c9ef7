"""The figure of `attnres-dilution`: by read, trained; and the last read's effective number of outputs over depth."""

from __future__ import annotations

from math import exp
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attnres.dilution.points import (
    OWN,
    PRENORMS,
    at_both_rates,
    compared,
    exponents,
    last_effective,
    of_seeds,
    place,
    rates,
    words,
)
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.tuning import mark
from experiments.verdicts.intervals import t_interval

LAW: dict[str, Any] = {"color": "#8a8a8a", "linestyle": "-", "linewidth": 0.9}
READ = "read $l$ ($l$ odd: the newest output is attention's)"
COEFFICIENT, PROJECTION = "share of the coefficients", "projection, share of the read"
KINDS = {"coefficient": "Coefficients", "projection": "Projections"}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=4.6, height=4.4)
    depth = prediction["depths"][-1]
    panels = (
        ("coefficient", "newest", "newest output", COEFFICIENT),
        ("projection", "newest", "newest output", PROJECTION),
        ("projection", "embedding", "embedding", PROJECTION),
    )
    for axis, (kind, which, what, label) in zip(axes, panels, strict=False):
        _by_read(axis, prediction, measurement, depth, kind, which, labelled=axis is axes[0])
        axis.set_title(f"{KINDS[kind]} of the {what}, trained, {depth} layers")
        axis.set_ylabel(label)
    _caps(axes[0], prediction, depth)
    _over_depths(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def _by_read(
    axis: Axes, prediction: Json, measurement: Json, depth: int, kind: str, which: str, *, labelled: bool = False
) -> None:
    """Means over seeds, and each seed thin and pale, over the law; the rules have the same lines in every panel."""
    law = prediction["law"][str(depth)]
    reads, ends = range(1, len(law)), [0.0]
    for rule in (BASELINE, *compared(prediction)):
        at = place(prediction, rule, depth)
        seeds = of_seeds(measurement, at, "end")
        if len(seeds) < 2:
            continue
        curves = [[p[kind][which][i] for i in reads] for p in seeds]
        look = style.look(rule)
        label = f"{words(rule)}{mark(at, measurement)}" if labelled else None
        means = [fmean(at_read) for at_read in zip(*curves, strict=True)]
        axis.plot(reads, means, color=look["color"], linestyle=look["linestyle"], label=label)
        for curve in curves:
            axis.plot(reads, curve, color=look["color"], alpha=0.45, linewidth=0.6)
            ends += curve
    axis.plot(reads, law[1:], **LAW, label=f"$1 / (l + 1)${'' if labelled else '; rules as in (a)'}")
    axis.set_ylim(min(-0.05, *ends), max(1.05, *ends))
    axis.set_xlabel(READ)


def _caps(axis: Axes, prediction: Json, depth: int) -> None:
    for rule in compared(prediction):
        members = prediction["members"].get(place(prediction, rule, depth), [1])
        if max(members) > 1:
            look = style.look(rule)
            axis.plot(
                range(1, len(members) + 1),
                [1 / m for m in members],
                color=look["color"],
                linestyle="none",
                marker="_",
                label=f"{words(rule)}: at most $1 / m_b$",
            )


def _over_depths(axis: Axes, prediction: Json, measurement: Json) -> None:
    depths = prediction["depths"]
    outputs = [len(prediction["law"][str(depth)]) for depth in depths]
    for shift, rule in enumerate((BASELINE, *compared(prediction)), -2):
        x = [n * 1.035**shift for n in outputs]
        cells = [place(prediction, rule, depth) for depth in depths]
        if any(len(of_seeds(measurement, at, "end")) < len(measurement["shares"][at]) for at in cells):
            continue
        look = style.look(rule)
        logs = [t_interval(last_effective(measurement, at)) for at in cells]
        power = ""
        if len(depths) > 1:
            slope = t_interval(exponents(prediction, measurement, rule))
            power = f": power {slope.mean:.2f} ± {slope.half_width:.2f}"
        marks = {"color": look["color"], "marker": look["marker"]}
        means = style.geometric(axis, x, logs, label=f"{words(rule)}{power}", **marks)
        axis.plot(x, means, color=look["color"], linestyle=look["linestyle"], linewidth=0.9)
        if measurement["tuning"]["tuned"] and rule in at_both_rates(prediction):
            others = [exp(fmean(last_effective(measurement, at, PRENORMS))) for at in cells]
            axis.plot(x, others, linestyle="none", color=look["color"], marker=look["marker"], markersize=3.5)
    if measurement["tuning"]["tuned"]:
        axis.plot([], [], "o", color="#1a1a1a", markersize=3.5, label="small: PreNorm's learning rate")
    starts = [_start(measurement, place(prediction, BASELINE, depth)) for depth in depths]
    if all(starts):
        axis.plot(outputs, starts, color="#1a1a1a", linestyle=":", linewidth=1, label="all rules at the start")
    axis.plot(outputs, outputs, **LAW, label="outputs of one norm: power 1")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set_xticks(outputs, [str(n) for n in outputs])
    axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.set_xlabel("outputs in the last read: two a layer, and the embedding")
    axis.set_ylabel("effective number of outputs, 95 %")
    axis.set_title(f"The last read, trained {rates(measurement, OWN)}")


def _start(measurement: Json, at: str) -> float:
    starts = [p["effective"][-1] for p in of_seeds(measurement, at, "start")]
    return exp(sum(starts) / len(starts)) if starts else 0.0
