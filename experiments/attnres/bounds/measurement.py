"""Measure the networks of `attnres-bounds`: at the start, at their worst, and trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, nan, sqrt
from operator import attrgetter
from statistics import fmean, linear_regression
from typing import ClassVar

from experiments.attnres.bounds.probe import NAME as SHARPNESS
from experiments.attnres.networks import growing, read_norms, reads
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import longest_first, measured, results
from experiments.training import magnitude_probe
from experiments.training.arms import Arm, PromptSource
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.stacks import train_stacked
from icl.recipe import Recipe
from theory.attnres.bounds import read_bounds
from theory.attnres.growth import extremal
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.plans.presets import llama
from theory.plans.setting import Setting

FULL = "attnres"
RULES = {  # of reading over depth, and the words for them
    BASELINE: "PreNorm",
    FULL: "Full",
    "attnres-block:size=4": "Block of 4 sublayers",
    "attnres-block:blocks=8": "8 blocks",
}
PRESET_STD = 0.02
STARTS = {"start": False, "scaled": True}  # initial weights, and whether outputs are scaled by depth
TRAINED = (BASELINE, FULL, "attnres-block:size=4")  # eight blocks are Full itself in the shallow of these
SHARPENED = (BASELINE, FULL)  # whose sublayers' bounds are looked at before and after training, at the largest depth
KINDS = ("attention", "SwiGLU", "GELU")  # of sublayers
QUERY = 1e6  # long enough to pick one of a hundred directions round a circle


@dataclass(frozen=True, kw_only=True)
class Config:
    """The networks that are looked at.

    Attributes:
        sizes: Of the networks at their start, at each of `depths` layers.
        std: Deviation of initial matrices and embeddings; outputs as these, and scaled by depth.
        preset: Sizes as a preset has them, started as it is: PRESET_STD, outputs scaled by depth.
        tokens: The different tokens of a prompt.
        widths: Of the sublayers whose bounds are compared with what inputs attain; deviation 1 / sqrt(width).
        random: Random inputs of a sublayer.
        ascents: Ascents from some of these, of `steps` steps.
        trained: Sizes of the networks that are trained on in-context regression, at each of `trained_depths` layers.
        held_out_prompts: Prompts on which these are measured.
    """

    sizes: Architecture
    depths: tuple[int, ...]
    std: float
    preset: Architecture
    tokens: int
    widths: tuple[int, ...]
    random: int
    ascents: int
    steps: int
    trained: Architecture
    trained_depths: tuple[int, ...]
    trained_seeds: int
    recipe: Recipe
    task: Setting
    held_out_prompts: int


def cell(rule: str, depth: int) -> str:
    """Return how results name a rule at a number of layers."""
    return f"{rule}/{depth}"


def at_start(config: Config, depth: int) -> Architecture:
    """Return the sizes of a network at its start; norms have eps = 0, as the closed form has it."""
    return replace(config.sizes, n_layers=depth, norm_eps=0.0)


def attaining(depth: int) -> Architecture:
    """Return the sizes of a network whose every read is as large as it can be: one head, as wide as the model."""
    return replace(llama(d_model=4, n_heads=1, n_layers=depth, d_ff=2, vocab=2, context=2), norm_eps=0.0)


def one_layer(width: int) -> Architecture:
    """Return the sizes of the sublayers whose bounds are looked at: a LLaMA's, its feed-forward 8/3 of the width."""
    return llama(d_model=width, n_heads=4, n_layers=1, d_ff=8 * width // 3, vocab=2, context=2)


@dataclass(frozen=True)
class Start:
    """Networks of one seed at their start, one for each rule; their sublayers have the same weights."""

    config: Config
    kind: str
    depth: int
    seed: int

    @property
    def size(self) -> float:
        return self.depth * len(RULES)

    def measured(self, desk: Desk) -> Json:  # noqa: ARG002
        """Return, by rule, the mean square of the last read over lone tokens, and what bounds its norm, unscaled."""
        import torch

        from icl.models.decoder import Decoder

        sizes, tokens = at_start(self.config, self.depth), torch.arange(self.config.tokens)[:, None]
        scaled, outputs = STARTS[self.kind], list[float]()
        by_rule: Json = {}
        for rule in RULES:
            plan = resolve(rule, sizes.shape)
            model = Decoder(sizes, plan, seed=self.seed, std=self.config.std, scale_outputs=scaled).double()
            by_rule[rule] = {"square": float(reads(model, tokens)[-1].square().sum(-1).mean())}
            if scaled:
                continue
            outputs = outputs or magnitude_probe.output_bounds(model)
            embedding = float(model.get_parameter("stem.embedding.weight").detach().norm(dim=-1).max())
            by_rule[rule]["bound"] = read_bounds(sizes, plan, embedding, outputs=outputs)[-1]
        return by_rule


@dataclass(frozen=True)
class Preset:
    """PreNorm as a preset starts, on prompts of tokens that are all different."""

    sizes: Architecture
    seed: int

    @property
    def size(self) -> float:
        return self.sizes.n_layers

    def measured(self, desk: Desk) -> Json:  # noqa: ARG002
        """Return the mean square of the last read, by place in the prompt."""
        import torch

        from icl.models.decoder import Decoder

        sizes = self.sizes
        assert isinstance(sizes.stem, Tokens)
        model = Decoder(sizes, resolve(BASELINE, sizes.shape), seed=self.seed, std=PRESET_STD).double()
        tokens = torch.arange(sizes.stem.vocab).view(-1, sizes.context)
        return {"squares": reads(model, tokens)[-1].square().sum(-1).mean(0).tolist()}


@dataclass(frozen=True)
class Sharp:
    """One layer's sublayers at initial weights: attention and SwiGLU, or GELU where it is not gated."""

    config: Config
    width: int
    seed: int
    gated: bool

    size: ClassVar[float] = 32  # layers that are built in the time of one ascent

    def measured(self, desk: Desk) -> Json:  # noqa: ARG002
        """Return the norms of `Sharpness`, by kind."""
        from experiments.attnres.sharpness import sharpness
        from icl.models.decoder import Decoder
        from icl.probes.magnitude import sublayer_weights

        config, sizes = self.config, replace(one_layer(self.width), gated=self.gated)
        plan, std = resolve(BASELINE, sizes.shape), 1 / sqrt(self.width)
        model = Decoder(sizes, plan, seed=self.seed, std=std, scale_outputs=False).double()
        attention, feed_forward = sublayer_weights(model)
        kinds = {"attention": attention, "SwiGLU": feed_forward} if self.gated else {"GELU": feed_forward}
        effort = {"starts": config.ascents, "steps": config.steps, "draws": config.random, "seed": self.seed}
        return {kind: vars(sharpness(weights, **effort)) for kind, weights in kinds.items()}


def untrained(config: Config, seeds: int, run: RunFolder) -> Json:
    """Measure networks and sublayers at initial weights, by cell, or by kind and width, and seed."""
    starts = {
        f"{kind}/{depth}/{seed}": Start(config, kind, depth, seed=seed)
        for kind in STARTS
        for depth in config.depths
        for seed in range(seeds)
    }
    presets = {f"preset/{seed}": Preset(config.preset, seed) for seed in range(seeds)}
    sharp = {
        f"sharp/{width}/{seed}/{gated}": Sharp(config, width, seed, gated=gated)
        for width in config.widths
        for seed in range(seeds)
        for gated in (True, False)
    }
    items: dict[str, Start | Preset | Sharp] = {**starts, **presets, **sharp}
    size, label = attrgetter("size"), "attnres-bounds: at the start"
    records = results("start", longest_first(items, size), measured, run=run, label=label, size=size)
    norms: Json = {}
    for name, item in sharp.items():
        for kind, of_kind in records[name].items():
            norms.setdefault(f"{kind}/{item.width}", []).append(of_kind)

    def by_cell(kind: str, what: str) -> Json:
        return {
            cell(rule, depth): [records[f"{kind}/{depth}/{seed}"][rule][what] for seed in range(seeds)]
            for rule in RULES
            for depth in config.depths
        }

    return {
        **{kind: by_cell(kind, "square") for kind in STARTS},
        "start_bounds": by_cell("start", "bound"),
        "preset": [records[name]["squares"] for name in presets],
        "sharp": norms,
    }


def attained(config: Config) -> Json:
    """Return the last read of the worst networks with outputs of norm 1, by cell."""
    norms = {}
    for rule in RULES:
        for depth in config.depths:
            sizes = attaining(depth)
            plan = resolve(rule, sizes.shape)
            network = extremal(sizes, plan, 1.0, outputs=[1.0] * sizes.sublayers(plan))
            norms[cell(rule, depth)] = read_norms(growing(sizes, plan, network, query=QUERY))[-1]
    return norms


def trained(config: Config, run: RunFolder) -> Json:
    """Train networks of all depths, side by side, and measure them before and after."""
    source = PromptSource(*config.task.floats, config.held_out_prompts, scored="all")
    deepest = config.trained_depths[-1]

    def arm(rule: str, depth: int, seed: int) -> Arm:
        return Arm(
            architecture=replace(config.trained, n_layers=depth),
            variant=BASELINE if rule == TWIN else rule,
            source=source,
            recipe=config.recipe,
            seed=seed,
            twin=rule == TWIN,
            probes=(magnitude_probe.NAME, *([SHARPNESS] if rule in SHARPENED and depth == deepest else [])),
        )

    cells = [(rule, depth) for depth in reversed(config.trained_depths) for rule in (*TRAINED, TWIN)]
    by_seed = rounds(
        lambda seed: {at: arm(*at, seed) for at in cells},
        config.trained_seeds,
        run,
        label="attnres-bounds",
        train=train_stacked,
    )
    records = [record for arms in by_seed for record in arms.values()]
    return {
        "trained": {cell(*at): [arms[at]["magnitudes"]["end"] for arms in by_seed] for at in cells},
        "trained_from": {cell(*at): [largest(arms[at]["magnitudes"]["start"]) for arms in by_seed] for at in cells},
        "sharpened": {rule: [arms[rule, deepest]["probes"][SHARPNESS] for arms in by_seed] for rule in SHARPENED},
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "provenance": of_runs(records),
    }


def largest(magnitudes: Json) -> float:
    """Return the largest root mean square over a trained network's reads."""
    return max(magnitudes["read_rms"])


def slopes(prediction: Json, measurement: Json, rule: str) -> list[float]:
    """Return the power of the number of layers with which the largest read grows, by seed; nan where one diverged."""
    depths = prediction["trained_depths"]
    cells = (measurement["trained"][cell(rule, depth)] for depth in depths)
    return [
        linear_regression([log(depth) for depth in depths], [log(largest(x)) if x else nan for x in by_depth]).slope
        for by_depth in zip(*cells, strict=True)
    ]


def shares(measurement: Json, rule: str, when: str, kind: str, norms: Sequence[str]) -> list[list[float]]:
    """Return the largest of these norms over their bound, by seed and layer, of trainings that did not diverge."""
    records = [by_time[when][kind] for by_time in measurement["sharpened"][rule] if by_time[when]]
    return [
        [max(values) / bound for *values, bound in zip(*(x[name] for name in norms), x["bound"], strict=True)]
        for x in records
    ]


def mean_shares(measurement: Json, rule: str, when: str, kind: str, norm: str) -> list[float]:
    """Return the mean over layers of a norm over its bound, by seed."""
    return [fmean(layers) for layers in shares(measurement, rule, when, kind=kind, norms=(norm,))]
