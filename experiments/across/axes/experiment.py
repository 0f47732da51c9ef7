"""Further axes: does what the toy and the rungs of the ladder do survive prompts that nothing was trained on?

Models of the ladder (`experiments.across.ladder.rungs`) are trained on one law of prompts and tested on others: more
noise, inputs that are not normal, another covariance, tasks around a mean, longer prompts, a finite pool of tasks.  On
each the theory has exact predictions for its toys, for ridge regression and for the posterior mean.

What cannot be asked: a model with weights for positions reads no prompt longer than those of training, so length is
asked of models with rotary positions, which learn next to nothing unless they are wide; and on rungs with a residual
stream there is a path from the query to the output, so that what the toy does around W0 without one is not asked at
all.  Rates, lengths and initial weights are the ladder's.  At d = 2 a power law of the covariance is a spike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.across.axes.points import Config, Shift, Trained, places, sizes
from experiments.across.axes.verdicts import CLAIMS
from experiments.across.ladder.experiment import PROFILES as LADDER
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.comparing import Asked
from experiments.training.restarts import Restarts
from experiments.training.tuning import Finals, Tuning
from experiments.verdicts.checks import Judgement
from theory.plans.architecture import Architecture
from theory.plans.law import Law
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

_SPIKE, _AROUND = Law(spike=4), Law(w0=1.0)
PLAIN = Trained(
    name="plain",
    tests=(
        Shift(name="noise 0.5", sigma=0.5),
        Shift(name="noise 1", sigma=1.0),
        Shift(name="sphere", law=Law(inputs="sphere")),
        Shift(name="laplace", law=Law(inputs="laplace")),
        Shift(name="spike 4", law=_SPIKE),
        Shift(name="W0 = I", law=_AROUND),
    ),
)
ROTARY = Trained(
    name="plain, rotary",
    rotary=True,
    rungs=("6",),  # under linear scores rotary positions leave nothing to learn (`theory.toy.parity`)
    widths=(4.0,),  # and in narrower models next to nothing
    tests=(Shift(name="6 pairs", pairs=6), Shift(name="8 pairs", pairs=8), Shift(name="16 pairs", pairs=16)),
)
SPIKED = Trained(name="spike 4", law=_SPIKE, tests=(Shift(name="plain"),))
AROUND = Trained(name="W0 = I", law=_AROUND, tests=(Shift(name="plain"),))


def pools(*counts: int) -> tuple[Trained, ...]:
    """Tested on fresh tasks too.  With so much noise that ridge and the pool's posterior mean lie far apart."""
    fresh = (Shift(name="fresh tasks"),)
    return tuple(Trained(name=f"pool of {n}", law=Law(pool=n), tests=fresh, sigma=0.5) for n in counts)


_LADDER, _QUICK = (LADDER[profile].config for profile in ("cpu", "smoke"))
_SMOKE = Config(
    task=Setting(2, 4, 0.1),
    trained=(
        replace(PLAIN, tests=PLAIN.tests[:1]),
        replace(ROTARY, tests=ROTARY.tests[1:2]),
        replace(SPIKED, tests=()),
        *pools(4),
    ),
    rungs=("3", "6"),
    widths=(1.0,),
    variants=(BASELINE, "skipv1"),
    recipe=replace(_QUICK.recipe, log_every=10),
    lengths=(10, 20),
    held_out_prompts=512,
    tuning=Tuning(),
    gain=_QUICK.gain,
)
_CPU = replace(
    _SMOKE,
    trained=(PLAIN, SPIKED, AROUND, *pools(2, 16)),
    variants=(BASELINE, "svformer"),
    recipe=_LADDER.recipe,
    lengths=_LADDER.lengths,
    held_out_prompts=4096,
    tuning=_LADDER.tuning,
    restarts=replace(_LADDER.restarts, count=8),
    gain=_LADDER.gain,
)
_LONG = replace(
    _CPU,
    trained=(PLAIN, ROTARY, SPIKED, AROUND, *pools(2, 8, 32)),
    variants=(BASELINE, "skipv1", "svformer"),
    lengths=(16_000, 32_000),
    tuning=replace(_LADDER.tuning, share=0.125, finals=Finals(rates=2, trials=4)),
    doublings=1,
)
_GPU = replace(
    _LONG,
    trained=(PLAIN, ROTARY, SPIKED, AROUND, *pools(2, 4, 8, 16, 32, 64, 128)),
    widths=(1.0, 2.0),
    lengths=tuple(2 * steps for steps in _LADDER.lengths),
)
_TINY = replace(_SMOKE, tuning=Tuning(grid=(1e-2, 3e-2), share=0.5, widenings=1), restarts=Restarts(count=2, steps=10))
_NARROW = "0.07 of the signal, in half of the comparisons"
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=2, seconds=15, detects=None),
    "cpu": Profile(config=_CPU, seeds=16, seconds=1600, detects=_NARROW),
    "long": Profile(config=_LONG, seeds=16, seconds=7200, detects=_NARROW, grows=True),
    "gpu": Profile(config=_GPU, seeds=32, seconds=3600, detects=_NARROW, grows=True, device="cuda", on_gpu=4),
    "gpu-tiny": Profile(config=_TINY, seeds=2, seconds=30, detects=None, grows=True),
}


class Axes:
    name = "ladder-axes"
    title = "Trained on one law of prompts, tested on others: noise, covariance, W0, length, a pool of tasks"
    caption = (
        "(a), (b) Models of two rungs of the ladder, trained on one law of prompts (named first) and tested on "
        "another: the share of the test's signal that they explain, short bars the toy's, crosses Bayes'; triangles"
        " and intervals that are cut go on below. Plain: the theorem's law; noise: its deviation; sphere, laplace: "
        "the law of x; spike: the variance along one direction; W0: the mean of the tasks. (c), (d) Trained on a "
        "pool of tasks: loss on prompts of the pool, moved apart, beside the pool's posterior mean, ridge and the "
        "best linear step; lines join pools for the eye. Intervals: family-wise 95 % over seeds, mostly smaller "
        "than the marker."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = CLAIMS
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return list(dict.fromkeys(sizes(*place, config) for place in places(config)))

    def comparing(self, config: Config, own: tuple[Asked, ...]) -> Config:
        return replace(config, variants=(BASELINE,), own=own)

    def predict(self, config: Config) -> Json:
        from experiments.across.axes.predicting import predicted

        return predicted(config)

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.across.axes.measuring import measured

        return measured(config, seeds, run, self.name)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.across.axes.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.axes.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Axes()
