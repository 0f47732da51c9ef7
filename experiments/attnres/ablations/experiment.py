"""The paper's ablations of depth attention: decoders that differ in how they read over depth, and in nothing else.

All are trained on the same text from the same initial weights, each at a learning rate of its own, and, where it has
parameters over depth, at a rate of these of its own; where two arms' rates differ, their pair says so.  Norms have an
eps that is nothing beside what is read: with 1e-5 depth attention does not start as PreNorm (`attnres-compute`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from experiments.attnres.ablations.points import CLAIM, LOSS, Config, by_the_paper, trial
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.tuning import Tuning, tuned
from experiments.verdicts.checks import Judgement
from icl.recipe import SCHEDULES, Recipe
from theory.plans.architecture import Architecture
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

NO_EPS = 1e-12
_CPU = Recipe(**{**SCHEDULES["skipv1-llama"].settings, "steps": 800, "batch": 8, "learning_rate": 8e-3, "clip": 1.0})
_GPU = Recipe(steps=1000, batch=64, learning_rate=2e-3, precision="bf16", compile=True, log_every=20)


def _sizes(**sizes: int) -> Architecture:
    return replace(llama(vocab=512, **sizes), norm_eps=NO_EPS)


_TINY = _sizes(d_model=16, n_heads=2, n_layers=2, d_ff=16, context=16)
PROFILES = {
    "smoke": Profile(
        config=Config(
            architecture=_TINY,
            data="stdlib",
            vocab=512,
            recipe=replace(_CPU, steps=4, batch=2, log_every=2),
            tuning=Tuning(),
            depth_rates=(1.0,),
            held_out_windows=8,
        ),
        seeds=2,
        seconds=20,
        detects=None,
    ),
    "cpu": Profile(
        config=Config(
            architecture=_sizes(d_model=32, n_heads=4, n_layers=6, d_ff=88, context=64),
            data="stdlib",
            vocab=512,
            recipe=_CPU,
            tuning=Tuning(grid=(4e-3, 8e-3, 16e-3), share=0.5, widenings=1, seeds=2),
            depth_rates=(0.1, 1.0),
        ),
        seeds=8,
        seconds=2500,
        detects="about 0.04 nats a token, in small and briefly trained models",
    ),
    "gpu": Profile(
        config=Config(
            architecture=replace(
                llama(d_model=512, n_heads=8, n_layers=12, d_ff=1376, vocab=16_384, context=512), norm_eps=NO_EPS
            ),
            data="stdlib",
            vocab=16_384,
            recipe=_GPU,
            tuning=Tuning(grid=(1e-3, 2e-3, 4e-3), share=0.2),
            depth_rates=(0.1, 1.0),
            held_out_windows=256,
        ),
        seeds=3,
        seconds=16_000,
        detects="about 0.01 nats a token at twelve layers",
        grows=True,
        device="cuda",
    ),
    "gpu-tiny": Profile(
        config=Config(
            architecture=_TINY,
            data="stdlib",
            vocab=512,
            recipe=replace(_GPU, steps=4, batch=4, accumulate=2, log_every=2),
            tuning=Tuning(grid=(1e-3,), share=0.5),
            depth_rates=(0.1, 1.0),
            held_out_windows=8,
        ),
        seeds=2,
        seconds=190,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


class Ablations:
    name = "attnres-ablations"
    title = "How to read over depth: the ablations of Attention Residuals, as signs"
    caption = (
        "Differences of held-out losses (a) to PreNorm and (b) to the form that is altered, with the paper's "
        "printed differences, of 436 million parameters and one run each, as crosses. Under a name stands the "
        "learning rate of what weighs depth, where it is not that of all else, and both rates where a pair has not "
        "one; PreNorm with other initial weights is no effect: what it differs by is chance. Intervals: 95 % over "
        "paired seeds, for all pairs of the figure at once."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CLAIM, LOSS)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.architecture]

    def predict(self, config: Config) -> Json:
        rates = ", ".join(f"{rate:g}" for rate in config.depth_rates)
        return {
            "assumes": "that signs which the paper gives for 436M parameters, one run each, hold at this size",
            "source": "Attention Residuals, the ablation's table",
            "statistic": "held-out loss in nats a token at the last step; its mean paired difference to another arm's",
            "rule": "the 95 % interval, for all pairs shown at once, lies on the predicted side of zero, and that of "
            "PreNorm to a twin with other initial weights does not; what the paper prints is shown beside it",
            "tuning": f"{config.tuning.described()}; of what weighs outputs over depth at {rates} of it, the best kept",
            "compared": [{**asdict(pair), "sign": pair.sign} for pair in by_the_paper()],
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)

        def arm(name: str, seed: int, depth_rate: float) -> Arm:
            return config.arm(name, read.source, read.vocab, seed, depth_rate)

        names = list(config.variants())
        tried = {
            trial(name, rate): arm(name, 0, rate)
            for name in names
            for rate in (config.depth_rates if name != BASELINE else (1.0,))
        }
        rates, tuning = tuned(tried, config.tuning, run, self.name)
        chosen = {name: _best(name, config, tuning) for name in names}
        chosen[TWIN] = chosen[BASELINE]

        def rated(name: str, seed: int) -> Arm:
            made = arm(name, seed, chosen[name])
            rate = rates[trial(BASELINE if name == TWIN else name, chosen[name])]
            return replace(made, recipe=replace(made.recipe, learning_rate=rate))

        by_seed = rounds(lambda seed: {name: rated(name, seed) for name in (*names, TWIN)}, seeds, run, self.name)
        records = [record for r in by_seed for record in r.values()]
        return {
            "seeds": len(by_seed),
            "tuning": tuning,
            "depth_rates": chosen,
            "loss": {name: [r[name]["loss"] for r in by_seed] for name in (*names, TWIN)},
            "parameters": {name: by_seed[0][name]["parameters"] for name in names},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.attnres.ablations.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.attnres.ablations.figure import draw

        return draw(prediction, measurement)


def _best(name: str, config: Config, tuning: Json) -> float:
    """The rate of the depth rule's own parameters whose loss is lowest at its best learning rate; untuned, the last."""
    if name == BASELINE or not tuning["tuned"]:
        return config.depth_rates[-1] if name != BASELINE else 1.0

    def loss(rate: float) -> float:
        found = tuning["losses"][trial(name, rate)].values()
        return min((x for x in found if x is not None), default=float("inf"))

    return min(config.depth_rates, key=loss)


EXPERIMENT: Experiment = Ablations()
