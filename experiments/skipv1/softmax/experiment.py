"""Softmax skip heads against any model of squeezed tokens: theory's weights, trained toys, and small Transformers.

`theory.skipv1.softmax`: no function of the tokens (A x ; B y) explains more than r floor(d^2/4) of W*, whatever its
architecture, and softmax skip heads at finite weights more than rho d^2.  Here such heads are given theory's weights,
and are trained beside ordinary softmax heads, both from near them; and a Transformer of two layers with feed-forward
and residual stream is trained on squeezed pairs and on raw ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.softmax.points import BUILT, SIGMA, TRANSFORMER, Config, Sweep
from experiments.store.folders import Json
from experiments.verdicts.checks import Judgement
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

_SHORT, _MIDDLE, _LONG = (Setting(2, n, SIGMA) for n in (2, 8, 16))
_THREE = Setting(3, 12, SIGMA)
_CURVES = ((2, (1, 2, 4, 8, 16, 32)), (3, (1, 2, 4, 12, 32)))
_LOGITS = (_SHORT, _MIDDLE)


def _heads(size: Setting, steps: int) -> Sweep:
    return Sweep(size=size, kinds=BUILT, steps=steps, learning_rate=0.03)


def _transformers(size: Setting, steps: int) -> Sweep:
    return Sweep(size=size, kinds=(TRANSFORMER,), steps=steps, learning_rate=0.01)


_DETECTS = "a compressed model that leaves less than it must by 5 % of the signal"
PROFILES = {
    "smoke": Profile(
        config=Config(
            sweeps=(_heads(_MIDDLE, 700),),
            curves=((2, (2, 8)),),
            logits=(_SHORT,),
            held_out=8_192,
            construction_prompts=32_768,
        ),
        seeds=4,
        seconds=20,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            sweeps=(
                _transformers(_MIDDLE, 800),
                *(_heads(size, 800) for size in (_LONG, _THREE, _MIDDLE, _SHORT)),
            ),
            curves=_CURVES,
            logits=_LOGITS,
            held_out=16_384,
            construction_prompts=65_536,
        ),
        seeds=6,
        seconds=50,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            sweeps=(
                *(_transformers(size, 6000) for size in (_MIDDLE, _THREE)),
                *(_heads(size, 6000) for size in (_LONG, _THREE, _MIDDLE, _SHORT)),
            ),
            curves=_CURVES,
            logits=_LOGITS,
            held_out=131_072,
            construction_prompts=1_048_576,
        ),
        seeds=10,
        seconds=1800,
        detects=_DETECTS,
    ),
}


class SkipV1Softmax:
    name = "skipv1-softmax"
    title = "Softmax skip heads against any model of squeezed tokens"
    caption = (
        "(a), (b) The share of the signal explained over the number of pairs, at two widths: blue lines are what "
        "theory's weights reach with one ordinary and one or two skip heads, dotted and grey what the posterior "
        "mean and linear skip heads reach, dashed what no model of squeezed tokens exceeds, so that none lies above"
        " the grey region. Hollow markers are trained, moved apart, 95 % over seeds, dots beside single seeds. (c) "
        "Theory's weights as their logits are scaled by epsilon, thick for the longer prompt; triangles are proved."
        " (d) The gap of the optima, SkipV1Former's less that of any model of squeezed tokens, at the least; the "
        "thin line marks three quarters. Lines join whole n."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = ("skipv1.any-architecture",)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        from experiments.skipv1.softmax.predictions import predictions

        return predictions(config)

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.skipv1.softmax.training import built_measured, train_arms

        return {"explained": train_arms(config, seeds, run), "constructions": built_measured(config, run)}

    def compare(self, prediction: Json, measurement: Json) -> list[Judgement]:
        from experiments.skipv1.softmax.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.skipv1.softmax.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = SkipV1Softmax()
