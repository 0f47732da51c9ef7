"""Uptraining: what trained MHA costs and saves as SkipV1Former (section 5.1, figures 8 and 10), paired and tuned.

MHA and SkipV1Former are trained from scratch.  What MHA has learned is then made into SkipV1Former, by all ways there
are, and into other variants, and trained on for a share of the tokens; so is MHA itself, which is what shows whether
conversion gains anything: more tokens lower any loss.  Two profiles do so with grouped queries and with a latent
(section 5.2), by the ways that have a meaning there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.uptraining.points import FORMS, MHA, PRINTED, WAYS, Config, kind_of_heads
from experiments.store.folders import Json
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import SCHEDULES, Recipe
from theory.plans.names import gqa, mla
from theory.plans.presets import llama
from theory.skipv1.conversion import DISTANCES, distance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

UPTRAINING, FIRST, DISTANCE = "skipv1.uptraining", "skipv1.conversion-first-loss", "skipv1.conversion-distance"
NO_EPS = 1e-12  # of norms: depth attention with zero queries is then PreNorm
SHARE = 0.15  # of the tokens from scratch, the most that the paper names; up to whole evaluations

_RECIPE = Recipe(
    **{**SCHEDULES["skipv1-llama"].settings, "steps": 1300, "batch": 8, "learning_rate": 8e-3, "clip": 1.0},
    log_every=20,
)
_SMALL = Config(
    architecture=replace(llama(d_model=48, n_heads=8, n_layers=3, d_ff=132, vocab=512, context=128), norm_eps=NO_EPS),
    recipe=_RECIPE,
    share=SHARE,
    tuning=Tuning(grid=(4e-3, 8e-3, 1.6e-2), share=1.0, widenings=1),
    uptuning=Tuning(grid=(1e-3, 2e-3, 4e-3, 8e-3), share=1.0, widenings=2),
    data="stdlib",
    vocab=512,
    held_out_windows=256,
    evaluations=10,
)
_GROUPED = replace(_SMALL, architecture=gqa(_SMALL.architecture), chosen=FORMS)
_LATENT = replace(_SMALL, architecture=mla(_SMALL.architecture, width=16, rope=4), chosen=FORMS)
_LONG = replace(  # 20 tokens a parameter
    _SMALL,
    architecture=replace(llama(d_model=64, n_heads=8, n_layers=4, d_ff=176, vocab=512, context=128), norm_eps=NO_EPS),
    recipe=replace(_RECIPE, steps=2700, batch=16),
    tuning=Tuning(grid=(2e-3, 4e-3, 8e-3, 1.6e-2), share=1.0, widenings=2),
)
_TINY = replace(
    _SMALL,
    architecture=replace(llama(d_model=16, n_heads=4, n_layers=2, d_ff=44, vocab=512, context=32), norm_eps=NO_EPS),
    recipe=replace(_RECIPE, steps=20, log_every=10),
    tuning=Tuning(),
    uptuning=Tuning(),
    held_out_windows=16,
    evaluations=3,
)
_ON_GPU = replace(_RECIPE, batch=64, precision="bf16", compile=True, steps=4800)
_SMALLEST = "nats a token at the end and 0.3 at first, in models of 0.13 million parameters on a half of their tokens"
PROFILES = {
    "smoke": Profile(config=_TINY, seeds=2, seconds=15, detects=None),
    "cpu": Profile(config=_SMALL, seeds=3, seconds=1200, detects=f"0.03 {_SMALLEST}"),
    "grouped": Profile(config=_GROUPED, seeds=3, seconds=800, detects=f"0.05 {_SMALLEST}", grows=True),
    "latent": Profile(config=_LATENT, seeds=3, seconds=800, detects=f"0.02 {_SMALLEST}", grows=True),
    "long": Profile(
        config=_LONG,
        seeds=3,
        seconds=9000,
        detects="about 0.01 nats a token at the end and 0.2 at first, in models of 0.27 million parameters",
        grows=True,
    ),
    "gpu": Profile(
        config=replace(
            _LONG,
            architecture=replace(
                llama(d_model=256, n_heads=8, n_layers=8, d_ff=704, vocab=4096, context=256), norm_eps=NO_EPS
            ),
            vocab=4096,
            recipe=_ON_GPU,
            tuning=Tuning(grid=(1e-3, 2e-3, 4e-3), share=1.0, widenings=1),
            uptuning=Tuning(grid=(2.5e-4, 5e-4, 1e-3, 2e-3), share=1.0, widenings=1),
        ),
        seeds=3,
        seconds=9000,
        detects="about 0.01 nats a token at the end, in models of 8 million parameters",
        grows=True,
        device="cuda",
        on_gpu=2,
    ),
    "gpu-tiny": Profile(
        config=replace(
            _TINY,
            recipe=replace(_ON_GPU, steps=20, batch=8, accumulate=2, log_every=10),
            uptuning=Tuning(grid=(1e-3, 4e-3), share=1.0, widenings=0),
        ),
        seeds=2,
        seconds=150,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


class Uptraining:
    name = "scale-uptrain"
    title = "Uptraining: trained MHA made into SkipV1Former and others, and trained on"
    caption = (
        "(a) What each conversion of MHA adds to layer 2's attention; blue: independent heads. (b) First losses "
        "less MHA's. (c) Losses while trained on, at MHA's (thick) rate; at another the beginning and end only; "
        "bands: the difference to MHA. (d) The end. 95 % over paired seeds, in (d) for all of one beginning."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (UPTRAINING, FIRST, DISTANCE)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        sizes, kind = config.architecture, kind_of_heads(config.architecture)
        heads = sizes.kv_heads  # with its part of the output projection, for all its queries
        known = DISTANCES if sizes.latent is None else ()
        return {
            **({} if kind == MHA else {"of": kind}),
            "assumes": "of the paper: that what it finds of 125M to 355M parameters holds here; of theory: that heads "
            "of a trained layer are as independent as initial ones and alike, that values of layer 1 are as large as "
            "other layers', and that a loss is the higher the further a layer is from what was trained",
            "source": "SkipV1Former, sections 5.1, 6.4, B.1, figures 8 and 10; theory.skipv1.conversion",
            "statistic": "held-out loss in nats a token, paired differences: of first losses, before anything is "
            "trained on, and of losses at the end",
            "rule": "a sign: the family-wise 95 % interval excludes zero on the predicted side, and that of a "
            "difference that is not there does not: of vanilla trained on with the text in another order, else, of "
            "what begins with other weights, of vanilla's twin; begins as the trained function: no seed's first loss "
            "is further than 0.001 nats from vanilla's, and that of `mean` is",
            "tuning": f"{config.tuning.described()}, from scratch; {config.uptuning.described('choice')}, trained on, "
            "with a model that is not compared",
            "share": config.share,
            "ways": list(WAYS),
            "printed": list(PRINTED),
            "choices": {n: {"variant": c.variant, "how": c.how, "exact": c.exact} for n, c in config.choices.items()},
            "distances": {how: [float(distance(how, heads, heads // 2, Fraction(r))) for r in (0, 1)] for how in known},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.skipv1.uptraining.measuring import measured

        return measured(config, seeds, run, self.name)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.skipv1.uptraining.verdicts import verdicts

        return list(verdicts(prediction, measurement, UPTRAINING, FIRST, DISTANCE))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.skipv1.uptraining.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Uptraining()
