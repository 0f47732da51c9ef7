"""Loss over time, predicted and trained; and how many starts reach the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.skipv1.dynamics.verdicts import reached
from experiments.store.folders import Json
from experiments.verdicts.intervals import share_interval, t_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLOSED: dict[str, Any] = {"color": style.BOUND["color"], "linestyle": ":"}
BOUNDS = ("--", "-", "-.", ":")
MARKERS = {("skipv1", 0): "o", ("skipv1", 1): "^", ("mha", 0): "s", ("mha", 1): "D"}


def draw(prediction: Json, measurement: Json) -> Figure:
    stairs, shares = prediction["staircases"], prediction["shares"]
    fig, axes = style.figure(2, 2, width=4.2, height=3.9)
    panels = iter(axes)
    for key, numbers in stairs.items():
        _staircase(next(panels), numbers, measurement["staircases"][key])
    over_keys = [arm for arm in shares["arms"] if arm["heads"] == 2]
    over_heads = [arm for arm in shares["arms"] if arm["keys"] == 1.0 and arm["rank"] == _most(shares, arm["toy"])]
    axis = next(panels)
    for (rank, bounds), line in zip(shares["bounds"].items(), BOUNDS, strict=False):
        label = f"theory, a = {rank}: between"
        for which in ("reached", "reachable"):
            axis.plot(shares["ratios"], bounds[which], color="#8a8a8a", linewidth=0.9, linestyle=line, label=label)
            label = ""
    _shares(axis, over_keys, measurement["shares"], "keys")
    axis.set_xscale("log", base=2)
    axis.set_xlabel("size of the keys at the start, in units of the compression's")
    axis.set_title(f"Starts that reach the optimum, $d={shares['d']}$, two heads")
    if any(arm["heads"] != 2 for arm in over_heads):
        axis = next(panels)
        _shares(axis, over_heads, measurement["shares"], "heads")
        counts = sorted({arm["heads"] for arm in over_heads})
        axis.set_xscale("log", base=2)
        axis.set_xticks(counts, [str(count) for count in counts])
        axis.set_xlabel("heads")
        axis.set_title(f"Starts that reach the optimum, $d={shares['d']}$, by heads")
    used = axes[: axes.index(axis) + 1]
    for unused in axes[len(used) :]:
        unused.remove()
    style.finish(used)
    return fig


def _staircase(axis: Axes, numbers: Json, losses: Sequence[Sequence[float]]) -> None:
    name, look, _ = style.TOYS[numbers["toy"]]
    times, heights = numbers["times"], numbers["heights"]
    intervals = [t_interval(seeds) for seeds in losses]
    low, high = ([i.mean + sign * i.half_width for i in intervals] for sign in (-1, 1))
    axis.fill_between(times, low, high, color=look["color"], alpha=0.3, linewidth=0, label="gradient descent, 95 %")
    axis.plot(times, numbers["path"], color="black", linewidth=1.1, label="exact gradient flow")
    steps = [0.0, *numbers["steps"], times[-1]]
    axis.stairs(heights, steps, baseline=None, label="closed form: heights and times", **CLOSED, linewidth=2)
    axis.set_xlabel("time (steps $\\times$ learning rate)")
    axis.set_ylabel("loss (squared units of $y$)")
    axis.set_title(f"{name}, $d={numbers['d']}$, $a={numbers['rank']}$, from balance")


def _shares(axis: Axes, arms: Sequence[Json], measured: Json, over: str) -> None:
    ranks = {toy: sorted({arm["rank"] for arm in arms if arm["toy"] == toy}) for toy in style.TOYS}
    for toy, (name, look, _) in style.TOYS.items():
        for place, rank in enumerate(ranks[toy]):
            some = sorted((x for x in arms if (x["toy"], x["rank"]) == (toy, rank)), key=lambda x: x[over])
            shift = 2 ** (0.2 * (place - 0.5 if toy == "skipv1" else 1.5 - place) if over == "keys" else 0)
            at = [arm[over] * shift for arm in some]
            marker = {"marker": MARKERS[toy, min(place, 1)], "color": look["color"], "markerfacecolor": "white"}
            _with_errors(axis, at, some, measured, "descent", label=f"{name}, a = {rank}, 95 %", **marker)
            if over == "keys" and all("adam" in measured[arm["key"]] for arm in some):
                marker["markerfacecolor"] = look["color"]
                label = f"{name}, a = {rank}, by Adam"
                _with_errors(axis, [x * 1.07 for x in at], some, measured, "adam", label=label, **marker)
    axis.set_ylim(-0.05, 1.08)
    axis.set_ylabel("share of starts")


def _with_errors(
    axis: Axes, at: Sequence[float], arms: Sequence[Json], measured: Json, method: str, **look: Any
) -> None:
    ends = [reached(arm, measured[arm["key"]][method]) for arm in arms]
    centre = [sum(end) / len(end) for end in ends]
    limits = [share_interval(sum(end), len(end)) for end in ends]
    errors = [
        [max(0.0, c - low) for c, (low, _) in zip(centre, limits, strict=True)],
        [max(0.0, high - c) for c, (_, high) in zip(centre, limits, strict=True)],
    ]
    axis.errorbar(at, centre, yerr=errors, linestyle="none", **look)


def _most(shares: Json, toy: str) -> int:
    return max(arm["rank"] for arm in shares["arms"] if arm["toy"] == toy)
