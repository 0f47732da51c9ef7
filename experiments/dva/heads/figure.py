"""The figure of `dva-heads`: losses by number of heads, and losses with heads left out."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.dva.heads.points import ALONE, DYNAMIC, ORDINARY, WORDS, cell
from experiments.dva.heads.verdicts import slopes, spared
from experiments.store.folders import Json
from experiments.training.tuning import mark
from experiments.verdicts.intervals import Interval, t_interval

LOOKS = {ORDINARY: ("#1a1a1a", "--", "s"), DYNAMIC: (style.DVA, "-", "o"), ALONE: ("#2f7fb8", ":", "^")}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(3, width=4.0, height=4.2)
    _losses(axes[0], prediction, measurement)
    _left_out(axes[1], prediction, measurement)
    _shares(axes[2], prediction, measurement)
    style.finish(axes)
    return fig


def _losses(axis: Axes, prediction: Json, measurement: Json) -> None:
    heads, found = prediction["heads"], slopes(prediction, measurement)
    for family, (color, line, marker) in LOOKS.items():
        names = [cell(family, h) for h in heads]
        intervals = _within(measurement, names)
        if len(intervals) < len(heads):
            continue
        slope = f"{1e3 * found[family].mean:+.0f} $\\pm$ {1e3 * found[family].half_width:.0f} mnats a doubling"
        untuned = " (untuned)" if any(mark(name, measurement) for name in names) else ""
        axis.plot(heads, [i.mean for i in intervals], color=color, linestyle=line)
        style.bars(axis, heads, intervals, color=color, marker=marker, label=f"{WORDS[family]}: {slope}{untuned}")
    axis.set_xscale("log", base=2)
    axis.set_xticks(heads, [str(h) for h in heads])
    axis.set_xlabel("heads a layer, of the same width together")
    axis.set_ylabel("loss (nats a token)")
    axis.set_title("Loss by number of heads (bars: 95 %, paired)")


def _within(measurement: Json, names: list[str]) -> list[Interval]:
    """Of each of these models, the mean loss; bars are of its distance to the mean of all of them, seed by seed, as in
    the slopes, where a seed's own level drops out."""
    rows = [measurement["loss"][name] for name in names]
    seeds = [of_seed for of_seed in zip(*rows, strict=True) if None not in of_seed]
    if len(seeds) < 2:
        return []
    level = mean(mean(of_seed) for of_seed in seeds)
    apart = [t_interval([of_seed[i] - mean(of_seed) for of_seed in seeds]) for i in range(len(names))]
    return [replace(interval, mean=interval.mean + level) for interval in apart]


def _left_out(axis: Axes, prediction: Json, measurement: Json) -> None:
    for i, h in enumerate(prediction["heads"]):
        known = [losses for losses in measurement["without"][cell(ORDINARY, h)] if losses is not None]
        if not known:
            continue
        risen = [mean(losses[k] - losses[0] for losses in known) for k in range(len(known[0]))]
        shares = [k / (len(risen) - 1) for k in range(len(risen))]
        shade = str(0.75 - 0.75 * i / max(1, len(prediction["heads"]) - 1))
        marker = style.MARKERS[i % len(style.MARKERS)]
        axis.plot(shares, risen, color=shade, marker=marker, markersize=3, label=f"{h} head{'s' * (h > 1)} a layer")
    axis.axhline(prediction["spared"], color="#b3261e", linestyle=":", label=f"{prediction['spared']:g} nats")
    axis.set_yscale("symlog", linthresh=prediction["spared"])
    axis.set_xlabel("share of all heads that are left out")
    axis.set_ylabel("rise of the held-out loss (nats a token)")
    axis.set_title("Ordinary values, heads left out, mean of seeds")


def _shares(axis: Axes, prediction: Json, measurement: Json) -> None:
    heads = prediction["heads"]
    for i, (family, (color, line, marker)) in enumerate(LOOKS.items()):
        beside = [h * 2 ** (0.1 * (i - 1)) for h in heads]
        shares = [spared(measurement, cell(family, h), prediction["spared"]) for h in heads]
        known = [[x for x in of if not math.isnan(x)] for of in shares]
        intervals = [t_interval(x) for x in known if len(x) > 1]
        if len(intervals) == len(heads):
            axis.plot(beside, [i.mean for i in intervals], color=color, linestyle=line)
            style.bars(axis, beside, intervals, color=color, marker=marker, label=f"{WORDS[family]}, 95 %")
            for x, of_seeds in zip(beside, known, strict=True):
                style.seeds(axis, x, of_seeds, color)
    axis.set_xscale("log", base=2)
    axis.set_xticks(heads, [str(h) for h in heads])
    axis.set_ylim(-0.05, 1.05)
    axis.set_xlabel("heads a layer, of the same width together")
    axis.set_ylabel("share of heads that can be left out")
    axis.set_title(f"Left out at a rise of {prediction['spared']:g} nats")
