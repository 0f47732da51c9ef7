"""In-context regression in trained decoders: does what reaching back to layer 1 wins follow the toy, over the width?

The toy (`theory.toy.width`) has two layers of linear attention and a first layer that copies; the models here are
softmax decoders with norms and feed-forward, trained from random weights.  The toy says that at embedding width m = d
SkipV1Former, ResFormer and SVFormer explain up to four times as much as MHA, that the gap closes until m = 2d, and
that SkipV0 is MHA.  Nobody proved that it carries over; here is what happens.

At width d these models, trained once and briefly, learn nothing.  The ladder (`experiments.across.ladder`) says why:
where training ends is a lottery there.  Trained twenty times as long, the best of fifty starts, models of two layers
with softmax, norms and a feed-forward do learn, with SVFormer ahead by 0.8 of what the toy says.  What is left to this
experiment is what the ladder leaves out: losses by position, and widths of up to 4 d.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.across.gaps import KEPT
from experiments.across.icl.verdicts import CLAIM, cell
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.arms import Arm, PromptSource
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.comparing import TOY, Asked, names_of_own
from experiments.training.tuning import Tuning, tuned
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve
from theory.plans.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder


@dataclass(frozen=True, kw_only=True)
class Config:
    """widths: of the embedding, from d on; heads: of every layer; std: of the initial matrices, times sqrt(width); own:
    variants of a user's own, beside."""

    d: int
    n: int
    sigma: float
    widths: tuple[int, ...]
    layers: int
    heads: int
    variants: tuple[str, ...]
    recipe: Recipe
    held_out_prompts: int
    tuning: Tuning
    std: float = 1.0
    own: tuple[Asked, ...] = ()


VARIANTS = ("vanilla", "skipv1", "resformer", "svformer", "skipv0")
_CPU = Recipe(steps=1400, batch=128, learning_rate=0.02, warmup=0.05, floor=0.0, log_every=40)
_GPU = Recipe(
    steps=6000,
    batch=256,
    learning_rate=3e-3,
    warmup=0.05,
    floor=0.0,
    log_every=100,
    compile=True,
)
_GRID = Tuning(grid=(1e-3, 3e-3, 1e-2), share=0.2)
_TINY = replace(_GPU, steps=20, batch=8, log_every=10, accumulate=2)
_SMOKE = replace(_CPU, steps=60, batch=32, log_every=20)
_PAIR = ("vanilla", "skipv1")
PROFILES = {
    "smoke": Profile(
        config=Config(
            d=2,
            n=4,
            sigma=0.1,
            widths=(2, 8),
            layers=2,
            heads=2,
            variants=_PAIR,
            recipe=_SMOKE,
            held_out_prompts=512,
            tuning=Tuning(),
        ),
        seeds=2,
        seconds=12,
        detects=None,
    ),
    "cpu": Profile(
        config=Config(
            d=2,
            n=5,
            sigma=0.1,
            widths=(2, 4, 8),
            layers=3,
            heads=2,
            variants=VARIANTS,
            recipe=_CPU,
            held_out_prompts=4096,
            tuning=Tuning(),
        ),
        seeds=4,
        seconds=300,
        detects="about half of the signal: whether in-context learning sets in within so few steps varies from seed to "
        "seed",
    ),
    "gpu": Profile(
        config=Config(
            d=8,
            n=24,
            sigma=0.1,
            widths=(8, 16, 32),
            layers=12,
            heads=4,
            variants=VARIANTS,
            recipe=_GPU,
            held_out_prompts=16_384,
            tuning=_GRID,
        ),
        seeds=3,
        seconds=3600,
        detects="about a twentieth of the signal",
        grows=True,
        device="cuda",
        on_gpu=4,
    ),
    "gpu-tiny": Profile(
        config=Config(
            d=2,
            n=3,
            sigma=0.1,
            widths=(2, 4),
            layers=2,
            heads=2,
            variants=_PAIR,
            recipe=_TINY,
            held_out_prompts=512,
            tuning=Tuning(grid=(1e-2, 3e-2), share=0.5, widenings=1),
        ),
        seeds=2,
        seconds=120,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


def architecture(config: Config, width: int) -> Architecture:
    """A decoder whose embedding has `width` numbers for a task of width d."""
    return Architecture(
        d_model=width,
        n_layers=config.layers,
        n_heads=config.heads,
        d_ff=2 * width,
        context=2 * config.n + 1,
        stem=Vectors(config.d),
        positions="learned",
    )


class ScaleIcl:
    name = "scale-icl"
    title = "In-context regression in trained decoders against the toy, over the embedding width"
    caption = (
        "(a) Loss by the number of pairs seen, moved apart, under theory's curves. (b) The share of the signal "
        "explained with all pairs over the embedding width, and the toy's. (c) What is won against vanilla of the "
        "same seeds, and the toy's; vanilla with other initial weights is no effect. Small dots in (a) and (b), "
        "beside the markers, are single seeds: where they fall apart into several kinds, an interval of their mean "
        "says little, and may reach beyond what a loss or a share can be. Intervals: 95 % over seeds, in (c) paired"
        " and for all of a width at once. Lines join whole numbers for the eye."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [architecture(config, width) for width in config.widths]

    def comparing(self, config: Config, own: tuple[Asked, ...]) -> Config:
        return replace(config, variants=(BASELINE,), own=own)

    def predict(self, config: Config) -> Json:
        from experiments.drawing.curves import curves
        from theory.prompts import regression

        plans: dict[str, Plan | None] = {variant: resolve(variant, TOY) for variant in config.variants}
        plans |= {variant.name: variant.toy for variant in config.own}
        share = {v: {str(m): _explained(plan, config, m) for m in config.widths} for v, plan in plans.items()}
        task = (config.d, config.n, config.sigma)
        d, sigma = config.d, config.sigma
        return {
            "assumes": "W0 = 0; two layers of linear attention; Assumption 1 with the best division of the width",
            "source": "theory.toy.width, Theorem; theory.prompts.regression",
            "statistic": "share of E ||W*||^2 explained at the last position; its mean paired difference to vanilla",
            "rule": "an effect: its family-wise 95 % interval excludes zero, and that of vanilla against a twin with "
            f"other initial weights does not; a size: the interval holds it within {KEPT:g}, and is narrower; no "
            f"effect: the interval lies within {KEPT:g}; nothing is compared where no model explains as much",
            "tuning": config.tuning.described("variant and width"),
            "d": d,
            "n": config.n,
            "sigma": sigma,
            "widths": list(config.widths),
            "layers": config.layers,
            "zero_loss": regression.zero(d, sigma),
            "share": share,
            "gap": {v: _gap(by_width, share[BASELINE]) for v, by_width in share.items() if v != BASELINE},
            "curves": curves(*task),
            **names_of_own(config.own),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        source = PromptSource(config.d, config.n, config.sigma, config.held_out_prompts)

        own = {variant.name: variant for variant in config.own}

        def arm(variant: str, width: int, seed: int) -> Arm:
            named, sizes = BASELINE if variant == TWIN else variant, architecture(config, width)
            sizes, plan = own[variant].on(sizes) if variant in own else (sizes, named)
            return Arm(
                architecture=sizes,
                variant=plan,
                source=source,
                recipe=config.recipe,
                seed=seed,
                std=config.std * width**-0.5,
                twin=variant == TWIN,
                label=variant if variant in own else "",
            )

        pairs = [(v, m) for m in config.widths for v in (*config.variants, *own, TWIN)]
        trials = {cell(v, m): arm(v, m, 0) for v, m in pairs if v != TWIN}
        rates, tuning = tuned(trials, config.tuning, run, self.name)

        def with_rate(variant: str, width: int, seed: int) -> Arm:
            base, rate = arm(variant, width, seed), rates[cell(BASELINE if variant == TWIN else variant, width)]
            return replace(base, recipe=replace(base.recipe, learning_rate=rate))

        by_seed = rounds(lambda seed: {pair: with_rate(*pair, seed) for pair in pairs}, seeds, run, self.name)
        records = [record for round_ in by_seed for record in round_.values()]
        return {
            "seeds": len(by_seed),
            "tuning": tuning,
            "losses": {cell(v, m): [_by_position(r[v, m], "loss") for r in by_seed] for v, m in pairs},
            "stderr": {cell(v, m): [_by_position(r[v, m], "stderr") for r in by_seed] for v, m in pairs},
            "training": {cell(v, m): [r[v, m]["curve"] for r in by_seed] for v, m in pairs},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.across.icl.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.icl.figure import draw
        from experiments.across.icl.verdicts import intervals

        return draw(prediction, measurement, intervals(prediction, measurement))


def _explained(plan: Plan | None, config: Config, width: int) -> float | None:
    """The share that the toy explains; None where it has nothing to say."""
    from theory.toy.width import explained_share_at_width

    if plan is None:
        return None
    try:
        return explained_share_at_width(plan, config.d, config.n, config.sigma, width)
    except BadInput:
        return None


def _gap(share: Mapping[str, float | None], vanilla: Mapping[str, float | None]) -> dict[str, float | None]:
    return {m: None if x is None or (base := vanilla[m]) is None else x - base for m, x in share.items()}


def _by_position(record: Json, what: str) -> list[float] | None:
    """None where the training diverged."""
    return record["held_out"][what] if record["held_out"] else None


EXPERIMENT: Experiment = ScaleIcl()
