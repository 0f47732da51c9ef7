"""How large hidden states and gradients get with depth: PreNorm against Attention Residuals, Full and Block.

Theory (`theory.attnres.bounds`): what a sublayer puts out is bounded by its weights, so what Full AttnRes reads is
bounded whatever the depth, what Block reads by its blocks' length, and what PreNorm reads by the sum over all
sublayers.  These are bounds; that trained networks behave so, and that gradients get more uniform, is the paper's
observation, tested here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.attnres.magnitude.points import (
    CLAIM,
    RULES,
    Config,
    cell,
)
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training import magnitude_probe
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.comparing import Asked, names_of_own
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Tokens
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

PROBES = (magnitude_probe.NAME,)

_SMALL = llama(d_model=32, n_heads=2, n_layers=12, d_ff=64, vocab=512, context=32)
_TINY = llama(d_model=16, n_heads=2, n_layers=2, d_ff=32, vocab=512, context=16)
_CPU = Recipe(steps=100, batch=8, learning_rate=4e-3, log_every=10)
# Trained in bf16 and compiled; probes are in fp32 and not compiled.  A compiler unrolls what is read: 1,225 sources in
# Full AttnRes' reads at 24 layers, 18,721 at 96.  To trace 630 took 25 to 57 s on a busy core, before it made any code.
# So Full at 48 layers and more is not compiled; all else is.
_GPU = Recipe(steps=400, batch=16, accumulate=2, learning_rate=1e-3, log_every=10, precision="bf16", compile=True)
PROFILES = {
    "smoke": Profile(
        config=Config(architecture=_TINY, depths=(2, 4), data="stdlib", vocab=512, recipe=replace(_CPU, steps=10)),
        seeds=2,
        seconds=20,
        detects=None,
    ),
    "cpu": Profile(
        config=Config(architecture=_SMALL, depths=(12, 24, 48), data="stdlib", vocab=512, recipe=_CPU),
        seeds=3,
        seconds=300,
        detects="a violated bound, and a tenth of the growth, in narrow and briefly trained networks",
    ),
    "gpu": Profile(
        config=Config(
            architecture=llama(d_model=512, n_heads=8, n_layers=12, d_ff=1376, vocab=16_384, context=512),
            depths=(12, 24, 48, 96),
            data="stdlib",
            vocab=16_384,
            recipe=_GPU,
            unrolled=2000,
        ),
        seeds=3,
        seconds=9000,
        detects="a violated bound, and a tenth of the growth",
        grows=True,
        device="cuda",
        on_gpu=2,
    ),
    "gpu-tiny": Profile(
        config=Config(
            architecture=_TINY,
            depths=(1, 2),
            data="stdlib",
            vocab=512,
            recipe=replace(_GPU, steps=20, batch=8),
            unrolled=6,  # those of Full's reads at one layer
        ),
        seeds=2,
        seconds=250,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


class ScaleMagnitude:
    name = "scale-magnitude"
    title = "Hidden states and gradients by depth: PreNorm against Attention Residuals"
    caption = (
        "Root mean squares of what sublayers read, over depth: (a) at the start, with PreNorm's divided by the "
        "number of sources (dotted), and (b) trained, under the bounds that follow from the weights (thin). (c) The"
        " largest read over the number of layers, markers moved apart, with its bound (thin). (d) The gradient of "
        "what layers put out (thick) and of their parameters (thin, without band), each over its geometric mean "
        "over depth. Geometric means of the seeds that did not diverge; bands and intervals: 95 % over them, of "
        "logarithms. Lines join whole reads and layers."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [_deep(config.architecture, depth) for depth in config.depths]

    def comparing(self, config: Config, own: tuple[Asked, ...]) -> Config:
        return replace(config, own=own)

    def predict(self, config: Config) -> Json:
        from theory.attnres.bounds import start_scale
        from theory.plans.names import resolve

        def scale(rule: str, depth: int) -> list[float]:
            architecture = _deep(config.architecture, depth)
            return start_scale(architecture, resolve(rule, architecture.shape))

        rules = (BASELINE,) if config.own else RULES
        return {
            "assumes": "norms before every sublayer, softmax attention over a layer's own values, no biases",
            "source": "theory.attnres.bounds; Attention Residuals, summary: bounded magnitudes, more uniform gradients",
            "statistic": "growth: log of the last read's rms norm over the first's, after training, and what training "
            "adds to it; unevenness: standard deviation of the log gradient norm, of layers' parameters and of what "
            "sublayers put out, through all that reads it, after training; all as paired differences to PreNorm",
            "rule": "bounds and identities must hold; an effect: the family-wise 95 % interval excludes zero on the "
            "predicted side, and that of PreNorm against a twin with other initial weights does not",
            "tuning": Tuning().described(),
            "depths": list(config.depths),
            "start_scale": {rule: {str(n): scale(rule, n) for n in config.depths} for rule in rules},
            **names_of_own(config.own),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        stem = Tokens(read.vocab)
        # The longest first, so that none is left to run alone at the end.
        own = {variant.name: variant for variant in config.own}
        rules = (*own, BASELINE) if own else tuple(reversed(RULES))
        arms = [(rule, depth) for depth in reversed(config.depths) for rule in (*rules, TWIN)]

        def arm(rule: str, depth: int, seed: int) -> Arm:
            sizes, named = replace(_deep(config.architecture, depth), stem=stem), BASELINE if rule == TWIN else rule
            sizes, plan = own[rule].on(sizes) if rule in own else (sizes, named)
            made = Arm(
                architecture=sizes,
                variant=plan,
                source=read.source,
                recipe=config.recipe,
                seed=seed,
                twin=rule == TWIN,
                probes=PROBES,
                label=rule if rule in own else "",
            )
            return replace(made, recipe=config.trained(sizes, made.plan))

        by_seed = rounds(lambda seed: {a: arm(*a, seed) for a in arms}, seeds, run, self.name)
        records = [record for r in by_seed for record in r.values()]
        return {
            "seeds": len(by_seed),
            "magnitudes": {cell(rule, n): [r[rule, n]["magnitudes"] for r in by_seed] for rule, n in arms},
            "loss": {cell(rule, n): [r[rule, n]["loss"] for r in by_seed] for rule, n in arms},
            "d_model": config.architecture.d_model,
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.attnres.magnitude.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.attnres.magnitude.figure import draw

        return draw(prediction, measurement)


def _deep(architecture: Architecture, depth: int) -> Architecture:
    return replace(architecture, n_layers=depth)


EXPERIMENT: Experiment = ScaleMagnitude()
