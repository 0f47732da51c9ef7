"""The figure of `skipv1-w0` with two heads each, from its prediction and measurement alone."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.around_w0.panels import DIFFERENCE, LOSS, difference, greys, panels, place_of, share, shown
from experiments.skipv1.around_w0.points import (
    best,
    by_rank,
    scale,
)
from experiments.store.folders import Json

ENOUGH_LOOK: dict[str, Any] = {"color": style.SKIPV1["color"], "linestyle": "-."}


def draw(prediction: Json, measurement: Json) -> Figure:
    """With two heads each, W0 = c I: over c, over c and n, over d, and by rank."""
    return panels((_over_c, _map, _over_d, _by_rank), prediction, measurement)


def _over_c(axis: Axes, prediction: Json, exact: Json) -> None:
    curve, (d, n) = prediction["curve"], shown(prediction)
    c = [row["c"] for row in curve]
    lines = {
        "mha_reached": ("MHA, explicit weights", style.MHA),
        "skipv1_floor": ("SkipV1Former, at the least, $a = d$", style.SKIPV1),
        "skipv1_reached": ("SkipV1Former, as in Theorem 3", {**style.BOUND}),
        "enough_heads": ("SkipV1Former, enough heads", ENOUGH_LOOK),
    }
    for name, (label, look) in lines.items():
        axis.plot(c, [share(row[name], d, row["c"]) for row in curve], label=label, **look)
    scales = _scales(prediction, d, n)
    for toy, (name, look, marker) in style.TOYS.items():
        axis.plot(
            scales,
            [share(best(exact, place_of("identity", x, d, n, 2), toy, d), d, x) for x in scales],
            linestyle="none",
            marker=marker,
            markerfacecolor="white",
            color=look["color"],
            zorder=4,
            label=f"{name}, exact minimum",
        )
    axis.set_xscale("symlog", linthresh=0.5, base=2)
    axis.set_xlabel(r"$c$, for $W_0=c\,I$")
    axis.set_ylabel(LOSS)
    axis.set_ylim(0, 1.05)
    axis.set_title(f"Two heads each, $d={d}$, $n={n}$")


def _scales(prediction: Json, d: int, n: int) -> list[float]:
    few = prediction["few"]
    return sorted({row["c"] for row in few if (row["d"], row["n"], row["heads"]) == (d, n, 2)})


def _map(axis: Axes, prediction: Json, exact: Json) -> None:
    d, _ = shown(prediction)
    region = prediction["thresholds"]
    n = [row["n"] for row in region]
    few = [row for row in prediction["few"] if row["d"] == d and row["heads"] == 2 and row["c"] > 0]
    low, high = 0.6, 1.7 * max(row["c"] for row in few)
    wins = [row["wins_below"] for row in region]
    axis.fill_between(n, low, wins, color=style.SKIPV1["color"], alpha=0.25, linewidth=0, label="proved: SkipV1 wins")
    lost = [(m, row["loses_above"]) for m, row in zip(n, region, strict=True) if row["loses_above"] is not None]
    axis.fill_between(
        [m for m, _ in lost], [x for _, x in lost], high, color="#1a1a1a", alpha=0.18, linewidth=0, hatch="//",
        label="proved: SkipV1 loses",
    )  # fmt: skip
    gaps = [(row["n"], row["c"], difference(exact, row["place"], d, row["c"])) for row in few]
    for wins_here, marker, label in ((True, "o", "SkipV1Former lower"), (False, "s", "MHA lower")):
        dots = [(m, c) for m, c, gap in gaps if (gap < 0) == wins_here]
        look = style.SKIPV1 if wins_here else style.MHA
        if dots:
            x, y = zip(*dots, strict=True)
            axis.plot(x, y, linestyle="none", marker=marker, color=look["color"], label=f"exact: {label}")
    white = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7}
    for m, c, gap in gaps:
        axis.annotate(
            f"{100 * gap:+.0f}",
            (m, c),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=6.5,
            bbox=white,
        )
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set_xlim(0.75, 1.35 * max(row["n"] for row in few))
    axis.set_ylim(low, high)
    axis.set_xlabel("context length $n$ (pairs)")
    axis.set_ylabel(r"$c$, for $W_0=c\,I$")
    axis.set_title(f"Who wins, two heads, $d={d}$ (difference, %)")


def _over_d(axis: Axes, prediction: Json, exact: Json) -> None:
    few = [row for row in prediction["few"] if row["heads"] == 2]
    large = max(row["c"] for row in few if row["d"] != shown(prediction)[0])
    lines, shades = prediction["widths"], ("#1a1a1a", "#2f7fb8", "#d98a2b", "#7a4fa3")
    for line, color in zip(lines, shades, strict=False):
        n = line[0]["n"]
        pairs = [(row["d"], row["skipv1"] / row["mha"]) for row in line]
        axis.plot(*zip(*pairs, strict=True), color=color, linestyle="-" if n else "--", marker="." if n else None,
                  markersize=3, label=f"proved at least, $a=d$, n = {n or 'd²'}")  # fmt: skip
        for d in sorted({row["d"] for row in few if row["n"] == n and row["c"] == large}):
            place = place_of("identity", large, d, n, 2)
            ratio = [
                (share(best(exact, place, toy, d), d, large) * scale(d, large) - d**2) for toy in ("skipv1", "mha")
            ]
            if min(ratio) > 0:
                axis.plot([d], [ratio[0] / ratio[1]], "x", color=color, markersize=8, zorder=4)
    style.crosses(axis, [], [], "exact minima, all ranks")
    axis.axhline(1, color="#999999", linewidth=0.8)
    axis.set_xlabel("width $d$")
    axis.set_ylabel("what is lost of $W_0$: SkipV1Former / MHA")
    axis.set_title(r"Two heads, $W_0=c\,I$, large $c$")


def _by_rank(axis: Axes, prediction: Json, exact: Json) -> None:
    d, n = shown(prediction)
    chosen = [c for c in _scales(prediction, d, n) if c]
    for c, marker, color in zip(chosen[:: max(1, len(chosen) // 4)], style.MARKERS, greys(), strict=False):
        place = place_of("identity", c, d, n, 2)
        skip, mha = by_rank(exact, place, "skipv1", d), by_rank(exact, place, "mha", d)
        gaps = {a: (skip[a] - mha[a]) / scale(d, c) for a in sorted(skip)}
        axis.plot(list(gaps), [100 * g for g in gaps.values()], marker=marker, color=color, label=f"$c={c:g}$")
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xticks(range(1, d + 1))
    axis.set_xlabel("rank $a$ of the copy of $x$, the same for both")
    axis.set_ylabel(f"{DIFFERENCE} (%)")
    axis.set_title(f"At equal rank, two heads, $d={d}$, $n={n}$")
