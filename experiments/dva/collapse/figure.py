"""The figure of `dva-collapse`: memory with the formula's lines, time, and the sizes of the paper's models."""

from __future__ import annotations

from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.dva.collapse.points import HEADS, LAYERS, SIDES
from experiments.store.folders import Json

LOOKS = {
    "initial, pairs": ("#1a1a1a", "-", "s"),
    "revised, pairs": (style.DVA, "-", "o"),
    "initial, collapsed": ("#1a1a1a", "--", "D"),
    "revised, collapsed": (style.DVA, "--", "^"),
    "initial, blocks": ("#1a1a1a", ":", "v"),
    "revised, blocks": (style.DVA, ":", "P"),
}
MEASURE = "revised, collapsed"  # at whose speed products are drawn as times
FARTHEST = 4.0  # times over ordinary heads' that are drawn to scale; others stand at the edge, in numbers
ABREAST = 1.07  # times between neighbouring sides at equal numbers of tokens
MIB = 2**20 / 4  # numbers of 4 bytes


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(3, width=4.4, height=4.4)
    _memory(axes[0], prediction, measurement["peak"])
    _time(axes[1], prediction["products"], measurement["seconds"])
    for axis in axes[:2]:
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("tokens $T$")
    _layers(axes[2], measurement)
    style.finish(axes)
    return fig


def _memory(axis: Axes, prediction: Json, found: Json) -> None:
    for name, (color, line, marker) in LOOKS.items():
        said = prediction["peak"].get(name)
        if not said:
            continue
        tokens = sorted(map(int, said))
        axis.plot(tokens, [said[str(t)] / MIB for t in tokens], color=color, linestyle=line)
        points = [found[name][str(t)] / MIB for t in tokens]
        axis.plot(tokens, points, marker, color=color, markerfacecolor="white")
        axis.plot([], [], marker, color=color, linestyle=line, markerfacecolor="white", label=SIDES[name].words)
    axis.set_ylabel("memory at the peak (MiB); lines: formula")
    axis.set_title(f"Memory of one head, $w={prediction['width']}$")


def _time(axis: Axes, products: Json, found: Json) -> None:
    """Lines: the formula's products, all at the speed at which the revised form's, collapsed, are worked out last.

    Those of all sides but every pair's matrix are the same, but for some of a token's alone.
    """
    last = max(found[MEASURE], key=int)
    of_one = median(found[MEASURE][last]) / products[MEASURE][last]
    for i, (name, (color, _, marker)) in enumerate(LOOKS.items()):
        if not found.get(name):
            continue
        tokens = sorted(map(int, found[name]))
        turns = [[1e3 * x for x in found[name][str(t)]] for t in tokens]
        middle = [median(x) for x in turns]
        around = [[m - min(x) for m, x in zip(middle, turns, strict=True)]]
        around.append([max(x) - m for m, x in zip(middle, turns, strict=True)])
        axis.errorbar(
            [t * ABREAST ** (i - (len(LOOKS) - 1) / 2) for t in tokens],
            middle,
            yerr=around,
            color=color,
            linestyle="none",
            elinewidth=1,
            marker=marker,
            markersize=4,
            markerfacecolor="white",
        )
    for name, line, words in (
        ("initial, pairs", "-", "products of every pair's matrix"),
        (MEASURE, ":", "products of all others"),
    ):
        tokens = sorted(map(int, products.get(name, {})))
        said = [1e3 * of_one * products[name][str(t)] for t in tokens]
        axis.plot(
            tokens,
            said,
            color="#1a1a1a",
            linestyle=line,
            linewidth=1,
            label=f"{words}, as time; markers as in (a)" if line == "-" else f"{words}, as time",
        )
    axis.set_ylabel("time of both passes (ms; bars: all turns)")
    axis.set_title(f"Time of one head; lines: {1e-9 / of_one:.2g}$\\cdot 10^9$ products a second")


def _layers(axis: Axes, measurement: Json) -> None:
    """As ratios to the ordinary heads of the same turn."""
    found, names = measurement["layers"], [name for name in LAYERS if name in measurement["layers"]]
    places = dict(zip(names, range(len(names), 0, -1), strict=True))
    tokens = sorted({int(t) for by_tokens in found.values() for t in by_tokens})
    for i, (t, marker) in enumerate(zip(tokens, style.MARKERS, strict=False)):
        here = [name for name in names if str(t) in found[name]]
        ratios = {
            name: sorted(a / b for a, b in zip(found[name][str(t)], found[HEADS][str(t)], strict=True)) for name in here
        }
        color, height = ("#1a1a1a", "#8a8a8a", "#c8c8c8")[i % 3], 0.15 * i
        near = [name for name in here if median(ratios[name]) <= FARTHEST]
        middle = [median(ratios[name]) for name in near]
        around = [[m - ratios[n][0] for m, n in zip(middle, near, strict=True)]]
        around.append([ratios[n][-1] - m for m, n in zip(middle, near, strict=True)])
        axis.errorbar(
            middle,
            [places[name] + height for name in near],
            xerr=around,
            fmt=marker,
            color=color,
            markerfacecolor="white",
            label=f"{t} tokens: {1e3 * median(found[HEADS][str(t)]):.3g} ms for ordinary heads",
        )
        for name in set(here) - set(near):
            far = ratios[name]
            text = f"{median(far):.3g} ({far[0]:.3g} to {far[-1]:.3g}) $\\rightarrow$"
            axis.text(FARTHEST, places[name] + height, text, ha="right", va="center", color=color)
    axis.axvline(1, color="#8a8a8a", linewidth=1, linestyle="--")
    labels = [f"{LAYERS[name]}\n({_on(measurement['kernels'][name])})" for name in names]
    axis.set_yticks(list(places.values()), labels)
    axis.set_xlim(0, FARTHEST)
    axis.set_ylim(0.5, len(names) + 0.5)
    axis.set_xlabel("time over ordinary heads' (bars: all turns)")
    axis.set_title("One layer's attention in the paper's models")


def _on(kernels: list[str]) -> str:
    """What ran, in words."""
    fused = [name for name in kernels if name != "softmax"]
    return f"{' and '.join(fused)} kernel" if fused else "no kernel: weights of pairs"
