"""The figure of `scale-icl`: the loss by position under theory's curves, and shares and gaps over the width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.across.icl.verdicts import cell, explained_shares
from experiments.drawing import curves as icl_curves
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.tuning import mark
from experiments.verdicts.intervals import Interval, t_interval

SPREAD = 0.04  # between the markers of variants at one width, in powers of two times their number


def draw(prediction: Json, measurement: Json, gaps: Mapping[str, Mapping[str, Interval]]) -> Figure:
    fig, (by_position, shares, differences) = style.figure(3, width=4.1)
    variants = (BASELINE, *prediction["gap"])
    _by_position(by_position, prediction, measurement, variants)
    _shares(shares, prediction, measurement, variants)
    _gaps(differences, prediction, measurement, gaps, variants[1:])
    style.finish([by_position, shares, differences])
    return fig


def _by_position(axis: Axes, prediction: Json, measurement: Json, variants: Sequence[str]) -> None:
    pairs = range(prediction["n"] + 1)
    icl_curves.draw(axis, prediction["curves"])
    width = prediction["widths"][-1]
    for i, variant in enumerate(variants):
        losses = [loss for loss in measurement["losses"][cell(variant, width)] if loss]
        if len(losses) > 1:
            intervals = [t_interval(at) for at in zip(*losses, strict=True)]
            note = _note(measurement, variant, [width])
            beside = [k + 0.12 * (i - (len(variants) - 1) / 2) for k in pairs]
            _markers(axis, beside, intervals, variant, note)
            _seeds(axis, beside, list(zip(*losses, strict=True)), variant)
    axis.set_title(f"Trained, width {width}, against theory")


def _shares(axis: Axes, prediction: Json, measurement: Json, variants: Sequence[str]) -> None:
    widths = prediction["widths"]
    for variant, look, name in (
        (BASELINE, style.MHA, f"toy: {BASELINE}"),
        (variants[1], style.SKIPV1, f"toy: {variants[1]}"),
    ):
        _toy(axis, widths, prediction["share"][variant], name, look)
    for i, variant in enumerate(variants):
        found = [explained_shares(prediction, measurement, variant, str(m)) for m in widths]
        beside, intervals = _beside(widths, i, len(variants)), [t_interval(of_seeds) for of_seeds in found]
        _markers(axis, beside, intervals, variant, _note(measurement, variant, widths))
        _seeds(axis, beside, found, variant)
    _over_width(axis, widths)
    axis.set_ylabel("share of the signal explained")
    axis.set_title("What is explained, with all pairs")


def _toy(
    axis: Axes, widths: Sequence[int], by_width: Mapping[str, float | None], name: str, look: Mapping[str, Any]
) -> None:
    """The toy's line, where it has something to say."""
    values = [share for m in widths if (share := by_width[str(m)]) is not None]
    if len(values) == len(widths):
        axis.plot(widths, values, label=name, **look)


def _gaps(
    axis: Axes,
    prediction: Json,
    measurement: Json,
    gaps: Mapping[str, Mapping[str, Interval]],
    variants: Sequence[str],
) -> None:
    widths = prediction["widths"]
    _toy(axis, widths, prediction["gap"][variants[0]], f"toy: {variants[0]}", style.SKIPV1)
    axis.axhline(0, color="#1a1a1a", linestyle="--", linewidth=1, label="toy: skipv0")
    for i, variant in enumerate((*variants, TWIN)):
        intervals = [gaps[str(m)][variant] for m in widths]
        _markers(axis, _beside(widths, i, len(variants) + 1), intervals, variant, _note(measurement, variant, widths))
    _over_width(axis, widths)
    axis.set_ylabel("share of the signal won")
    axis.set_title("Won against vanilla, paired seeds")


def _markers(axis: Axes, x: Sequence[float], intervals: Sequence[Interval], variant: str, note: str) -> None:
    look = {k: v for k, v in style.look(variant).items() if k != "linestyle"}
    name = "vanilla, other initial weights" if variant == TWIN else variant
    style.bars(axis, x, intervals, label=f"{name}{note}, 95 %", **look)


def _seeds(axis: Axes, x: Sequence[float], found: Sequence[Sequence[float]], variant: str) -> None:
    for place, of_seeds in zip(x, found, strict=True):
        style.seeds(axis, place, of_seeds, style.look(variant)["color"])


def _note(measurement: Json, variant: str, widths: Sequence[int]) -> str:
    """At which widths the variant is untuned, if at any."""
    marked = [str(m) for m in widths if mark(cell(variant, m), measurement)]
    return f" (untuned at width {', '.join(marked)})" if marked else ""


def _beside(widths: Sequence[int], i: int, count: int) -> list[float]:
    """Side by side on a logarithmic axis, so that markers do not hide one another."""
    return [m * 2 ** (SPREAD * (2 * i - count + 1)) for m in widths]


def _over_width(axis: Axes, widths: Sequence[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(widths, [str(m) for m in widths])
    axis.minorticks_off()
    axis.set_xlabel("embedding width $m$ (numbers a token)")
