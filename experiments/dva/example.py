"""Count the meanings that a layer distinguishes, by heads, gates and width: the paper's "hot girl drinks hot water".

A noun is to be given the meaning of its pair with the adjective before it.  Every pair has a meaning of its own, and
all are orthonormal, so a layer's error counts the meanings that it cannot distinguish (`theory.dva.meanings`).  One
layer of attention without a feed-forward is trained: with one ordinary head, with two of half the width, with one
dynamic head, and with one head whose output a linear gate scales.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import longest_first, results
from experiments.verdicts.checks import Check
from theory.dva.meanings import independent, independent_of_dynamic, least_loss, width_needed
from theory.plans.architecture import Architecture, Vectors
from theory.plans.plan import Dynamic, plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

    from icl.models.decoder import Decoder

EXAMPLE = "dva.example"
RATE, STD = 0.02, 0.3  # of Adam; of the initial weights
REACHED, ROUNDING = 0.01, 1e-9  # in units of a meaning's square
Table = tuple[int, int]  # adjectives and nouns


@dataclass(frozen=True)
class Layer:
    """A kind of layer: its heads, of equal width, and its figure's marks."""

    words: str
    heads: int
    dynamic: Dynamic
    color: str
    line: str
    marker: str

    def tells_apart(self, table: Table, width: int) -> int:
        """Return the most linearly independent meanings that it can give, at this width of all heads together."""
        if self.dynamic == "no":
            return independent(*table, self.heads, width // self.heads)
        return independent_of_dynamic(*table, width)

    def least_error(self, table: Table, width: int) -> float:
        """Return the least mean squared error, for meanings of length 1."""
        return least_loss(*table, self.tells_apart(table, width))


LAYERS = {
    "one": Layer("one ordinary head", 1, "no", color="#1a1a1a", line="--", marker="s"),
    "two": Layer("two ordinary heads of half the width", 2, "no", color="#8a8a8a", line="-.", marker="D"),
    "dynamic": Layer("one dynamic head", 1, "revised", color=style.DVA, line="-", marker="o"),
    "gate": Layer("one head with a linear gate", 1, "gate", color="#2f7fb8", line=":", marker="^"),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The tables on which layers are trained.

    Attributes:
        tables: Tables that are trained at the width that each needs.
        swept: The table that is trained at every one of `widths`.
        widths: Widths of all heads together, even ones.
        restarts: Trainings of every layer, table and width, from other weights.
        steps: Full-batch steps of Adam in each, and at most as many of quasi-Newton.
    """

    tables: tuple[Table, ...]
    swept: Table
    widths: tuple[int, ...]
    restarts: int
    steps: int

    def cells(self) -> dict[str, Cell]:
        """Return what is trained, by the name that results give it."""
        sizes = [(table, even(width_needed(*table))) for table in self.tables]
        sizes += [(self.swept, width) for width in self.widths]
        cells = [
            Cell(layer, table, width, restarts=self.restarts, steps=self.steps)
            for table, width in dict.fromkeys(sizes)
            for layer in LAYERS
        ]
        return {cell.name: cell for cell in cells}


@dataclass(frozen=True)
class Cell:
    """The restarts of one layer on one table at one width."""

    layer: str
    table: Table
    width: int
    restarts: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.layer}/{self.table[0]}x{self.table[1]}/w{self.width}"


def even(width: int) -> int:
    """Return the next even width, so that two heads can share it."""
    return max(2, width + width % 2)


CPU = Config(
    tables=((1, 2), (2, 2), (3, 2), (3, 3), (4, 2)),
    swept=(4, 4),
    widths=(2, 4, 6, 8, 10, 12, 14),
    restarts=2,
    steps=200,
)
SMOKE = replace(CPU, tables=((3, 3),), swept=(4, 2), widths=(4,), restarts=1, steps=100)
FULL = replace(CPU, swept=(7, 6), widths=(6, 12, 18, 24, 30, 36, 40), restarts=10, steps=1000)


def profile(config: Config, seconds: int) -> Profile:
    """Return the profile, which detects one meaning, as a share of all that the largest table has."""
    pairs = max(rows * columns for rows, columns in {*config.tables, config.swept})
    detects = f"one meaning more or fewer, {100 / pairs:.0f} % of the square of the largest table's"
    return Profile(config=config, seeds=0, seconds=seconds, detects=detects)


class Example:
    name = "dva-example"
    title = "Hot girl drinks hot water: how many meanings a layer tells apart, by heads, gates and width"
    caption = (
        "One ordinary head fails from four adjectives and two nouns on; two half as wide, one dynamic head and one "
        "with a gate do not. Mean squared error over a meaning's square, (a) of several tables at the needed width, "
        "(b) of one table over the width. Bars, lines: exact minima; markers: best trained restarts."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (EXAMPLE,)
    profiles: Mapping[str, Profile] = {"smoke": profile(SMOKE, 6), "cpu": profile(CPU, 20), "full": profile(FULL, 3600)}

    def predict(self, config: Config) -> Json:
        widths = range(2, max(config.widths) + 2, 2)
        return {
            "assumes": "one layer of attention over two tokens, no feed-forward, no norm; orthonormal meanings, a "
            "linear map that reads them; the same width of all heads together",
            "source": "theory.dva.meanings",
            "rule": "the best of all restarts ends at the least error to 0.01 of a meaning's square, and none below it",
            "swept": list(config.swept),
            "meanings": {f"{m}x{n}": m * n for m, n in {*config.tables, config.swept}},
            "least": {name: LAYERS[x.layer].least_error(x.table, x.width) for name, x in config.cells().items()},
            "curves": {
                name: [[width, layer.least_error(config.swept, width)] for width in widths]
                for name, layer in LAYERS.items()
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        """Return the mean squared errors that the restarts of every cell ended with."""
        cells = config.cells()
        in_order = longest_first(cells, lambda cell: cell.table[0] * cell.table[1] * cell.width)
        trained = results("table", in_order, train, run=run, label=self.name, size=lambda cell: cell.restarts)
        return {"errors": {name: trained[name]["errors"] for name in cells}}

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Check]:
        checks = []
        for name, least in prediction["least"].items():
            layer, table, _ = name.split("/")
            meaning = 1 / prediction["meanings"][table]
            check = Check(
                id=name,
                group=f"{LAYERS[layer].words}, {table}",
                claim=EXAMPLE,
                statement="the best of all restarts ends at the least error, and none below it",
                predicted=least,
                measured=min(measurement["errors"][name]),
                stderr=0.0,
                tolerance=ROUNDING,
                controls=(least - meaning, least + meaning),  # a meaning more, or fewer, told apart
                above=REACHED,
                slack=REACHED,
                quantity="mean squared error, of a meaning's square",
            )
            checks.append(check)
        return checks

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.figure(2, width=4.6, height=4.6)
        best = {name: min(errors) for name, errors in measurement["errors"].items()}
        swept = "x".join(map(str, prediction["swept"]))
        draw_tables(axes[0], prediction, best, swept=swept)
        draw_widths(axes[1], prediction, best, swept=swept)
        for axis in axes:
            axis.set_ylabel("mean squared error, over a meaning's square")
        style.finish(axes)
        return fig


def train(cell: Cell, desk: Desk) -> Json:
    """Train the restarts of a cell."""
    errors = []
    for restart in range(cell.restarts):
        desk.report(restart)
        errors.append(fit(cell.layer, cell.table, cell.width, seed=restart, steps=cell.steps))
    return {"errors": errors}


def fit(layer: str, table: Table, width: int, *, seed: int, steps: int) -> float:
    """Return the mean squared error after so many steps of Adam, then as many of quasi-Newton, in float64."""
    import torch

    model = decoder(layer, table, width, seed=seed)
    inputs, meanings = pairs(table)

    def error() -> Tensor:
        return (model(inputs)[:, 1] - meanings).square().sum(-1).mean()

    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(steps):
        adam.zero_grad()
        error().backward()
        adam.step()
    newton = torch.optim.LBFGS(model.parameters(), max_iter=steps, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        newton.zero_grad()
        loss = error()
        loss.backward()
        return loss

    newton.step(closure)
    return float(error().detach())


def decoder(layer: str, table: Table, width: int, seed: int) -> Decoder:
    """Return a layer that is wide enough in everything but its heads; its output has a coordinate for each meaning."""
    from icl.models.decoder import Decoder

    kind, size = LAYERS[layer], coordinates(table)
    config = Architecture(
        d_model=2 * size,
        n_layers=1,
        n_heads=kind.heads,
        head_dim=width // kind.heads,
        d_ff=0,
        context=2,
        stem=Vectors(size),
        norm="none",
        positions="none",
    )
    layers = plan(config.shape, dynamic=kind.dynamic, feed_forward=False)
    return Decoder(config, layers, seed=seed, std=STD, scale_outputs=False).double()


def coordinates(table: Table) -> int:
    """Return how many numbers a one-hot token or meaning has."""
    adjectives, nouns = table
    return max(adjectives * nouns, adjectives + nouns)


def pairs(table: Table) -> tuple[Tensor, Tensor]:
    """Return all pairs, adjective before noun, and their meanings: (m n, 2, size) and (m n, size), one-hot."""
    import torch

    adjectives, nouns = table
    one_hot = torch.eye(coordinates(table), dtype=torch.float64)
    first = torch.arange(adjectives).repeat_interleave(nouns)
    second = adjectives + torch.arange(nouns).repeat(adjectives)
    return torch.stack([one_hot[first], one_hot[second]], dim=1), one_hot[: adjectives * nouns]


def draw_tables(axis: Axes, prediction: Json, best: Mapping[str, float], swept: str) -> None:
    """Draw every table at the width that it needs."""
    tables = [table for table in prediction["meanings"] if table != swept]
    tables.sort(key=lambda table: (prediction["meanings"][table], table))
    widths = {name.split("/")[1]: name.split("/")[2] for name in prediction["least"]}
    for i, (name, layer) in enumerate(LAYERS.items()):
        cells = [f"{name}/{table}/{widths[table]}" for table in tables]
        places = [place + 0.18 * (i - 1.5) for place in range(len(tables))]
        for x, cell in zip(places, cells, strict=True):
            axis.plot([x - 0.08, x + 0.08], [prediction["least"][cell]] * 2, color=layer.color, linewidth=2)
        markers = [best[cell] for cell in cells]
        axis.plot(places, markers, layer.marker, color=layer.color, markerfacecolor="none", label=layer.words)
    axis.plot([], [], color="#1a1a1a", linewidth=2, label="bars: theory; markers: best of all restarts")
    labels = [f"{table.replace('x', ' x ')}\n(w = {widths[table][1:]})" for table in tables]
    axis.set_xticks(range(len(tables)), labels)
    axis.set_xlabel("adjectives x nouns (width of all heads together)")
    axis.set_title("Tables, at the width that they need")


def draw_widths(axis: Axes, prediction: Json, best: Mapping[str, float], swept: str) -> None:
    """Draw the swept table at all widths."""
    drawn: dict[str, str] = {}  # by curve, the first layer that has it
    for name, layer in LAYERS.items():
        look: dict[str, Any] = {"color": layer.color, "markerfacecolor": "none"}
        widths = sorted(int(x.split("/w")[1]) for x in prediction["least"] if x.startswith(f"{name}/{swept}/"))
        axis.plot(*zip(*prediction["curves"][name], strict=True), color=layer.color, linestyle=layer.line)
        axis.plot(widths, [best[f"{name}/{swept}/w{width}"] for width in widths], layer.marker, **look)
        same = drawn.setdefault(str(prediction["curves"][name]), name) != name
        label = layer.words + " (the same line)" * same
        axis.plot([], [], layer.marker, linestyle=layer.line, label=label, **look)
    axis.set_xlabel("width of all heads together (coordinates)")
    axis.set_title(f"{swept.replace('x', ' adjectives, ')} nouns; lines: theory")


EXPERIMENT: Experiment = Example()
