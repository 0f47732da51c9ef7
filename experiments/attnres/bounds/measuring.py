"""Networks at their start, networks that attain every bound, and sublayers whose inputs are made as bad as they get."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import torch

from experiments.attnres.bounds.points import PRESET_STD, RULES, STARTS, Config, at_start, attaining, cell, one_layer
from experiments.attnres.networks import growing, read_norms, reads
from experiments.attnres.sharpness import sharpness
from experiments.store.folders import Json
from experiments.store.progress import progress
from experiments.training import magnitude_probe
from icl.models.decoder import Decoder
from icl.probes.magnitude import AttentionWeights, sublayer_weights
from theory.attnres.growth import extremal
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve

QUERY = 1e6  # long enough to pick one of a hundred directions round a circle


def starts(config: Config, seeds: int) -> Json:
    """Mean squares of the last read, over tokens that stand alone, by seed; with outputs as all else, what bounds its
    norm, from the weights; and by place, as a preset starts."""
    found: Json = {kind: {cell(rule, depth): [] for rule in RULES for depth in config.depths} for kind in STARTS}
    cells = [
        (kind, rule, depth, seed)
        for kind in STARTS
        for rule in RULES
        for depth in config.depths
        for seed in range(seeds)
    ]
    bounds: Json = {at: [] for at in found["start"]}
    with progress("attnres-bounds: at the start", len(cells)) as at:
        for done, (kind, rule, depth, seed) in enumerate(cells):
            at(done)
            sizes = at_start(config, depth)
            plan = resolve(rule, sizes.shape)
            model = Decoder(sizes, plan, seed=seed, std=config.std, scale_outputs=STARTS[kind]).double()
            tokens = torch.arange(config.tokens)[:, None]
            found[kind][cell(rule, depth)].append(float(reads(model, tokens)[-1].square().sum(-1).mean()))
            if kind == "start":
                embedding = float(model.get_parameter("stem.embedding.weight").detach().norm(dim=-1).max())
                bounds[cell(rule, depth)].append(magnitude_probe.bounds(model, embedding)[-1])
        at(len(cells))
    return {**found, "start_bounds": bounds, "preset": [_by_place(config.preset, seed) for seed in range(seeds)]}


def _by_place(sizes: Architecture, seed: int) -> list[float]:
    """Mean squares of the last read of PreNorm, on prompts of tokens that are all different."""
    assert isinstance(sizes.stem, Tokens)
    model = Decoder(sizes, resolve("vanilla", sizes.shape), seed=seed, std=PRESET_STD).double()
    tokens = torch.arange(sizes.stem.vocab).view(-1, sizes.context)
    by_place: list[float] = reads(model, tokens)[-1].square().sum(-1).mean(0).tolist()
    return by_place


def attained(config: Config) -> Json:
    """The last read of networks of outputs of norm 1 that are as bad as any."""
    found = {}
    for rule in RULES:
        for depth in config.depths:
            sizes = attaining(depth)
            plan = resolve(rule, sizes.shape)
            network = extremal(sizes, plan, 1.0, [1.0] * sizes.sublayers(plan))
            found[cell(rule, depth)] = read_norms(growing(sizes, plan, network, QUERY))[-1]
    return found


def sharp(config: Config, seeds: int) -> Json:
    """By kind of sublayer, width and seed: norms of its output, as `Sharpness` has them."""
    found: Json = {}
    with progress("attnres-bounds: inputs", len(config.widths) * seeds * 2) as at:
        done = 0
        for width in config.widths:
            for seed in range(seeds):
                for gated in (True, False):
                    at(done)
                    done += 1
                    for kind, weights in _sublayers(width, seed, gated=gated).items():
                        norms = sharpness(
                            weights, starts=config.ascents, steps=config.steps, draws=config.random, seed=seed
                        )
                        found.setdefault(f"{kind}/{width}", []).append(vars(norms))
        at(done)
    return found


def _sublayers(width: int, seed: int, *, gated: bool) -> Json:
    sizes = replace(one_layer(width), gated=gated)
    model = Decoder(sizes, resolve("vanilla", sizes.shape), seed=seed, std=1 / sqrt(width), scale_outputs=False)
    attention, feed_forward = sublayer_weights(model.double())
    assert isinstance(attention, AttentionWeights)
    return {"attention": attention, "SwiGLU": feed_forward} if gated else {"GELU": feed_forward}
