"""The figure of `scale-magnitude`: norms by depth at the start and trained, under their bounds; growth; gradients.

All are sizes on logarithmic axes, so all are geometric means over seeds, bounds too, with t intervals of logarithms.
"""

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

SHIFT = 1.06  # of markers of neighbouring rules
THIN: dict[str, Any] = {"linewidth": 0.7}
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
            bounds = [math.exp(i.mean) for i in _band([p["bounds"] for p in probed])]
            _bound(axis, range(1, len(bounds) + 1), bounds, rule)
    axis.set_yscale("log")
    axis.set_xlabel("read (a sublayer's input; the last one feeds the head)")
    axis.set_ylabel("rms norm over tokens, 95 %")
    if stage == "end":
        _thin(axis, "bounds from the weights")


def _at_start(axis: Axes, prediction: Json, measurement: Json, depth: int) -> None:
    """PreNorm's norms over the number of sources, which is what depth attention starts from."""
    if BASELINE not in _trained(measurement, [BASELINE], depth):
        return
    prenorm = _band([p["read_rms"] for p in of_seeds(measurement, BASELINE, depth, "start")])
    for rule in prediction["start_scale"]:
        if rule == BASELINE:
            continue
        scale = prediction["start_scale"][rule][str(depth)]
        rms = [math.exp(i.mean) * s for i, s in zip(prenorm, scale, strict=True)]
        label = "PreNorm over the number of sources" if rule == RULES[1] else None
        axis.plot(range(1, len(rms) + 1), rms, color="black", linestyle=":", linewidth=1, label=label)


def _over_depths(axis: Axes, measurement: Json, rules: Sequence[str], depths: Sequence[int]) -> None:
    for place, rule in enumerate(rule for rule in rules if all(_trained(measurement, [rule], n) for n in depths)):
        probed = [of_seeds(measurement, rule, n, "end") for n in depths]
        logs = [t_interval([math.log(max(p["read_rms"])) for p in by_seed]) for by_seed in probed]
        shifted = [n * SHIFT ** (place - 1) for n in depths]
        style.geometric(axis, shifted, logs, label=f"{NAMES.get(rule, rule)}, 95 %", **_markers(rule))
        if all(p["bounds"] for by_seed in probed for p in by_seed):
            largest = [fmean(math.log(max(p["bounds"])) for p in by_seed) for by_seed in probed]
            _bound(axis, depths, list(map(math.exp, largest)), rule)
    _thin(axis, "bounds from the weights")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(depths, [str(n) for n in depths])
    axis.minorticks_off()
    axis.set_xlabel("layers")
    axis.set_ylabel("largest rms norm over tokens, 95 %")
    axis.set_title("Trained, over the number of layers")


def _gradients(axis: Axes, measurement: Json, rules: Sequence[str], depth: int) -> None:
    """By layer: of its sublayers' outputs the geometric mean, as those of attention and feed-forward alternate."""
    for rule in _trained(measurement, rules, depth):
        probed = of_seeds(measurement, rule, depth, "end")
        outputs = [_shape(_by_layer(p["output_gradient"][1:], depth)) for p in probed]
        _line(axis, range(1, depth + 1), _band(outputs), rule, NAMES.get(rule, rule))
        layers = [math.exp(i.mean) for i in _band([_shape(p["layer_gradient"]) for p in probed])]
        _bound(axis, range(1, len(layers) + 1), layers, rule)
    _thin(axis, "of the layers' parameters")
    axis.set_yscale("log")
    style.few_ticks(axis)
    axis.set_xlabel("layer")
    axis.set_ylabel("gradient over its mean over depth, 95 %")
    axis.set_title(f"Gradients of what layers put out, {depth} layers")


def _by_layer(gradients: Sequence[float], depth: int) -> list[float]:
    each = len(gradients) // depth
    if min(gradients) <= 0:
        return [math.nan] * depth
    logs = [math.log(gradient) for gradient in gradients]
    return [math.exp(fmean(logs[i * each : (i + 1) * each])) for i in range(depth)]


def _shape(gradients: Sequence[float]) -> list[float]:
    """Relative to their geometric mean: uniformity is about the shape."""
    mean = math.exp(fmean(map(math.log, gradients))) if min(gradients) > 0 else math.nan
    return [norm / mean for norm in gradients]


def _band(by_seed: Sequence[Sequence[float]]) -> list[Interval]:
    """Of logarithms."""
    return [t_interval(list(map(math.log, at))) for at in zip(*by_seed, strict=True)]


def _line(axis: Axes, x: Sequence[int], logs: Sequence[Interval], rule: str, label: str) -> None:
    """A mean over seeds with its 95 % band."""
    look = style.look(rule)
    axis.plot(x, [math.exp(i.mean) for i in logs], color=look["color"], linestyle=look["linestyle"], label=label)
    low, high = ([math.exp(i.mean + sign * i.half_width) for i in logs] for sign in (-1, 1))
    axis.fill_between(x, low, high, color=look["color"], alpha=0.12, linewidth=0)


def _bound(axis: Axes, x: Sequence[int], bounds: Sequence[float], rule: str) -> None:
    look = style.look(rule)
    axis.plot(x, bounds, color=look["color"], linestyle=look["linestyle"], **THIN)


def _thin(axis: Axes, words: str) -> None:
    axis.plot([], [], color="#8a8a8a", label=f"thin: {words}", **THIN)


def _markers(rule: str) -> dict[str, Any]:
    return {k: v for k, v in style.look(rule).items() if k != "linestyle"}
