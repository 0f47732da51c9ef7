"""The figure of `scale-magnitude`: norms by depth at the start and trained, under their bounds; growth; gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attnres.magnitude.points import RULES, compared, of_seeds
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.intervals import Interval, t_interval

NAMES = {"vanilla": "PreNorm", "attnres": "AttnRes Full", "attnres-block": "AttnRes Block"}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, 2, width=4.4, height=4.0)
    depths = prediction["depths"]
    rules = (BASELINE, *compared(prediction))
    for axis, stage, title in ((axes[0], "start", "At the start"), (axes[1], "end", "Trained")):
        _norms(axis, measurement, rules, depths[-1], stage)
        axis.set_title(f"{title}, {depths[-1]} layers")
    _at_start(axes[0], prediction, measurement, depths[-1])
    _over_depths(axes[2], measurement, rules, depths)
    _gradients(axes[3], measurement, rules, depths[-1])
    style.finish(axes)
    return fig


def _trained(measurement: Json, rules: Sequence[str], depth: int) -> list[str]:
    """The rules of which enough seeds did not diverge for an interval."""
    return [rule for rule in rules if len(of_seeds(measurement, rule, depth, "end")) > 1]


def _norms(axis: Axes, measurement: Json, rules: Sequence[str], depth: int, stage: str) -> None:
    for rule in _trained(measurement, rules, depth):
        probed = of_seeds(measurement, rule, depth, stage)
        band = _band([p["read_rms"] for p in probed])
        _line(axis, range(1, len(band) + 1), band, rule, NAMES.get(rule, rule))
        if stage == "end" and all(p["bounds"] for p in probed):
            bounds = [max(at) for at in zip(*(p["bounds"] for p in probed), strict=True)]
            look = style.look(rule)
            axis.plot(
                range(1, len(bounds) + 1), bounds, color=look["color"], linestyle=look["linestyle"], linewidth=0.7
            )
    axis.set_yscale("log")
    axis.set_xlabel("read (a sublayer's input; the last one feeds the head)")
    axis.set_ylabel("rms norm" + ("; thin: bounds from the weights" if stage == "end" else " over tokens"))


def _at_start(axis: Axes, prediction: Json, measurement: Json, depth: int) -> None:
    """PreNorm's norms over the number of sources, which is what depth attention starts from."""
    if BASELINE not in _trained(measurement, [BASELINE], depth):
        return
    prenorm = _band([p["read_rms"] for p in of_seeds(measurement, BASELINE, depth, "start")])
    for rule in prediction["start_scale"]:
        if rule == BASELINE:
            continue
        scale = prediction["start_scale"][rule][str(depth)]
        rms = [i.mean * s for i, s in zip(prenorm, scale, strict=True)]
        label = "PreNorm over the number of sources" if rule == RULES[1] else None
        axis.plot(range(1, len(rms) + 1), rms, color="black", linestyle=":", linewidth=1, label=label)


def _over_depths(axis: Axes, measurement: Json, rules: Sequence[str], depths: Sequence[int]) -> None:
    for rule in [rule for rule in rules if all(_trained(measurement, [rule], n) for n in depths)]:
        largest = [[max(p["read_rms"]) for p in of_seeds(measurement, rule, n, "end")] for n in depths]
        style.bars(
            axis, depths, [t_interval(x) for x in largest], label=f"{NAMES.get(rule, rule)}, 95 %", **_markers(rule)
        )
        probed = [of_seeds(measurement, rule, n, "end") for n in depths]
        if all(p["bounds"] for by_seed in probed for p in by_seed):
            _bound(axis, depths, [max(max(p["bounds"]) for p in by_seed) for by_seed in probed], rule)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(depths, [str(n) for n in depths])
    axis.minorticks_off()
    axis.set_xlabel("layers")
    axis.set_ylabel("largest rms norm; thin: its bound")
    axis.set_title("Trained, over the number of layers")


def _gradients(axis: Axes, measurement: Json, rules: Sequence[str], depth: int) -> None:
    for rule in _trained(measurement, rules, depth):
        probed, look = of_seeds(measurement, rule, depth, "end"), style.look(rule)
        outputs = _band([_shape(p["output_gradient"][1:]) for p in probed])
        _line(axis, range(1, len(outputs) + 1), outputs, rule, NAMES.get(rule, rule))
        layers = _band([_shape(p["layer_gradient"]) for p in probed])
        at = [len(outputs) * (i + 0.5) / len(layers) for i in range(len(layers))]
        means = [interval.mean for interval in layers]
        axis.plot(at, means, color=look["color"], linestyle=look["linestyle"], linewidth=0.7)
    axis.set_yscale("log")
    axis.set_xlabel("sublayer")
    axis.set_ylabel("gradient norm over its mean over depth")
    axis.set_title(f"Gradients of outputs (thin: parameters), {depth} layers")


def _shape(gradients: Sequence[float]) -> list[float]:
    """Relative to their geometric mean: uniformity is about the shape."""
    mean = math.exp(fmean(map(math.log, gradients))) if min(gradients) > 0 else math.nan
    return [norm / mean for norm in gradients]


def _band(by_seed: Sequence[Sequence[float]]) -> list[Interval]:
    return [t_interval(at) for at in zip(*by_seed, strict=True)]


def _line(axis: Axes, x: Sequence[int], intervals: Sequence[Interval], rule: str, label: str) -> None:
    """A mean over seeds with its 95 % band, which a logarithmic axis cuts at a tenth of the mean."""
    look = style.look(rule)
    axis.plot(x, [i.mean for i in intervals], color=look["color"], linestyle=look["linestyle"], label=label)
    low = [max(i.mean - i.half_width, i.mean / 10) for i in intervals]
    axis.fill_between(x, low, [i.mean + i.half_width for i in intervals], color=look["color"], alpha=0.18, linewidth=0)


def _bound(axis: Axes, x: Sequence[int], bounds: Sequence[float], rule: str) -> None:
    look = style.look(rule)
    axis.plot(x, bounds, color=look["color"], linestyle=look["linestyle"], linewidth=0.7)


def _markers(rule: str) -> dict[str, Any]:
    return {k: v for k, v in style.look(rule).items() if k != "linestyle"}
