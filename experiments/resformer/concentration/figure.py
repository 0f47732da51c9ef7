"""The figure of `resformer-concentration`, from its prediction and measurement alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.drawing import style
from experiments.resformer.concentration.points import ARMS, RESFORMER
from experiments.store.folders import Json
from experiments.training.campaign import TWIN
from experiments.verdicts.intervals import Interval, t_interval

LINE: dict[str, Any] = {"color": "#8a8a8a", "linewidth": 1.3, "linestyle": ":"}
SHIFTS = dict(zip((*ARMS, TWIN), (-0.09, -0.03, 0.03, 0.09), strict=True))
NAMES = {TWIN: "vanilla's twin"}
Told = dict[str, list[Json]]  # by arm, of every seed whose training ended


def draw(prediction: Json, measurement: Json) -> Figure:
    """Of trained models: entropy by layer, importance by position, the first token's value and its state by layer."""
    fig, axes = style.figure(2, rows=2, width=4.1, height=4.0)
    ended = {arm: [seed for seed in told if seed] for arm, told in measurement["probed"]["end"].items()}
    by_arm = {arm: told for arm, told in ended.items() if len(told) > 1}
    longest = str(prediction["lengths"][-1])
    _by_layer(axes[0], by_arm, lambda told: told["entropy"][longest])
    axes[0].axhline(prediction["uniform_entropy"][longest], label="uniform attention to the past", **LINE)
    axes[0].set_title("Entropy of token importance (Fig. 1)")
    axes[0].set_ylabel("nats")
    _by_position(axes[1], by_arm, prediction["uniform_by_position"])
    for axis in axes[2:]:
        axis.set_yscale("log")
    _by_layer(axes[2], by_arm, lambda told: told["value_first"])
    _own(axes[2], by_arm)
    axes[2].axhline(1.0, label="as the others'", **LINE)
    axes[2].axhline(prediction["total_drain_seen"], color="#d98a2b", linestyle="-.", label=r"$1/\sqrt{2}$: own value 0")
    axes[2].set_title("Value of the first token (Fig. 10)")
    _by_layer(axes[3], by_arm, lambda told: told["state_first"], first=0)
    axes[3].axhline(1.0, label="as the others'", **LINE)
    axes[3].set_title("State of the first token (Fig. 10)")
    axes[3].set_xlabel("layers passed (0: what enters the first)")
    for axis in axes[2:]:
        axis.set_ylabel("norm over the mean of the others'")
        style.few_ticks(axis)
    style.finish(axes)
    return fig


def _over_seeds(told: list[Json], of: Callable[[Json], Sequence[float]]) -> list[Interval]:
    return [t_interval(column) for column in zip(*(of(seed) for seed in told), strict=True)]


def _by_layer(axis: Axes, by_arm: Told, of: Callable[[Json], Sequence[float]], first: int = 1) -> None:
    """Means and 95 % over seeds, side by side; on a logarithmic axis geometric means, so that none goes below 0."""
    for arm, told in by_arm.items():
        look, intervals = style.look(arm), _over_seeds(told, of)
        x = [place + first + SHIFTS[arm] for place in range(len(intervals))]
        marks = {"color": look["color"], "marker": look["marker"]}
        if axis.get_yscale() == "log":
            means = style.geometric(axis, x, _over_seeds(told, lambda seed: [math.log(y) for y in of(seed)]), **marks)
        else:
            style.bars(axis, x, intervals, **marks)
            means = [i.mean for i in intervals]
        axis.plot(x, means, color=look["color"], linestyle=look["linestyle"], linewidth=1.1)
        axis.plot([], [], **{**look, "markerfacecolor": "white"}, label=f"{NAMES.get(arm, arm)}, 95 %")
    axis.set_xlabel("layer")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _by_position(axis: Axes, by_arm: Told, uniform: Sequence[float]) -> None:
    """Means over layers from 2 on; geometric means and bands of 95 % over seeds."""

    def later(told: Json) -> list[float]:
        layers = told["by_position"][1:]
        return [sum(column) / len(layers) for column in zip(*layers, strict=True)]

    x = range(1, len(uniform) + 1)
    for arm, told in by_arm.items():
        look = style.look(arm)
        logs = _over_seeds(told, lambda seed: [math.log(share) for share in later(seed)])
        middle, low, high = ([math.exp(i.mean + sign * i.half_width) for i in logs] for sign in (0, -1, 1))
        axis.fill_between(x, low, high, color=look["color"], alpha=0.18, linewidth=0)
        drawn = {**look, "markerfacecolor": "white", "markevery": [0, len(x) // 4, len(x) // 2]}
        axis.plot(x, middle, label=f"{NAMES.get(arm, arm)}, 95 %", **drawn)
    axis.plot(x, uniform, label="uniform attention to the past", **LINE)
    for scale in (axis.set_xscale, axis.set_yscale):
        scale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_ylim(bottom=uniform[-1] / 2)
    axis.set_xlabel("position (1: first token)")
    axis.set_ylabel("share of attention")
    axis.set_title("Importance by position, layers from 2 on (Fig. 11)")


def _own(axis: Axes, by_arm: Told) -> None:
    """What ResFormer's layers themselves project: a drain that averaging with layer 1's may hide."""
    if RESFORMER in by_arm:
        logs = _over_seeds(by_arm[RESFORMER], lambda told: [math.log(x) for x in told["own_first"]])
        means = [math.exp(i.mean) for i in logs]
        look = {"color": style.look(RESFORMER)["color"], "linestyle": "none", "marker": "x", "zorder": 4}
        axis.plot(range(1, len(means) + 1), means, label="resformer, what a layer projects", **look)
