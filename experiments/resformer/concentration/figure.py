"""The figure of `resformer-concentration`, from its prediction and measurement alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.drawing import style
from experiments.resformer.concentration.points import ARMS
from experiments.store.folders import Json
from experiments.training.campaign import TWIN
from experiments.verdicts.intervals import t_interval

LINE: dict[str, Any] = {"color": "#999999", "linewidth": 1.2, "linestyle": ":"}
SHIFTS = dict(zip((*ARMS, TWIN), (-0.09, -0.03, 0.03, 0.09), strict=True))


def draw(prediction: Json, measurement: Json) -> Figure:
    """Entropy, importance of the first token, its value and its state, by layer, at the end of training."""
    fig, axes = style.figure(2, rows=2, width=4.1, height=3.9)
    longest = str(prediction["lengths"][-1])
    by_arm = {arm: [seed for seed in measurement["probed"]["end"][arm] if seed] for arm in measurement["probed"]["end"]}
    panels: tuple[tuple[str, str, Callable[[Json], Sequence[float]], float], ...] = (
        (
            "Entropy of token importance (Fig. 1)",
            "nats",
            lambda told: told["entropy"][longest],
            prediction["uniform_entropy"][longest],
        ),
        (
            "Importance of the first token (Fig. 10)",
            "share of attention",
            lambda told: told["first"],
            prediction["uniform_first"],
        ),
        ("Value of the first token (Fig. 10)", "norm / the others' mean", lambda told: told["value_first"], 1.0),
        ("State of the first token (Fig. 10)", "norm / the others' mean", lambda told: told["state_first"], 1.0),
    )
    for axis, (title, y, of, line) in zip(axes, panels, strict=True):
        _by_layer(axis, by_arm, of)
        label = "uniform attention to the past" if "token" in title and line != 1 else "as the others'"
        axis.axhline(line, label=label, **LINE)
        axis.set_title(title)
        axis.set_xlabel("layers passed (0: what enters the first)" if "State" in title else "layer")
        axis.set_ylabel(y)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _own(axes[2], by_arm)
    axes[2].axhline(
        prediction["total_drain_seen"], color="#d98a2b", linestyle="-.", label="ResFormer, own value drained to nothing"
    )
    axes[3].set_yscale("log")
    style.finish(axes)
    return fig


def _by_layer(axis: Axes, by_arm: dict[str, list[Json]], of: Callable[[Json], Sequence[float]]) -> None:
    """Means and 95 % over seeds, side by side."""
    for arm, told in by_arm.items():
        if len(told) < 2:
            continue
        look = style.look(arm)
        each = [of(seed) for seed in told]
        first = 0 if len(each[0]) > len(told[0]["first"]) else 1  # states: before the first layer too
        x = [place + first + SHIFTS[arm] for place in range(len(each[0]))]
        intervals = [t_interval(column) for column in zip(*each, strict=True)]
        axis.plot(x, [i.mean for i in intervals], color=look["color"], linestyle=look["linestyle"], linewidth=1.1)
        style.bars(axis, x, intervals, color=look["color"], marker=look["marker"])
        axis.plot([], [], **{**look, "markerfacecolor": "white"}, label=_named(arm))


def _own(axis: Axes, by_arm: dict[str, list[Json]]) -> None:
    """What ResFormer's layers themselves project: the drain that averaging hides."""
    told = by_arm["resformer"]
    if told:
        means = [sum(column) / len(column) for column in zip(*(seed["own_first"] for seed in told), strict=True)]
        x = range(1, len(means) + 1)
        axis.plot(x, means, "x", color=style.look("resformer")["color"], label="ResFormer, of what a layer projects")


def _named(arm: str) -> str:
    return {TWIN: "vanilla's twin, 95 % over seeds"}.get(arm, arm)
