"""The figure of `skipv1-gap`, from its prediction and measurement alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.gap.points import paired_gaps
from experiments.store.folders import Json
from experiments.toys.checks import ALTERED, TRAINED_SLACK
from experiments.toys.runs import point_key
from experiments.verdicts.intervals import t_interval


def draw(prediction: Json, measurement: Json) -> Figure:
    """Four panels: losses, gaps of all sizes on one curve, how far measurements are from theory, the paper's bound."""
    fig, axes = style.figure(2, rows=2, width=4.2, height=4.0)
    _losses(axes[0], prediction, measurement)
    _gaps(axes[1], prediction, measurement)
    _deviations(axes[2], prediction, measurement)
    _bound(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def _through(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The curve through a closed form's values at a = 0 .. d; each of them is quadratic in a."""
    fine = np.linspace(0, len(values) - 1, 201)
    curve = np.polyval(np.polyfit(range(len(values)), values, min(2, len(values) - 1)), fine)
    return fine.tolist(), curve.tolist()


def _losses(axis: Axes, prediction: Json, measurement: Json) -> None:
    shown = prediction["shown"]
    numbers = prediction["sizes"][shown]
    d, zero = numbers["d"], numbers["zero_loss"]
    ranks = range(d + 1)
    for toy, (name, look, marker) in style.TOYS.items():
        fine, curve = _through([zero - point[toy] for point in numbers["ranks"]])
        axis.plot(fine, curve, label=f"{name}, closed form", **look)
        keys = [point_key(shown, toy, rank) for rank in ranks]
        style.crosses(axis, ranks, [zero - measurement["exact"][key]["explained"] for key in keys])
        intervals = [t_interval([zero - v for v in measurement["trained"][key]]) for key in keys]
        style.bars(axis, ranks, intervals, marker=marker, color=look["color"], label=f"{name}, trained, 95 %")
        scattered = measurement["from_gaussian"]
        dots = [(a, zero - v) for a, key in zip(ranks, keys, strict=True) for v in scattered[key]]
        x, y = zip(*dots, strict=True)
        axis.plot(x, y, ".", color=look["color"], markersize=5, alpha=0.7, zorder=1)
    axis.plot([], [], ".", color="#777777", label="Gaussian start, each seed")
    style.crosses(axis, [], [], "exact minimisation")
    axis.axhline(zero, color="#999999", linewidth=0.8)
    axis.annotate(
        "predicting zero", (d / 2, zero), xytext=(0, 3), textcoords="offset points", ha="center", fontsize=7.5
    )
    axis.set_xticks(ranks)
    axis.set_xlabel("rank $a$ of the copy of $x$ (of $d$ numbers)")
    axis.set_ylabel(r"loss  $E\,\|y_{n+1}-\hat{y}_{n+1}\|^2$  (units of $y^2$)")
    axis.set_title(f"Loss, $d={d}$, $n={numbers['n']}$, $\\sigma={numbers['sigma']:g}$")


def _gaps(axis: Axes, prediction: Json, measurement: Json) -> None:
    numbers = prediction["sizes"][prediction["shown"]]
    fine, curve = _through([point["gap"] / (numbers["rho"] * numbers["d"] ** 2) for point in numbers["ranks"]])
    axis.plot([a / numbers["d"] for a in fine], curve, color="black", label=r"closed form, $(a/d)^2$")
    for marker, (size, numbers) in zip(style.MARKERS, prediction["sizes"].items(), strict=False):
        d, scale = numbers["d"], numbers["rho"] * numbers["d"] ** 2
        shares = [a / d for a in range(d + 1)]
        exact = measurement["exact"]
        pairs = [[exact[point_key(size, toy, a)] for toy in ("skipv1", "mha")] for a in range(d + 1)]
        style.crosses(axis, shares, [(skip["explained"] - mha["explained"]) / scale for skip, mha in pairs])
        if point_key(size, "mha", 0) in measurement["trained"]:
            intervals = [t_interval(paired_gaps(measurement["trained"], size, a)) for a in range(d + 1)]
            label = f"$d={d}$, $n={numbers['n']}$, $\\sigma={numbers['sigma']:g}$, 95 %"
            style.bars(axis, shares, intervals, unit=scale, marker=marker, color=style.SKIPV1["color"], label=label)
    style.crosses(axis, [], [], "exact minimisation")
    axis.set_xlabel("share $a/d$ of the numbers spent on $x$")
    axis.set_ylabel(r"gap at equal rank / $\rho d^2$")
    axis.set_title("Gap at equal rank, all sizes")


def _deviations(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Measured less predicted, in per cent of the prediction, with what a wrong prediction would look like."""
    size = prediction["shown"]
    numbers = prediction["sizes"][size]
    d = numbers["d"]
    axis.axhspan(-100 * TRAINED_SLACK, 100 * TRAINED_SLACK, color="#ececec", zorder=0, label="allowed slack")
    for level in (-100 * ALTERED, 100 * ALTERED):
        axis.axhline(level, **{**style.BOUND, "linewidth": 1.2})
    axis.plot([], [], **style.BOUND, label="closed form altered by 2 %")
    for shift, (toy, (name, look, marker)) in zip((-0.08, 0.08), style.TOYS.items(), strict=True):
        ranks = [a for a in range(d + 1) if numbers["ranks"][a][toy] > 0]
        signals = [numbers["ranks"][a][toy] for a in ranks]
        keys = [point_key(size, toy, a) for a in ranks]
        exact = [100 * (measurement["exact"][k]["explained"] / s - 1) for k, s in zip(keys, signals, strict=True)]
        trained = [
            t_interval([100 * (v / s - 1) for v in measurement["trained"][k]])
            for k, s in zip(keys, signals, strict=True)
        ]
        x = [a + shift for a in ranks]
        fitted = measurement["readouts_only"]
        start = [100 * (fmean(fitted[k]) / s - 1) for k, s in zip(keys, signals, strict=True)]
        axis.plot(x, start, "+", color=look["color"], markersize=6)
        style.crosses(axis, [a + 3 * shift for a in ranks], exact)
        style.bars(axis, x, trained, marker=marker, color=look["color"], label=f"{name}, trained, 95 %")
    style.crosses(axis, [], [], "exact minimisation")
    axis.set_xticks(range(d + 1))
    axis.plot([], [], "+", color="#777777", label="untrained, best $W$ only")
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, -3), max(high, 3))
    axis.set_xlabel("rank $a$")
    axis.set_ylabel("measured less closed form (%)")
    axis.set_title(f"Distance from theory, $d={d}$")


def _bound(axis: Axes, prediction: Json, measurement: Json) -> None:
    """The paper's bound against the one gap that it bounds, from MHA at rank a to SkipV1Former's optimum."""
    shown = prediction["shown"]
    numbers = prediction["sizes"][shown]
    d, points = numbers["d"], numbers["ranks"]
    axis.plot(*_through([point["gap_to_optimum"] for point in points]), color="black", label="closed form")
    trained = measurement["trained"]
    best = trained[point_key(shown, "skipv1", d)]
    by_rank = [trained[point_key(shown, "mha", a)] for a in range(d + 1)]
    intervals = [t_interval([b - m for b, m in zip(best, mha, strict=True)]) for mha in by_rank]
    style.bars(axis, range(d + 1), intervals, marker="o", color=style.SKIPV1["color"], label="trained, 95 %")
    axis.errorbar(
        range(d + 1),
        [p["paper_bound"] for p in points],
        yerr=[1.96 * p["paper_bound_stderr"] for p in points],
        marker="D",
        markersize=4,
        linewidth=1.2,
        label="the paper's bound, 95 %",
        **style.BOUND,
    )
    axis.set_yscale("log")
    axis.set_xticks(range(d + 1))
    axis.set_xlabel("rank $a$ of MHA")
    axis.set_ylabel("gap to the optimum (units of $y^2$)")
    axis.set_title(f"The paper's bound, $d={d}$")
