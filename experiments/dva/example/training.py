"""Layers that learn a table of meanings: decoders of one layer, in float64, on all pairs at once."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import torch

from experiments.dva.example.points import LAYERS, Config, Table, cell
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import longest_first, results
from icl.models.decoder import Decoder
from theory.plans.architecture import Architecture, Vectors
from theory.plans.plan import plan

RATE, STD = 0.02, 0.3


@dataclass(frozen=True)
class _Restarts:
    layer: str
    table: Table
    width: int
    count: int
    steps: int

    @property
    def numbers(self) -> int:
        """Of a projection to the heads, by which the time of a training goes."""
        adjectives, nouns = self.table
        return adjectives * nouns * self.width


def trained(config: Config, run: RunFolder) -> Json:
    """By training: the mean squared error that every restart ended with."""
    every = [_Restarts(*at, config.restarts, config.steps) for at in config.cells()]
    items = {cell(one.layer, one.table, one.width): one for one in every}
    in_order = longest_first(items, attrgetter("numbers"))
    found = results("table", in_order, _trained, run, label="dva-example", size=attrgetter("count"))
    return {name: found[name]["errors"] for name in items}


def _trained(one: _Restarts, desk: Desk) -> Json:
    errors = []
    for restart in range(one.count):
        desk.report(restart)
        errors.append(fit(one.layer, one.table, one.width, restart, one.steps))
    return {"errors": errors}


def decoder(layer: str, table: Table, width: int, seed: int) -> Decoder:
    """Wide enough in everything but its heads; what it puts out has a coordinate for each meaning."""
    made = LAYERS[layer]
    adjectives, nouns = table
    pairs = max(adjectives * nouns, adjectives + nouns)
    config = Architecture(
        d_model=2 * pairs,
        n_layers=1,
        n_heads=made.heads,
        head_dim=width // made.heads,
        d_ff=0,
        context=2,
        stem=Vectors(pairs),
        norm="none",
        positions="none",
    )
    how = plan(config.shape, dynamic=made.dynamic, feed_forward=False)
    return Decoder(config, how, seed=seed, std=STD, scale_outputs=False).double()


def pairs_of(table: Table) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs, adjective before noun, and their meanings: (m n, 2, size) and (m n, size), one-hot."""
    adjectives, nouns = table
    size = max(adjectives * nouns, adjectives + nouns)
    tokens, meanings = torch.eye(size, dtype=torch.float64), torch.eye(size, dtype=torch.float64)
    first = torch.arange(adjectives).repeat_interleave(nouns)
    second = adjectives + torch.arange(nouns).repeat(adjectives)
    return torch.stack([tokens[first], tokens[second]], dim=1), meanings[: adjectives * nouns]


def fit(layer: str, table: Table, width: int, seed: int, steps: int) -> float:
    """The mean squared error after so many steps: of Adam first, then of quasi-Newton, as many again."""
    model = decoder(layer, table, width, seed)
    inputs, meanings = pairs_of(table)

    def error() -> torch.Tensor:
        return (model(inputs)[:, 1] - meanings).square().sum(-1).mean()

    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(steps):
        adam.zero_grad()
        error().backward()
        adam.step()
    newton = torch.optim.LBFGS(model.parameters(), max_iter=steps, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        newton.zero_grad()
        loss = error()
        loss.backward()
        return loss

    newton.step(closure)
    return float(error().detach())
