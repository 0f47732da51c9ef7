"""Loss against compute: is depth attention ahead of PreNorm, by what factor, and what decides it?

Held at zero queries with norms of eps = 0, depth attention trains as PreNorm does, parameter for parameter
(`theory.attnres.gradients`, 1).  So whatever separates the two comes from eps, beside which its reads are small, or
from what its queries learn; both are varied here, one at a time, and the size of the initial weights, which decides how
small reads are.  Queries over depth are exempt from weight decay; what it would do is asked by the profile `decay`.
Each choice has a learning rate of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from experiments.attnres.compute.points import CHOICES, COMPUTE, LOSS, ON_DECAY, Config, arms, compute
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.by_width import trained_by_width
from experiments.training.campaign import TWIN
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import SCHEDULES, Recipe
from theory.plans.architecture import Architecture
from theory.plans.presets import llama

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

_RECIPE = Recipe(**{**SCHEDULES["skipv1-llama"].settings, "steps": 1, "batch": 8, "learning_rate": 8e-3, "clip": 1.0})
_LONG = Config(
    architecture=llama(d_model=48, n_heads=4, n_layers=3, d_ff=132, vocab=512, context=128),
    widths=(32, 48, 64, 80),
    tokens_a_parameter=20,
    data="stdlib",
    vocab=512,
    recipe=_RECIPE,
    tuning=Tuning(grid=(2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2), share=1.0, widenings=2),
    tuned=(32, 64),
    evaluations=20,
    held_out_windows=256,
)
_CPU = replace(
    _LONG,
    widths=(32, 48),
    tokens_a_parameter=5,  # a quarter of what is optimal
    tuned=(32,),
    tuning=Tuning(grid=(4e-3, 8e-3, 1.6e-2), share=1.0, widenings=1),
)
_TINY = replace(
    _LONG,
    architecture=llama(d_model=16, n_heads=2, n_layers=2, d_ff=44, vocab=512, context=32),
    widths=(8, 16),
    tokens_a_parameter=0.2,
    tuning=Tuning(),
    tuned=(8,),
    evaluations=5,
    held_out_windows=16,
)
_ON_GPU = replace(_RECIPE, batch=32, precision="bf16", compile=True)
PROFILES = {
    "smoke": Profile(config=_TINY, seeds=2, seconds=20, detects=None),
    "cpu": Profile(
        config=_CPU,
        seeds=4,
        seconds=1470,
        detects="about 0.06 nats a token, in models of up to 0.13 million parameters on a quarter of their tokens",
    ),
    "decay": Profile(
        config=replace(_CPU, choices=ON_DECAY),
        seeds=4,
        seconds=750,
        detects="as cpu, which does not ask about the decay of queries",
        grows=True,
    ),
    "long": Profile(
        config=_LONG,
        seeds=4,
        seconds=100_000,
        detects="about 0.01 nats a token, at every size that is finished",
        grows=True,
    ),
    "gpu": Profile(
        config=replace(_LONG, widths=(32, 48, 64, 80, 128, 192), tuned=(32, 64), recipe=_ON_GPU),
        seeds=4,
        seconds=20_000,
        detects="about 0.01 nats a token, at every size that is finished",
        grows=True,
        device="cuda",
        on_gpu=4,
    ),
    "gpu-tiny": Profile(
        config=replace(
            _TINY,
            recipe=replace(_ON_GPU, batch=8, accumulate=2),
            tuning=Tuning(grid=(4e-3, 1.6e-2), share=0.5, widenings=1),
        ),
        seeds=2,
        seconds=190,
        detects=None,  # it takes the gpu profile's path with tiny models
        grows=True,
    ),
}


class Compute:
    name = "attnres-compute"
    title = "Loss against compute: PreNorm, Block and Full, and what decides which is ahead"
    caption = (
        "(a) Held-out loss over FLOPs. (b) PreNorm's compute for the same loss over one's own: ours, then the "
        "paper's, from printed losses. (c) Differences by size; the last row is no effect. (d) Losses less "
        "PreNorm's; points: another learning rate, so the end only. 95 % over paired seeds, in (c) for all at once."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (LOSS, COMPUTE)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.sizes(width, config.vocab) for width in config.widths]

    def predict(self, config: Config) -> Json:
        from experiments.attnres.compute.predicting import printed_factors, shrunk

        return {
            "assumes": "of the paper: that its signs, of 194M to 528M parameters, hold here; of theory: nothing but "
            "exact arithmetic, as what is rounded differently drifts apart in training",
            "source": "Attention Residuals, summary and Table 2; theory.attnres.gradients, .zero_query, .initial; "
            "that eps and the queries' rate decide was found in an exploration on two seeds, and is tested on others",
            "statistic": "held-out loss in nats a token at the last step, paired differences; factor in compute: FLOPs "
            "of the PreNorm model that does as well over one's own, PreNorm's losses being joined by straight lines in "
            "the logarithm of FLOPs, by inverting the paired test",
            "rule": "a sign: the family-wise 95 % interval excludes zero on the predicted side, and that of PreNorm "
            "against a twin with other initial weights does not; no difference: the interval is within 0.03 of zero, "
            "and that of Full less PreNorm is not; a factor: the interval of its logarithm holds the mean of the "
            "paper's five, give or take half their range, and is narrower than it",
            "text": f"{config.tokens_a_parameter:g} tokens a parameter of PreNorm, at most one epoch",
            "tuning": config.tuning_in_words(),
            "choices": {name: choice.told() for name, choice in CHOICES.items() if name in config.choices},
            "compared": [asdict(pair) for pair in config.pairs()],
            "printed": printed_factors(),
            "shrunk": {str(width): shrunk(config, width, config.vocab) for width in config.widths},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        found = trained_by_width(
            config, read, partial(arms, read.source, choices=config.choices), seeds, run, self.name
        )
        for width, about in [*found["widths"].items(), *found["ahead"].items()]:
            about["compute"] = {name: compute(config, name, int(width), read.vocab) for name in (*config.choices, TWIN)}
        return found

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.attnres.compute.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.attnres.compute.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Compute()
