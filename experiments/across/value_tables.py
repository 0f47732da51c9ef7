"""Ask how much of a value embedding layer 1's values can hold, by the size of the vocabulary.

Tables with a row for every token have independent normal entries, as many columns as the model is wide.  Layer 1's
values of a decoder without positions on its embedding are trained towards the tables of one or several layers: the
value map alone, or the embedding too, as if it served nothing else.  A decoder with value embeddings is trained beside.
What is left of a table's square is what theory says that a product of embedding and value map must miss
(`theory.toy.value_embeddings`).
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
from experiments.verdicts.intervals import t_interval
from theory.plans.architecture import Architecture, Tokens
from theory.plans.mix import e
from theory.plans.plan import plan
from theory.toy.value_embeddings import least_missed

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from icl.models.decoder import Decoder

CLAIM = "toy.value-embeddings"
SLACK = 0.01  # of a table's square: a descent ends before its minimum
TABLES = 400  # drawn for a prediction
DETECTS = "10 % of the tables' square"
PROJECTIONS = "layers.0.attention.projections"
VALUE, TABLE, EMBEDDING = f"{PROJECTIONS}.value.weight", f"{PROJECTIONS}.table.weight", "stem.embedding.weight"


@dataclass(frozen=True)
class Arm:
    """A training towards tables, and its figure's marks.

    Attributes:
        words: The figure's name for it.
        layers: The number of layers whose tables it has to hold together.
        trains: The parameters that are trained: "map", layer 1's value map; "both", the embedding too; "table", a value
            embedding.
    """

    words: str
    layers: int
    trains: str
    color: str
    line: str
    marker: str

    def missed(self, tokens: int, width: int) -> tuple[float, float]:
        """Return the mean share of the tables' square that theory leaves, and its standard error."""
        import numpy as np

        if self.trains == "table":
            return 0.0, 0.0
        if self.trains == "map":
            return 1 - min(tokens, width) / tokens, 0.0
        drawn = np.random.default_rng(0).standard_normal((TABLES, tokens, self.layers * width))
        shares = [least_missed(table, width) / (table**2).sum() for table in drawn]
        return float(np.mean(shares)), float(np.std(shares) / np.sqrt(TABLES))


ARMS = {
    "map": Arm("layer 1's values, embedding given", 1, "map", color="#1a1a1a", line="--", marker="s"),
    "four": Arm("four layers' tables, embedding trained", 4, "both", color="#b3261e", line="-.", marker="D"),
    "two": Arm("two layers' tables, embedding trained", 2, "both", color="#d98a2b", line=":", marker="^"),
    "one": Arm("one layer's table, embedding trained", 1, "both", color="#2f7fb8", line="-", marker="o"),
    "table": Arm("value embedding", 1, "table", color="#1d6b34", line=":", marker="x"),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes: the model's width, numbers of tokens, and quasi-Newton steps at the most."""

    width: int
    tokens: tuple[int, ...]
    steps: int


CPU = Config(width=8, tokens=(4, 8, 16, 32, 64, 128), steps=600)
SMOKE = replace(CPU, width=4, tokens=(4, 16), steps=200)
FULL = replace(CPU, width=32, tokens=(16, 32, 64, 128, 256, 512), steps=3000)


@dataclass(frozen=True)
class Cell:
    """An arm at one number of tokens, trained towards the tables of one seed."""

    arm: str
    tokens: int
    seed: int
    width: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.arm}/{self.tokens}/{self.seed}"


class ValueTables:
    name = "value-tables"
    title = "How much of a value embedding can layer 1's values hold?"
    caption = (
        "Beyond a vocabulary as large as the width they miss nearly all of it, unless the embedding serves one table "
        "alone. Share of random tables' square that is left after training a decoder's layer 1 values towards them, "
        "over tokens per coordinate of the width. Lines join theory's values. Markers: means over tables, joint 95 % "
        "intervals."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = {
        "smoke": Profile(config=SMOKE, seeds=8, seconds=10, detects=DETECTS),
        "cpu": Profile(config=CPU, seeds=24, seconds=120, detects=DETECTS),
        "full": Profile(config=FULL, seeds=24, seconds=3600, detects=DETECTS),
    }

    def predict(self, config: Config) -> Json:
        missed = {name: {str(n): arm.missed(n, config.width) for n in config.tokens} for name, arm in ARMS.items()}
        return {
            "assumes": "tables of independent entries, as many columns for each layer as the width; no positions on "
            "the embedding and no norm before layer 1's values; an embedding of full rank where it is not trained",
            "source": "theory.toy.value_embeddings",
            "rule": f"the mean over tables lies within its interval, and {SLACK} of the square for the descent",
            "width": config.width,
            "missed": {name: {n: share for n, (share, _) in row.items()} for name, row in missed.items()},
            "stderr": {name: {n: error for n, (_, error) in row.items()} for name, row in missed.items()},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        """Return the shares of the square that are left, by arm and number of tokens, one for each seed."""
        cells = [
            Cell(arm, n, seed, width=config.width, steps=config.steps)
            for arm in ARMS
            for n in config.tokens
            for seed in range(seeds)
        ]
        by_name = {cell.name: cell for cell in cells}
        in_order = longest_first(by_name, lambda cell: cell.tokens * ARMS[cell.arm].layers)
        left = results("table", in_order, train, run=run, label=self.name)
        return {
            arm: {str(n): [left[f"{arm}/{n}/{seed}"]["missed"] for seed in range(seeds)] for n in config.tokens}
            for arm in ARMS
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Check]:
        count = sum(map(len, measurement.values()))
        most = max(prediction["missed"]["map"].values())
        checks = []
        for name, row in prediction["missed"].items():
            for n, share in row.items():
                interval = t_interval(measurement[name][n], count).widened(prediction["stderr"][name][n], 3)
                others = {other[n] for other in prediction["missed"].values()} if share else {most}
                checks.append(
                    Check.sampled(
                        interval,
                        id=f"{name}/{n}",
                        group=ARMS[name].words,
                        claim=CLAIM,
                        statement="training leaves of a table what theory says that it must miss",
                        predicted=share,
                        slack=SLACK,
                        controls=tuple(sorted(others - {share})),  # what the other arms miss of as many tokens
                        quantity="share of the tables' square",
                    )
                )
        return checks

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, (axis,) = style.figure(1, width=5.2, height=4.4)
        count = sum(map(len, measurement.values()))
        for name, arm in ARMS.items():
            places = [int(n) / prediction["width"] for n in measurement[name]]
            axis.plot(places, list(prediction["missed"][name].values()), color=arm.color, linestyle=arm.line)
            intervals = [t_interval(values, count) for values in measurement[name].values()]
            style.bars(axis, places, intervals, color=arm.color, marker=arm.marker)
            look: dict[str, Any] = {"color": arm.color, "linestyle": arm.line, "marker": arm.marker}
            axis.plot([], [], label=arm.words, markerfacecolor="white", **look)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("tokens over the model's width")
        axis.set_ylabel("share of the tables' square that is left")
        axis.set_title("Random tables of values by token")
        style.legend_below(axis, columns=2)
        return fig


def train(cell: Cell, desk: Desk | None = None) -> Json:  # noqa: ARG001 - takes a second
    """Return the share of the tables' square that is left after quasi-Newton steps in float64."""
    import torch

    arm, table = ARMS[cell.arm], tables(cell)
    model = decoder(cell)
    names = {"map": (VALUE,), "both": (VALUE, EMBEDDING), "table": (TABLE,)}[arm.trains]
    newton = torch.optim.LBFGS(
        [model.get_parameter(name) for name in names],
        max_iter=cell.steps,
        history_size=50,
        tolerance_grad=1e-9,
        tolerance_change=1e-11,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        newton.zero_grad()
        loss = (values(model, cell.tokens) - table).square().sum() / table.square().sum()
        loss.backward()
        return loss

    newton.step(closure)
    with torch.no_grad():
        left = (values(model, cell.tokens) - table).square().sum() / table.square().sum()
    return {"missed": float(left)}


def decoder(cell: Cell) -> Decoder:
    """Return a decoder of one layer, with a head as wide as the model for each layer whose table it is to hold."""
    from icl.models.decoder import Decoder

    arm = ARMS[cell.arm]
    config = Architecture(
        d_model=cell.width,
        n_layers=1,
        n_heads=arm.layers,
        head_dim=cell.width,
        d_ff=0,
        context=1,
        stem=Tokens(cell.tokens),
        norm="none",
        positions="none",
    )
    chosen = plan(config.shape, values=lambda n, h: e(n, h)) if arm.trains == "table" else plan(config.shape)
    return Decoder(config, chosen, seed=cell.seed, std=cell.width**-0.5).double()


def values(model: Decoder, tokens: int) -> Tensor:
    """Return what layer 1 attends over for every token, (tokens, heads * width)."""
    import torch

    from icl.probes.recording import Attended, attending

    seen: list[Tensor] = []

    def see(at: Attended) -> None:
        seen.append(at.values[0].flatten(1))

    with attending(model, see):
        model(torch.arange(tokens)[:, None])
    return seen[0]


def tables(cell: Cell) -> Tensor:
    """Return the tables of the arm's layers beside each other, (tokens, layers * width)."""
    import torch

    numbers = torch.Generator().manual_seed(1000 + cell.seed)
    size = (cell.tokens, ARMS[cell.arm].layers * cell.width)
    return torch.randn(size, generator=numbers, dtype=torch.float64)


EXPERIMENT: Experiment = ValueTables()
