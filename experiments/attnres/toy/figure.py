"""The figure of `attnres-toy`: two kinds of weights at the start, trained with norms, and what the deep toy gains."""

from __future__ import annotations

from math import isfinite, log
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.attnres.toy.outcomes import largest
from experiments.attnres.toy.points import (
    AVERAGE,
    BASELINE,
    BLOCK,
    FULL,
    NETWORKS,
    RESIDUAL,
    RULES,
    WIDTHS,
    Network,
    cell,
    start,
)
from experiments.drawing import style
from experiments.store.folders import Json
from experiments.verdicts.intervals import t_interval

LOOKS: dict[str, dict[str, Any]] = {rule: style.look(rule) for rule in RULES}

LINES = {"none": ":", "head": "-.", "sublayers": "-", "both": "--"}  # by what starts with a norm


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=4.4, height=4.3)
    _start(axes[0], prediction, measurement, "descent", prediction["depths"])
    _plain(axes[0], prediction, measurement)
    _start(axes[1], prediction, measurement, "random", prediction["random_depths"])
    _trained(axes[2], prediction, measurement)
    _gains(axes[3], prediction, measurement)
    style.finish(axes)
    return fig


def _start(axis: Axes, prediction: Json, measurement: Json, kind: str, depths: list[int]) -> None:
    for rule, words in RULES.items():
        look, line = LOOKS[rule], prediction["curves"][f"{kind}/{rule}"]
        axis.plot(range(1, len(line) + 1), line, color=look["color"], linestyle=look["linestyle"], label=words)
        found = [t_interval(measurement["squares"][start(kind, rule, depth, "context")]) for depth in depths]
        style.bars(axis, depths, found, color=look["color"], marker=look["marker"])
    axis.set_yscale("log")
    axis.set_xlabel("layers")
    axis.set_xticks([1, *range(4, prediction["deepest"] + 1, 4)])
    axis.set_ylabel("last read, mean square, 95 %")
    titles = {
        "descent": "Gradient steps, context tokens: closed form, decoders",
        "random": "Random weights, context tokens: closed form, decoders",
    }
    axis.set_title(titles[kind])


def _plain(axis: Axes, prediction: Json, measurement: Json) -> None:
    """What the residual stream's prompts as they come say alone."""
    depths = prediction["depths"]
    means = [sum(of) / len(of) for of in (measurement["plain"][str(depth)] for depth in depths)]
    look = {"color": LOOKS[RESIDUAL]["color"], "markersize": 8, "markeredgewidth": 0.9, "zorder": 4}
    axis.plot(depths, means, "x", label="residual stream, ordinary prompts only", **look)


def _trained(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Geometric means over the seeds that did not diverge, where two or more did not."""
    depths = [*prediction["trained_depths"], prediction["deeper"]]
    usual, wide = WIDTHS
    for name, network in NETWORKS.items():
        look = {**LOOKS[network.variant if network.variant in LOOKS else FULL], "linestyle": LINES[_norms(network)]}
        filled = "white" if network.keys_normed else look["color"]
        _sizes(axis, depths, [largest(measurement, name, depth, wide) for depth in depths], look, filled)
    as_they_come = [largest(measurement, BASELINE, depth, usual) for depth in depths]
    _sizes(axis, depths, as_they_come, {"color": "#8a8a8a", "linestyle": ":", "marker": "."}, "#8a8a8a")
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.set_ylim(low / 1e3, high * 1e4)
    for depth in depths:
        for norms, height in zip(LINES, (0.95, 0.89, 0.08, 0.02), strict=True):
            said = _diverged(measurement, depth, norms)
            axis.text(depth, height, said, transform=axis.get_xaxis_transform(), ha="center", fontsize=6.5)
    axis.set_xticks(depths)
    axis.set_xlim(depths[0] - 0.5, depths[-1] + 0.5)
    _legend(axis)
    axis.set_xlabel("layers (diverged, downwards: no norms, head, sublayers, both normed)", fontsize=8)
    axis.set_ylabel("largest read, rms over tokens, 95 %")
    axis.set_title(f"Trained; read on prompts {wide}")


def _norms(network: Network) -> str:
    if network.normed:
        return "both" if network.head else "sublayers"
    return "head" if network.head else "none"


def _legend(axis: Axes) -> None:
    """Colour and marker are the rule, the line is where norms are, and filled markers are keys without a norm."""
    for rule, words in ((RESIDUAL, "residual stream"), (AVERAGE, "DenseFormer"), (FULL, "Full"), (BLOCK, RULES[BLOCK])):
        look = LOOKS[rule]
        axis.plot([], [], color=look["color"], marker=look["marker"], linestyle="none", label=words)
    said = {"none": "no norms", "head": "head normed", "sublayers": "sublayers normed", "both": "both normed"}
    for norms, words in said.items():
        axis.plot([], [], color="#1a1a1a", linestyle=LINES[norms], linewidth=0.9, label=words)
    axis.plot([], [], "o", color="#8a8a8a", markerfacecolor="white", label="hollow: keys over depth normed")
    axis.plot([], [], ".:", color="#8a8a8a", label="residual stream, no norms, ordinary prompts")


def _sizes(axis: Axes, depths: list[int], found: list[list[float]], look: dict[str, Any], filled: str) -> None:
    finite = [[log(size) for size in sizes if isfinite(size)] for sizes in found]
    there = [(depth, t_interval(logs)) for depth, logs in zip(depths, finite, strict=True) if len(logs) > 1]
    look = {**look, "linewidth": 0.9, "markersize": 4, "markerfacecolor": filled}
    style.geometric(axis, [depth for depth, _ in there], [logs for _, logs in there], **look)


def _diverged(measurement: Json, depth: int, norms: str) -> str:
    """How many trainings did, of those with these norms."""
    cells = [measurement["trained"][cell(name, depth)] for name in NETWORKS if _norms(NETWORKS[name]) == norms]
    return f"{sum(probed is None for of in cells for probed in of)} of {sum(map(len, cells))}"


def _gains(axis: Axes, prediction: Json, measurement: Json) -> None:
    """Of what the best residual stream loses above the noise."""
    sizes = dict.fromkeys(at.rsplit("/", 1)[0] for at in prediction["gains"])
    colours = dict(zip(sizes, ("#1a1a1a", "#d98a2b", "#7a4fa3"), strict=False))
    numbers = dict.fromkeys(at.rsplit("/", 1)[1] for at in prediction["gains"])
    looks = dict(zip(numbers, (("-", "o", -0.05), ("--", "s", 0.0), (":", "^", 0.05)), strict=False))
    for at, shares in prediction["gains"].items():
        size, k = at.rsplit("/", 1)
        words = f"d = {size.partition('/')[0]}, {k} layers"
        percent = [100 * share for share in shares]
        axis.plot(prediction["noises"], percent, color=colours[size], linestyle=looks[k][0])
        line = {"color": colours[size], "linestyle": looks[k][0], "marker": looks[k][1], "markerfacecolor": "white"}
        axis.plot([], [], label=words, **line)
    for at, exact in prediction["deep"].items():
        _, marker, aside = looks[str(exact["layers"])]
        gained = t_interval([losses["residual"] - losses["depth"] for losses in measurement["answers"][at]])
        look = {"color": colours[f"{exact['d']}/{exact['n']}"], "marker": marker}
        style.bars(axis, [exact["sigma"] + aside], [gained], unit=(exact["residual"] - exact["noise"]) / 100, **look)
    axis.set_xlabel("standard deviation of the noise of y")
    axis.set_ylabel("gain, % of loss above noise, 95 %")
    axis.set_title("Deep toy: weights over depth against a residual stream")
