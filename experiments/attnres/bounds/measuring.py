"""Networks at their start, networks that attain every bound, and sublayers whose inputs are made as bad as they get."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from operator import attrgetter

import torch

from experiments.attnres.bounds.points import PRESET_STD, RULES, STARTS, Config, at_start, attaining, cell, one_layer
from experiments.attnres.networks import growing, read_norms, reads
from experiments.attnres.sharpness import sharpness
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import longest_first, measured, results
from experiments.training import magnitude_probe
from icl.models.decoder import Decoder
from icl.probes.magnitude import AttentionWeights, sublayer_weights
from theory.attnres.bounds import read_bounds
from theory.attnres.growth import extremal
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve

QUERY = 1e6  # long enough to pick one of a hundred directions round a circle
BUILT = 32  # layers that are built in the time of one ascent


@dataclass(frozen=True)
class Start:
    """By rule of reading over depth, for networks of one seed, whose sublayers have the same weights: `square`, the
    mean square of the last read, over tokens that stand alone; with outputs as all else `bound`, what bounds its norm,
    from the weights."""

    config: Config
    kind: str
    depth: int
    seed: int

    @property
    def size(self) -> float:
        return self.depth * len(RULES)

    def measured(self, desk: Desk) -> Json:  # noqa: ARG002
        sizes, tokens = at_start(self.config, self.depth), torch.arange(self.config.tokens)[:, None]
        scaled, outputs = STARTS[self.kind], list[float]()
        found: Json = {}
        for rule in RULES:
            plan = resolve(rule, sizes.shape)
            model = Decoder(sizes, plan, seed=self.seed, std=self.config.std, scale_outputs=scaled).double()
            found[rule] = {"square": float(reads(model, tokens)[-1].square().sum(-1).mean())}
            if scaled:
                continue
            outputs = outputs or magnitude_probe.output_bounds(model)
            embedding = float(model.get_parameter("stem.embedding.weight").detach().norm(dim=-1).max())
            found[rule]["bound"] = read_bounds(sizes, plan, embedding, outputs)[-1]
        return found


@dataclass(frozen=True)
class Preset:
    """By place, mean squares of the last read of PreNorm as a preset starts, on prompts of tokens that are all
    different."""

    sizes: Architecture
    seed: int

    @property
    def size(self) -> float:
        return self.sizes.n_layers

    def measured(self, desk: Desk) -> Json:  # noqa: ARG002
        sizes = self.sizes
        assert isinstance(sizes.stem, Tokens)
        model = Decoder(sizes, resolve("vanilla", sizes.shape), seed=self.seed, std=PRESET_STD).double()
        tokens = torch.arange(sizes.stem.vocab).view(-1, sizes.context)
        return {"squares": reads(model, tokens)[-1].square().sum(-1).mean(0).tolist()}


@dataclass(frozen=True)
class Sharp:
    """Norms of sublayers' outputs, as `Sharpness` has them, by kind."""

    config: Config
    width: int
    seed: int
    gated: bool

    @property
    def size(self) -> float:
        return BUILT

    def measured(self, desk: Desk) -> Json:  # noqa: ARG002
        config = self.config
        given = {"starts": config.ascents, "steps": config.steps, "draws": config.random, "seed": self.seed}
        kinds = _sublayers(self.width, self.seed, gated=self.gated)
        return {kind: vars(sharpness(weights, **given)) for kind, weights in kinds.items()}


def measured_all(config: Config, seeds: int, run: RunFolder) -> Json:
    """start, scaled, start_bounds: of `Start`, by cell; preset: of `Preset`, by seed; sharp: of `Sharp`, by kind and
    width, and seed."""
    cells = [(rule, depth) for rule in RULES for depth in config.depths]
    starts = {
        f"{kind}/{depth}/{seed}": Start(config, kind, depth, seed)
        for kind in STARTS
        for depth in config.depths
        for seed in range(seeds)
    }
    presets = {f"preset/{seed}": Preset(config.preset, seed) for seed in range(seeds)}
    sharp = {
        f"sharp/{width}/{seed}/{gated}": Sharp(config, width, seed, gated)
        for width in config.widths
        for seed in range(seeds)
        for gated in (True, False)
    }
    items: dict[str, Start | Preset | Sharp] = {**starts, **presets, **sharp}
    size, label = attrgetter("size"), "attnres-bounds: at the start"
    found = results("start", longest_first(items, size), measured, run, label=label, size=size)
    norms: Json = {}
    for at in sharp:
        for kind, of_kind in found[at].items():
            norms.setdefault(f"{kind}/{sharp[at].width}", []).append(of_kind)

    def at_starts(kind: str, what: str) -> Json:
        return {
            cell(rule, depth): [found[f"{kind}/{depth}/{seed}"][rule][what] for seed in range(seeds)]
            for rule, depth in cells
        }

    return {
        **{kind: at_starts(kind, "square") for kind in STARTS},
        "start_bounds": at_starts("start", "bound"),
        "preset": [found[at]["squares"] for at in presets],
        "sharp": norms,
    }


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


def _sublayers(width: int, seed: int, *, gated: bool) -> Json:
    sizes = replace(one_layer(width), gated=gated)
    model = Decoder(sizes, resolve("vanilla", sizes.shape), seed=seed, std=1 / sqrt(width), scale_outputs=False)
    attention, feed_forward = sublayer_weights(model.double())
    assert isinstance(attention, AttentionWeights)
    return {"attention": attention, "SwiGLU": feed_forward} if gated else {"GELU": feed_forward}
