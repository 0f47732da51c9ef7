"""The figure of `skipv1-end-to-end`, from its prediction and measurement alone."""

from __future__ import annotations

import math
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.end_to_end.points import HEADS, Variant, arm_key, head_counts, many_heads, variants, widths
from experiments.store.folders import Json
from experiments.verdicts.intervals import t_interval

# What was trained: where it stands beside its width, whether its marker is filled, its size, its name.
LOOKS: dict[Variant, tuple[float, str, float, str]] = {
    ("both", "random"): (-0.06, "white", 6, "random start"),
    ("both", "copying"): (0.06, "fill", 6, "start near copying"),
    ("positions", "random"): (0.18, "white", 3.5, "scores of positions alone"),
    ("positions", "copying"): (0.18, "fill", 3.5, "positions alone, near copying"),
    ("printed", "random"): (-0.18, "fill", 3, "mask $P$ as printed, or zero"),
}
OF_WIDTH = ("s", "#1a1a1a"), ("D", "#8a8a8a"), ("^", "#8c5a3c"), ("v", "#7a4fa3")
NAMES = {toy: name for toy, (name, _, _) in style.TOYS.items()}


def draw(prediction: Json, measurement: Json) -> Figure:
    """A panel of explained shares a size, what the first layer's tokens hold, and what more heads change."""
    sizes = list(prediction["sizes"])
    panels = len(sizes) + 2
    columns = 2 if panels % 2 == 0 else panels
    fig, axes = style.figure(columns, rows=panels // columns, width=4.4, height=4.6)
    for axis, size in zip(axes, sizes, strict=False):
        _shares(axis, prediction["sizes"][size], measurement, size)
    _tokens(axes[-2], prediction["sizes"][sizes[0]], measurement, sizes[0])
    _heads(axes[-1], prediction["sizes"][sizes[0]], measurement, sizes[0])
    style.finish(axes)
    return fig


def _shares(axis: Axes, numbers: Json, measurement: Json, size: str) -> None:
    at = [int(m) for m in numbers["widths"]]
    for toy, (name, look, _) in style.TOYS.items():
        curve = [numbers["widths"][str(m)]["assumed_copy"][toy] for m in at]
        axis.plot(at, curve, label=f"{name}, Assumption 1", zorder=1, **look)
    bound = [numbers["widths"][str(m)]["bound"]["mha"] for m in at]
    axis.plot(at, bound, label="MHA's bound, positions alone", zorder=1, **style.BOUND)
    axis.axhline(numbers["ridge"], color="#999999", linewidth=0.8)
    axis.annotate(
        "Bayes",
        (at[-1], numbers["ridge"]),
        xytext=(0, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=7.5,
    )
    turning = {k: v for k, v in numbers["constructions"].items() if k.startswith("rotating")}
    style.crosses(axis, [numbers["d"]] * len(turning), list(turning.values()), "MHA that rotates" if turning else None)
    for variant in variants(numbers, measurement["explained"], size):
        shift, fill, markersize, name = LOOKS[variant]
        for toy, (_, look, marker) in style.TOYS.items():
            here = widths(numbers, measurement["explained"], size, variant)
            least = 0.0 if variant[0] == "printed" else -math.inf  # which rare prompts throw far off
            explained = [measurement["explained"][arm_key(size, *variant, toy, m)] for m in here]
            shares = [[max(least, x) for x in of_seeds] for of_seeds in explained]
            intervals = [t_interval(values) for values in shares]
            for m, of_seeds in zip(here, shares, strict=True):
                style.seeds(axis, m + shift, of_seeds, look["color"])
            axis.errorbar(
                [m + shift for m in here],
                [i.mean for i in intervals],
                yerr=[i.half_width for i in intervals],
                linestyle="none",
                marker=marker,
                markersize=markersize,
                markerfacecolor="white" if fill == "white" else look["color"],
                color=look["color"],
                linewidth=1,
            )
        axis.plot(
            [], [], "o", color="#555555", markersize=markersize, label=f"{name}, 95 %",
            markerfacecolor="white" if fill == "white" else "#555555",
        )  # fmt: skip
    axis.set_xticks(at)
    axis.set_ylim(-0.12, 1.05)
    axis.set_xlabel("embedding width $m$ (numbers a token)")
    axis.set_ylabel(r"explained share of $E\,\|W^*\|^2$")
    axis.set_title(f"$d={numbers['d']}$, $n={numbers['n']}$, $\\sigma={numbers['sigma']:g}$")


def _tokens(axis: Axes, numbers: Json, measurement: Json, size: str) -> None:
    """What layer 1 puts into y tokens, stacked, into x tokens and into layer 2's Gram matrix, from the random start."""
    variant = ("both", "random")
    at = widths(numbers, measurement["explained"], size, variant)
    arms = [(m, toy) for m in at for toy in style.TOYS]
    shares = [measurement["copying"][arm_key(size, *variant, toy, m)] for m, toy in arms]
    below = [0.0] * len(arms)
    parts = (("x_in_y", "#2f7fb8", "y token: its $x$, one back"), ("y_in_y", "#d98a2b", "y token: its own $y$"))
    for part, color, label in parts:
        heights = [fmean(seed[part] for seed in seeds) for seeds in shares]
        axis.bar(range(len(arms)), heights, bottom=below, color=color, width=0.7, label=label, zorder=2)
        below = [a + b for a, b in zip(below, heights, strict=True)]
    rest = [max(0.0, 1 - b) for b in below]
    axis.bar(range(len(arms)), rest, bottom=below, color="#dddddd", width=0.7, label="y token: all else", zorder=2)
    for part, marker, label in (("x_kept", "D", "x token: its own $x$"), ("gram", "P", "$G$: second moments of pairs")):
        means = [fmean(seed[part] for seed in seeds) for seeds in shares]
        axis.plot(
            range(len(arms)),
            means,
            marker,
            color="#1a1a1a",
            markerfacecolor="white",
            zorder=3,
            markersize=7,
            label=label,
        )
    axis.set_xticks(range(len(arms)), [f"{NAMES[toy].replace('Former', '')}\n$m={m}$" for m, toy in arms], fontsize=7)
    axis.set_ylabel("share of the square of layer 1's output")
    axis.set_title(f"What layer 1's tokens hold, $d={numbers['d']}$, random start")


def _heads(axis: Axes, numbers: Json, measurement: Json, size: str) -> None:
    """MHA's share over its number of heads, a curve a width, against what theory says of enough heads."""
    variant, arms = ("positions", "random"), measurement["explained"]
    rho, skip = numbers["rho"], numbers["d"]
    axis.axhline(rho, label=f"{NAMES['skipv1']}, $m={skip}$, exactly", zorder=1, **style.SKIPV1)
    for m, (marker, color) in zip(widths(numbers, arms, size, variant), OF_WIDTH, strict=False):
        at = head_counts(arms, size, variant, m)
        intervals = [t_interval(arms[arm_key(size, *variant, many_heads(heads), m)]) for heads in at]
        axis.errorbar(
            at, [i.mean for i in intervals], yerr=[i.half_width for i in intervals], linestyle="none", marker=marker,
            markerfacecolor="white", color=color, label=f"MHA, $m={m}$, trained, 95 %", zorder=3,
        )  # fmt: skip
        enough = numbers["widths"][str(m)].get("enough_heads")
        if enough:
            axis.axhline(enough["mha"], color=color, linestyle="-.", linewidth=1.1, zorder=2)
            axis.annotate(
                f"enough heads, $m={m}$", (2**1.5, enough["mha"]), xytext=(0, -3), textcoords="offset points",
                ha="center", va="top", fontsize=7.5, color=color,
            )  # fmt: skip
    axis.set_xscale("log", base=2)
    axis.set_xticks(HEADS, [str(heads) for heads in HEADS])
    axis.set_xlim(HEADS[0] / 1.25, HEADS[-1] * 1.25)
    axis.set_ylim(0, None)
    axis.set_xlabel("heads in each layer")
    axis.set_ylabel(r"explained share of $E\,\|W^*\|^2$")
    axis.set_title(f"More heads, $d={numbers['d']}$, scores of positions alone")
