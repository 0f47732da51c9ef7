"""The figure of `skipv1-end-to-end`, from its prediction and measurement alone."""

from __future__ import annotations

import math
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.end_to_end.points import Variant, arm_key, variants, widths
from experiments.skipv1.end_to_end.verdicts import worths
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
NAMES = {toy: name for toy, (name, _, _) in style.TOYS.items()}


def draw(prediction: Json, measurement: Json) -> Figure:
    """A panel of explained shares a size, what the first layer's tokens hold, and SkipV1Former's worth in width."""
    sizes = list(prediction["sizes"])
    panels = len(sizes) + 2
    columns = 2 if panels % 2 == 0 else panels
    fig, axes = style.figure(columns, rows=panels // columns, width=4.4, height=4.6)
    for axis, size in zip(axes, sizes, strict=False):
        _shares(axis, prediction["sizes"][size], measurement, size)
    _tokens(axes[-2], prediction["sizes"][sizes[0]], measurement, sizes[0])
    _worth(axes[-1], prediction, measurement)
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
            shares = ([max(least, x) for x in measurement["explained"][arm_key(size, *variant, toy, m)]] for m in here)
            intervals = [t_interval(values) for values in shares]
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
    axis.set_ylabel("share of layer 1's output, mean over seeds")
    axis.set_title(f"What layer 1's tokens hold, $d={numbers['d']}$, random start")


def _worth(axis: Axes, prediction: Json, measurement: Json) -> None:
    """The width, in d, at which MHA explains nearly what SkipV1Former explains at width d."""
    labels: list[str] = []
    for size, numbers in prediction["sizes"].items():
        for variant in variants(numbers, measurement["explained"], size):
            if variant[0] == "printed" or len(widths(numbers, measurement["explained"], size, variant)) < 2:
                continue
            place, values = (
                len(labels),
                [w / numbers["d"] for w in worths(numbers, measurement["explained"], size, variant)],
            )
            reached = [w for w in values if not math.isnan(w)]
            axis.plot(reached, [place] * len(reached), ".", color="#777777", zorder=2)
            if len(reached) == len(values):
                interval = t_interval(values)
                axis.errorbar(
                    interval.mean, place, xerr=interval.half_width, marker="o", color="#2f7fb8",
                    markerfacecolor="white", zorder=3,
                )  # fmt: skip
            name = LOOKS[variant][3].replace("scores of ", "")
            note = "" if len(reached) == len(values) else f"\n({len(reached)} of {len(values)} seeds reach it)"
            labels.append(f"$d={numbers['d']}$, {name}{note}")
    axis.errorbar([], [], xerr=[], marker="o", color="#2f7fb8", markerfacecolor="white", label="mean, 95 %", ls="none")
    axis.plot([], [], ".", color="#777777", label="each seed that reaches it")
    axis.axvline(2, label="predicted, $2d$", **style.MHA)
    axis.set_yticks(range(len(labels)), labels, fontsize=7.5)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_xlim(0.9, None)
    axis.set_xlabel("width at which MHA matches SkipV1Former of width $d$ (in $d$)")
    axis.set_title("What SkipV1Former is worth in width")
