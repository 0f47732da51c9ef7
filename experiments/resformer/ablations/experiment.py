"""ResFormer's ablations: what the residual carries, from which layer, and with which weight (Figs. 6, 7, 9, 16, 17).

Decoders that differ in one choice, trained on the same text from the same initial weights, each at a learning rate of
its own, chosen on shorter trainings; where two arms' rates differ, their pair says so, as what separates them may be
the rate.  Which mapping carries the values (Fig. 8) is `resformer-mapping`'s question.  Beside the losses: how much of
what each layer attends over is layer 1's values in the end, for fixed and for learned weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.ablations.points import (
    CLAIMS,
    PROBED,
    TIE,
    TOY,
    Config,
    arms,
    by_the_paper,
    by_the_toy,
    toy_shares,
)
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.tuning import Tuning, tuned
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.plans.architecture import Tokens
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

PROBE = "experiments.resformer.ablations.probe:probe"

_TINY = llama(d_model=8, n_heads=2, n_layers=3, d_ff=16, vocab=512, context=16)
_SMALL = llama(d_model=64, n_heads=4, n_layers=5, d_ff=176, vocab=512, context=64)
_CPU = Recipe(steps=160, batch=8, learning_rate=4e-3, log_every=20)
_GPU = Recipe(steps=1000, batch=64, learning_rate=2e-3, precision="bf16", compile=True, log_every=20)
PROFILES = {
    "smoke": Profile(
        config=Config(
            architecture=_TINY,
            data="stdlib",
            vocab=512,
            recipe=replace(_CPU, steps=4, batch=2, log_every=2),
            tuning=Tuning(),
            held_out_windows=8,
        ),
        seeds=2,
        seconds=20,
        detects=None,
    ),
    "cpu": Profile(
        config=Config(
            architecture=_SMALL,
            data="stdlib",
            vocab=512,
            recipe=_CPU,
            tuning=Tuning(grid=(4e-3, 8e-3, 16e-3), share=1.0),
        ),
        seeds=3,
        seconds=480,
        detects="about 0.06 nats a token, in small and briefly trained models",
    ),
    "gpu": Profile(
        config=Config(
            architecture=llama(d_model=512, n_heads=8, n_layers=12, d_ff=1376, vocab=16_384, context=512),
            data="stdlib",
            vocab=16_384,
            recipe=_GPU,
            tuning=Tuning(grid=(1e-3, 2e-3, 4e-3), share=0.2),
            held_out_windows=256,
        ),
        seeds=3,
        seconds=13_000,
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
            tuning=Tuning(grid=(1e-3, 4e-3), share=0.5, widenings=1),
            held_out_windows=8,
        ),
        seeds=2,
        seconds=190,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


class ResFormerAblations:
    name = "resformer-ablations"
    title = "What a residual carries, from which layer, with which weight (ResFormer, Figs. 6, 7, 9, 16, 17)"
    caption = (
        "Held-out losses less vanilla's, or less what is named: (a) what is carried from layer 1, (b) from which "
        "layer, (c) with which weight. Under each name stands which side of zero the paper and the toy have it on, "
        "as far as they say, and the two learning rates where a pair has not one; crosses are the paper's numbers. "
        "vanilla's twin, of other initial weights, is no effect: what it differs by is chance. Intervals: 95 % over"
        " paired seeds for all pairs of the figure at once. (d) The share of what heads attend over that is layer "
        "1's, by root mean square, moved apart, 95 % over seeds; lines join whole layers for the eye."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (*CLAIMS, TOY)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        layers, shares = config.architecture.n_layers, toy_shares(config.architecture)
        return {
            "assumes": "of the paper: that signs which it gives for 82M parameters and 20B tokens hold at this size; "
            "of the toy: all that it assumes, and that a better in-context learner is a better language model",
            "source": "ResFormer, sections 4.2, 4.3, 4.6 and 4.8; theory.toy.width at two layers, with as many heads "
            "and on a task as wide as the model",
            "statistic": "held-out loss in nats a token at the last step; its mean paired difference to another arm's",
            "rule": "the 95 % interval, for all pairs shown at once, lies on the predicted side of zero, and that of "
            f"vanilla to a twin with other initial weights does not; toys within {TIE:.0%} of the signal are a tie, of "
            "which nothing is expected.  Learned and sparse weights are in no figure of the paper: no prediction",
            "tuning": config.tuning.described(),
            "std": config.std,
            "compared": [asdict(pair) for pair in (*by_the_paper(layers), *by_the_toy(shares))],
            "toy": shares,
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        architecture = replace(config.architecture, stem=Tokens(read.vocab))
        variants = arms(architecture.n_layers)

        def arm(name: str, seed: int, rate: float = config.recipe.learning_rate, *, probed: bool = True) -> Arm:
            return Arm(
                architecture=architecture,
                variant=variants[BASELINE if name == TWIN else name],
                source=read.source,
                recipe=replace(config.recipe, learning_rate=rate),
                seed=seed,
                std=config.std,
                twin=name == TWIN,
                probes=(PROBE,) if probed and name in PROBED else (),
            )

        rates, tuning = tuned({name: arm(name, 0, probed=False) for name in variants}, config.tuning, run, self.name)
        rates[TWIN] = rates[BASELINE]
        by_seed = rounds(lambda seed: {name: arm(name, seed, rates[name]) for name in rates}, seeds, run, self.name)
        records = [record for r in by_seed for record in r.values()]
        return {
            "seeds": len(by_seed),
            "tuning": tuning,
            "loss": {name: [r[name]["loss"] for r in by_seed] for name in rates},
            "values": {name: [r[name]["probes"][PROBE]["end"] for r in by_seed] for name in PROBED},
            "parameters": {name: by_seed[0][name]["parameters"] for name in rates},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.resformer.ablations.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.resformer.ablations.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = ResFormerAblations()
