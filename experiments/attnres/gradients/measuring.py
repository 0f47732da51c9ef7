"""Gradients at the reads of decoders with random weights."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.attnres.gradients.points import OUTPUTS, Config, cell
from experiments.attnres.networks import read_squares
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from theory.plans.architecture import Architecture
from theory.plans.names import resolve


@dataclass(frozen=True)
class _Networks:
    sizes: Architecture
    rule: str
    outputs: str
    std: float
    seeds: int


def squares(config: Config, seeds: int, run: RunFolder) -> Json:
    """By cell and seed: at every read, the square of the gradient's norm, of a loss that is linear in the scores."""
    items = {cell(*at): _Networks(config.exact, *at, seeds) for at in config.cells()}
    found = results("gradients", items, _squares, run, label="attnres-gradients", size=lambda one: one.seeds)
    return {at: found[at]["squares"] for at in items}


def _squares(one: _Networks, desk: Desk) -> Json:
    plan, of_seeds = resolve(one.rule, one.sizes.shape), []
    for seed in range(one.seeds):
        desk.report(seed)
        of_seeds.append(read_squares(one.sizes, plan, seed, one.std, scale_outputs=OUTPUTS[one.outputs]))
    return {"squares": of_seeds}
