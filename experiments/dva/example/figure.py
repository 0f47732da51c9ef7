"""The figure of `dva-example`: tables at the width that they need, and one table at all widths."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.dva.example.points import LAYERS
from experiments.store.folders import Json

LOOKS = {
    "one": ("#1a1a1a", "--", "s"),
    "two": ("#8a8a8a", "-.", "D"),
    "dynamic": (style.DVA, "-", "o"),
    "gate": ("#2f7fb8", ":", "^"),
}


def draw(prediction: Json, measurement: Json) -> Figure:
    fig, axes = style.figure(2, width=4.6, height=4.6)
    swept = "x".join(map(str, prediction["swept"]))
    _tables(axes[0], prediction, measurement, swept)
    _widths(axes[1], prediction, measurement, swept)
    for axis in axes:
        axis.set_ylabel("mean squared error, over a meaning's square")
    style.finish(axes)
    return fig


def _tables(axis: Axes, prediction: Json, measurement: Json, swept: str) -> None:
    tables = [table for table in prediction["meanings"] if table != swept]
    tables.sort(key=lambda table: (prediction["meanings"][table], table))
    widths = {name.split("/")[1]: name.split("/")[2] for name in prediction["least"]}
    for i, (layer, (color, _, marker)) in enumerate(LOOKS.items()):
        names = [f"{layer}/{table}/{widths[table]}" for table in tables]
        places = [place + 0.18 * (i - 1.5) for place in range(len(tables))]
        for x, name in zip(places, names, strict=True):
            axis.plot([x - 0.08, x + 0.08], [prediction["least"][name]] * 2, color=color, linewidth=2)
        best = [min(measurement["errors"][name]) for name in names]
        axis.plot(places, best, marker, color=color, markerfacecolor="none", label=LAYERS[layer].words)
    axis.plot([], [], color="#1a1a1a", linewidth=2, label="bars: theory; markers: best of all restarts")
    labels = [f"{table.replace('x', ' x ')}\n(w = {widths[table][1:]})" for table in tables]
    axis.set_xticks(range(len(tables)), labels)
    axis.set_xlabel("adjectives x nouns (width of all heads together)")
    axis.set_title("Tables, at the width that they need")


def _widths(axis: Axes, prediction: Json, measurement: Json, swept: str) -> None:
    first: dict[str, str] = {}  # by curve, the layer that it is drawn of first
    for layer, (color, line, marker) in LOOKS.items():
        names = [name for name in prediction["least"] if name.startswith(f"{layer}/{swept}/")]
        widths = sorted(int(name.split("/w")[1]) for name in names)
        axis.plot(*zip(*prediction["curves"][layer], strict=True), color=color, linestyle=line)
        by_width = [measurement["errors"][f"{layer}/{swept}/w{w}"] for w in widths]
        axis.plot(widths, [min(x) for x in by_width], marker, color=color, markerfacecolor="none")
        words, other = LAYERS[layer].words, first.setdefault(str(prediction["curves"][layer]), layer)
        said = words if other == layer else f"{words} (the same line)"
        axis.plot([], [], marker, color=color, linestyle=line, markerfacecolor="none", label=said)
    axis.set_xlabel("width of all heads together (coordinates)")
    axis.set_title(f"{swept.replace('x', ' adjectives, ')} nouns; lines: theory")
