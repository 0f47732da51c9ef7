"""The figure of `attnres-toy`: two kinds of weights at the start, trained with norms, and what the deep toy gains."""

from __future__ import annotations

from math import isfinite, log
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

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
    """A row a network, those whose sublayers have no norm above: geometric means over the seeds that did not diverge,
    where two or more did not, and how many did."""
    depths = [*prediction["trained_depths"], prediction["deeper"]]
    usual, wide = WIDTHS
    rows = [(name, wide, _row(network)) for name, network in sorted(NETWORKS.items(), key=lambda of: of[1].normed)]
    rows.append((BASELINE, usual, f"{_row(NETWORKS[BASELINE])}, ordinary prompts"))
    for place, (name, width, _) in zip(range(len(rows), 0, -1), rows, strict=True):
        colour = LOOKS[_rule(NETWORKS[name])]["color"]
        marker = LOOKS[_rule(NETWORKS[name])]["marker"]
        for column, depth in enumerate(depths):
            sizes = largest(measurement, name, depth, width)
            _size(axis, place, sizes, color=colour, marker=marker, markerfacecolor=_fill(colour, column, len(depths)))
            diverged = sum(probed is None for probed in measurement["trained"][cell(name, depth)])
            _count(axis, column, place, str(diverged), "bold" if diverged else "normal")
    seeds = len(measurement["trained"][cell(BASELINE, depths[0])])
    for column, depth in enumerate(depths):
        _count(axis, column, len(rows) + 1, str(depth), "normal")
        axis.plot(
            [],
            [],
            "s",
            color="#5a5a5a",
            markerfacecolor=_fill("#5a5a5a", column, len(depths)),
            label=f"{depth} layer{'s' * (depth > 1)}",
        )
    _count(axis, (len(depths) - 1) / 2, len(rows) + 2, f"diverged of {seeds}", "normal")
    axis.axhline(
        len(rows) - sum(not network.normed for network in NETWORKS.values()) + 0.5, color="#a0a0a0", linewidth=0.6
    )
    axis.axhline(1.5, color="#a0a0a0", linewidth=0.6)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(numticks=7))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_ylim(0.4, len(rows) + 2.6)
    axis.set_yticks(range(len(rows), 0, -1), [words for *_, words in rows], fontsize=7)
    axis.set_xlabel("largest read, rms over tokens, 95 %")
    axis.set_title(f"Trained; read on prompts {wide}")


def _rule(network: Network) -> str:
    return network.variant if network.variant in LOOKS else FULL


def _row(network: Network) -> str:
    """What reads, and behind a colon what is normed."""
    names = {RESIDUAL: "residual stream", AVERAGE: "DenseFormer", FULL: "Full", BLOCK: "Block"}
    normed = {"keys": network.keys_normed, "head": network.head, "sublayers": network.normed}
    there = ", ".join(words for words, is_normed in normed.items() if is_normed)
    return names[_rule(network)] + (f": {there}" if there else "")


def _fill(colour: str, number: int, of: int) -> tuple[float, ...]:
    """From white, of the fewest layers, to the colour itself."""
    share = number / max(1, of - 1)
    return tuple(1 - share * (1 - part) for part in to_rgb(colour))


def _size(axis: Axes, place: int, sizes: list[float], **look: Any) -> None:
    logs = [log(size) for size in sizes if isfinite(size)]
    if len(logs) > 1:
        style.geometric(axis, [place], [t_interval(logs)], along=True, markersize=4.5, elinewidth=0.9, **look)


def _count(axis: Axes, column: float, place: int, text: str, weight: str) -> None:
    """Right of the panel, in a column of its own."""
    axis.text(
        1.05 + 0.075 * column,
        place,
        text,
        transform=axis.get_yaxis_transform(),
        ha="center",
        va="center",
        fontsize=7,
        fontweight=weight,
    )


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
