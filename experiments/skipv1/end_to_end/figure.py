"""The figure of `skipv1-end-to-end`, from its prediction and measurement alone."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.skipv1.end_to_end.training import HEADS, Trained, Variant, many_heads
from experiments.store.folders import Json
from experiments.verdicts.intervals import t_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What was trained: where it stands beside its width, whether its marker is filled, its size, its name.
LOOKS: dict[Variant, tuple[float, bool, float, str]] = {
    ("both", "random"): (-0.06, False, 6, "random start"),
    ("both", "copying"): (0.06, True, 6, "start near copying"),
    ("positions", "random"): (0.18, False, 3.5, "scores of positions alone"),
    ("positions", "copying"): (0.18, True, 3.5, "positions alone, near copying"),
    ("printed", "random"): (-0.18, True, 3, "mask $P$ as printed, or zero"),
}
OF_WIDTH = ("s", "#1a1a1a"), ("D", "#8a8a8a"), ("^", "#8c5a3c"), ("v", "#7a4fa3")
UNDER: dict[str, Any] = {"xytext": (0, -3), "textcoords": "offset points", "va": "top", "fontsize": 7.5}
NAMES = {toy: name for toy, (name, _, _) in style.TOYS.items()}


def draw(prediction: Json, measurement: Json) -> Figure:
    """Draw a panel of explained shares a size, what the first layer's tokens hold, and what more heads change."""
    sizes = [Trained(size, numbers, measurement["explained"]) for size, numbers in prediction["sizes"].items()]
    panels = len(sizes) + 2
    columns = 2 if panels % 2 == 0 else panels
    fig, axes = style.figure(columns, rows=panels // columns, width=4.4, height=4.6)
    for axis, trained in zip(axes, sizes, strict=False):
        _draw_shares(axis, trained)
    _draw_tokens(axes[-2], sizes[0], measurement["copying"])
    _draw_heads(axes[-1], sizes[0])
    style.finish(axes)
    return fig


def _draw_shares(axis: Axes, trained: Trained) -> None:
    numbers = trained.numbers
    widths = {int(m): shares for m, shares in numbers["widths"].items()}
    for toy, (name, look, _) in style.TOYS.items():
        curve = [shares["assumed_copy"][toy] for shares in widths.values()]
        axis.plot(list(widths), curve, label=f"{name}, Assumption 1", zorder=1, **look)
    bound = [shares["bound"]["mha"] for shares in widths.values()]
    axis.plot(list(widths), bound, label="MHA's bound, positions alone", zorder=1, **style.BOUND)
    axis.axhline(numbers["ridge"], color="#999999", linewidth=0.8)
    end: dict[str, Any] = {"ha": "right", **UNDER}
    axis.annotate("Bayes", (list(widths)[-1], numbers["ridge"]), **end)
    turning = {k: v for k, v in numbers["constructions"].items() if k.startswith("rotating")}
    style.crosses(
        axis, [numbers["d"]] * len(turning), list(turning.values()), label="MHA that rotates" if turning else None
    )
    for variant in trained.variants:
        shift, filled, markersize, name = LOOKS[variant]
        least = 0.0 if variant[0] == "printed" else -math.inf  # which rare prompts throw far off
        for toy, (_, look, marker) in style.TOYS.items():
            by_width = {
                m + shift: [max(least, share) for share in trained.shares(variant, toy, m)]
                for m in trained.widths(variant)
            }
            for place, shares in by_width.items():
                style.seeds(axis, place, shares, color=look["color"])
            mark: dict[str, Any] = {"marker": marker, "markersize": markersize, "color": look["color"], "linewidth": 1}
            mark["markerfacecolor"] = look["color"] if filled else "white"
            style.bars(axis, list(by_width), [t_interval(shares) for shares in by_width.values()], **mark)
        mark = {"color": "#555555", "markersize": markersize, "markerfacecolor": "#555555" if filled else "white"}
        axis.plot([], [], "o", label=f"{name}, 95 %", **mark)
    axis.set_xticks(list(widths))
    axis.set_ylim(-0.12, 1.05)
    axis.set_xlabel("embedding width $m$ (numbers a token)")
    axis.set_ylabel(r"explained share of $E\,\|W^*\|^2$")
    axis.set_title(f"$d={numbers['d']}$, $n={numbers['n']}$, $\\sigma={numbers['sigma']:g}$")


def _draw_tokens(axis: Axes, trained: Trained, copying: Json) -> None:
    """Draw what layer 1 puts into y tokens, stacked, into x tokens and into layer 2's Gram matrix; random start."""
    variant = ("both", "random")
    arms = [(m, toy) for m in trained.widths(variant) for toy in style.TOYS]
    by_arm = [copying[trained.key(variant, toy, m)] for m, toy in arms]
    places = range(len(arms))

    def means(part: str) -> list[float]:
        return [fmean(seed[part] for seed in seeds) for seeds in by_arm]

    x, y = means("x_in_y"), means("y_in_y")
    both = [a + b for a, b in zip(x, y, strict=True)]
    rest = [max(0.0, 1 - share) for share in both]
    bars: dict[str, Any] = {"width": 0.7, "zorder": 2}
    axis.bar(places, x, bottom=[0.0] * len(arms), color="#2f7fb8", label="y token: its $x$, one back", **bars)
    axis.bar(places, y, bottom=x, color="#d98a2b", label="y token: its own $y$", **bars)
    axis.bar(places, rest, bottom=both, color="#dddddd", label="y token: all else", **bars)
    look: dict[str, Any] = {"color": "#1a1a1a", "markerfacecolor": "white", "zorder": 3, "markersize": 7}
    axis.plot(places, means("x_kept"), "D", label="x token: its own $x$", **look)
    axis.plot(places, means("gram"), "P", label="$G$: second moments of pairs", **look)
    axis.set_xticks(places, [f"{NAMES[toy].replace('Former', '')}\n$m={m}$" for m, toy in arms], fontsize=7)
    axis.set_ylabel("share of the square of layer 1's output")
    axis.set_title(f"What layer 1's tokens hold, $d={trained.numbers['d']}$, random start")


def _draw_heads(axis: Axes, trained: Trained) -> None:
    """Draw MHA's share over its number of heads, a curve a width, against what theory says of enough heads."""
    variant, numbers = ("positions", "random"), trained.numbers
    axis.axhline(numbers["rho"], label=f"{NAMES['skipv1']}, $m={numbers['d']}$, exactly", zorder=1, **style.SKIPV1)
    for m, (marker, color) in zip(trained.widths(variant), OF_WIDTH, strict=False):
        seeds = {heads: trained.shares(variant, many_heads(heads), m) for heads in trained.heads(variant, m)}
        look: dict[str, Any] = {"marker": marker, "color": color, "zorder": 3}
        intervals = [t_interval(shares) for shares in seeds.values()]
        style.bars(axis, list(seeds), intervals, label=f"MHA, $m={m}$, trained, 95 %", **look)
        if enough := numbers["widths"][str(m)].get("enough_heads"):
            axis.axhline(enough["mha"], color=color, linestyle="-.", linewidth=1.1, zorder=2)
            axis.annotate(f"enough heads, $m={m}$", (2**1.5, enough["mha"]), ha="center", color=color, **UNDER)
    axis.set_xscale("log", base=2)
    axis.set_xticks(HEADS, [str(heads) for heads in HEADS])
    axis.set_xlim(HEADS[0] / 1.25, HEADS[-1] * 1.25)
    axis.set_ylim(0, None)
    axis.set_xlabel("heads in each layer")
    axis.set_ylabel(r"explained share of $E\,\|W^*\|^2$")
    axis.set_title(f"More heads, $d={numbers['d']}$, scores of positions alone")
