"""Gradients at the reads of decoders with random weights."""

from __future__ import annotations

from experiments.attnres.gradients.points import OUTPUTS, Config, cell
from experiments.attnres.networks import read_squares
from experiments.store.folders import Json
from experiments.store.progress import progress
from theory.plans.names import resolve


def squares(config: Config, seeds: int) -> Json:
    """By cell and seed: at every read, the square of the gradient's norm, of a loss that is linear in the scores."""
    found: Json = {}
    cells = list(config.cells())
    with progress("attnres-gradients", len(cells) * seeds) as at:
        for done, (rule, outputs, std) in enumerate(cells):
            plan = resolve(rule, config.exact.shape)
            of_seeds = found[cell(rule, outputs, std)] = []
            for seed in range(seeds):
                at(done * seeds + seed)
                of_seeds.append(read_squares(config.exact, plan, seed, std, scale_outputs=OUTPUTS[outputs]))
        at(len(cells) * seeds)
    return found
