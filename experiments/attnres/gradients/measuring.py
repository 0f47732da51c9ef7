"""Gradients at the reads of decoders with random weights."""

from __future__ import annotations

import torch

from experiments.attnres.gradients.points import OUTPUTS, Config, cell
from experiments.store.folders import Json
from experiments.store.progress import progress
from icl.models.decoder import Decoder
from icl.probes.gradients import gradients
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
                model = Decoder(config.exact, plan, seed=seed, std=std, scale_outputs=OUTPUTS[outputs]).double()
                tokens = torch.arange(config.tokens)[:, None]
                generator = torch.Generator().manual_seed(seed)
                direction = torch.randn(config.tokens, config.tokens, generator=generator).double()
                of = gradients(model, tokens, lambda answer, to=direction: (answer[:, 0] * to).sum())  # type: ignore[misc]
                of_seeds.append([float(b.square().sum()) for b in of.of_reads])
        at(len(cells) * seeds)
    return found
