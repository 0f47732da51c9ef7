"""Does the value residual keep attention from concentrating (Figs. 1, 10, 11 and 18 to 20)?

Of decoders trained on text whose every sequence begins with one and the same token, layer by layer, before training and
after it: the entropy of token importance (Eqn. (11), mended), the importance of the first token (attention sinks), the
length of its value (value-state drains) and of its state (residual-state peaks), and the similarity of tokens' states
(Eqn. (13)).  What uniform attention to the past has is the line that all is held against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.concentration.points import (
    CONCENTRATION,
    DRAINS,
    RESFORMER,
    SHORT,
    SIMILAR,
    SINKS,
    UNIFORM,
    Config,
    lengths,
    said_of,
)
from experiments.resformer.watched import SMALL, measured, profiles
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

PROBE = "experiments.resformer.concentration.probe:probe"

_CPU = Recipe(steps=1200, batch=8, learning_rate=6e-3, log_every=100)
PROFILES = profiles(
    Config,
    gpu=replace(_CPU, steps=4000, batch=64, learning_rate=2e-3, precision="bf16", compile=True),
    cpu=Profile(
        config=Config(architecture=SMALL, data="stdlib", vocab=512, recipe=_CPU, arms=(BASELINE, RESFORMER)),
        seeds=3,
        seconds=300,
        detects="about 0.05 nats of entropy and factors of 1.6 of the first token's importance, 1.3 of its value and "
        "1.8 of its state, in small and briefly trained models",
    ),
    gpu_seconds=7200,
    gpu_detects="about 0.1 nats of entropy and a factor of 1.3 of importance at twelve layers",
)


class ResFormerConcentration:
    name = "resformer-concentration"
    title = "Attention concentration, sinks, drains and peaks by layer (ResFormer, Figs. 1, 10, 11, 18 to 20)"
    caption = (
        "Trained models by layer, moved apart: (a) the entropy of how much attention each token receives, with "
        "uniform attention dotted; (b) the share of attention by position, mean over the layers from 2 on; (c) the "
        "norm of the first token's value and (d) of its state, over the mean of the others', dotted where they are "
        "equal. Crosses in (c) are the value that ResFormer's layer itself projects, before layer 1's is added, "
        "dash-dotted what would be left if that were 0. vanilla's twin has other initial weights: what it differs "
        "by is no effect. Means in (a), geometric means else; intervals and bands: 95 % over seeds, in (b) to (d) "
        "of logarithms. Lines join whole layers."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (UNIFORM, CONCENTRATION, SHORT, SINKS, DRAINS, SIMILAR)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        from math import log

        from theory.resformer.drains import seen_drain
        from theory.resformer.measures import entropy, uniform_causal_importance

        context = config.architecture.context
        uniform = {length: uniform_causal_importance(length) for length in lengths(context)}
        return {
            "assumes": "that what Figs. 1, 10, 18, 19 and 20 show of 82M models and larger ones holds at this size; "
            "before training, that weights of deviation 0.02 leave attention uniform",
            "source": "ResFormer, sections 4.1.3 and 4.5, appendices A.1 and A.2; theory.resformer.measures and drains",
            "statistic": "of each model the mean over layers from 2 on of a number by layer, ratios by their log; its "
            "mean over seeds, or its mean paired difference to vanilla",
            "rule": "before training what uniform attention has; an effect: the 95 % interval over seeds, family-wise "
            "over the arms, lies on the predicted side of zero, and that of vanilla's twin does not",
            "tuning": Tuning().described(),
            "lengths": lengths(context),
            "uniform_entropy": {str(length): entropy(share) for length, share in uniform.items()},
            "largest_entropy": {str(length): log(length) for length in uniform},
            "uniform_first": float(uniform[context][0]),
            "uniform_by_position": uniform[context].tolist(),
            "total_drain_seen": seen_drain(0.0, 1.0, 1.0),
            "signs": {said.key: said.sign for said in said_of(config.arms)},
            "together": -1,
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        return measured(config.arms, config, seeds, run, probe=PROBE, label=self.name)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.resformer.concentration.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.resformer.concentration.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = ResFormerConcentration()
