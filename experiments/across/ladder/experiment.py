"""The ladder: what does each ingredient of a trained decoder do to what the theorem's toy predicts?

The same task, in-context linear regression, and the same variants on every rung (`experiments.across.ladder.rungs`).
Compared is what is free of a rung's scale: the share of the signal explained over the width, what a variant is worth in
vanilla's width (`experiments.verdicts.worth`), and the order of the variants.  Nobody proved that the toy's numbers,
those of rung 1, carry over to any other rung; here is what happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.across.ladder.measuring import measured, together
from experiments.across.ladder.points import VARIANTS, Config, climbed
from experiments.across.ladder.rungs import INGREDIENTS, OF_OUR_OWN, ROTARY
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json, Unfinished
from experiments.training.campaign import BASELINE
from experiments.training.comparing import Asked
from experiments.training.restarts import Restarts
from experiments.training.tuning import Finals, Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

# Of rotary positions: to the first rung that has a residual stream, and to all that is added after it.
_ROTATED = (("residual", ROTARY), (*INGREDIENTS, ROTARY))
# Orders that pass through all sixteen sets of the four ingredients.
EVERY = (
    ("softmax", "norms", "feed-forward", "residual"),
    ("norms", "residual", "softmax", "feed-forward"),
    ("feed-forward", "softmax", "residual", "norms"),
    ("norms", "feed-forward", "residual", "softmax"),
    ("feed-forward", "residual", "norms", "softmax"),
    ("residual", "softmax", "feed-forward", "norms"),
)
_RECIPE = Recipe(
    steps=8000,
    batch=16,
    learning_rate=0.03,
    warmup=0.02,
    floor=0.0,
    decay="late",
    log_every=1000,
    compile=True,
    scale_outputs=False,
)
_RATES = Tuning(grid=(1e-3, 3e-3, 1e-2, 3e-2, 1e-1), share=0.25, seeds=2, restarts=2, widenings=1)
_SMOKE = Config(
    tasks=(Setting(2, 4, 0.1),),
    widths=(1.0,),
    wider=(2.0,),
    variants=(BASELINE, "skipv1"),
    recipe=replace(_RECIPE, steps=40, log_every=20, compile=False),
    lengths=(20, 40),
    held_out_prompts=512,
    scored_prompts=1024,
    tuning=Tuning(),
    gain=1.0,
)
_CPU = Config(
    tasks=(Setting(2, 4, 0.1),),
    widths=(1.0,),
    wider=(1.5, 2.0),
    variants=(BASELINE, "skipv1", "resformer", "svformer", "attnres"),
    recipe=_RECIPE,
    lengths=(2000, 4000),
    restarts=Restarts(count=4, steps=1000),
    held_out_prompts=4096,
    tuning=_RATES,
    gain=1.0,
)
_LONG = replace(
    _CPU,
    wider=(1.5, 2.0, 3.0),
    lengths=(16_000, 32_000),
    restarts=Restarts(count=16, steps=4000),
    tuning=replace(_RATES, share=0.125, restarts=8, finals=Finals(rates=2, trials=4)),
    doublings=2,
    variants=VARIANTS,
    widths=(1.0, 1.5),
    between=("svformer",),
    orders=(("softmax", "norms", "feed-forward"), ("norms", "residual"), *_ROTATED),
)
# Other tasks, on the rung whose optimum training finds: small ones first, as time may be up before all are trained.
_TASKS = replace(
    _LONG,
    tasks=(Setting(2, 4, 0.5), Setting(2, 8, 0.1), Setting(3, 6, 0.1), Setting(4, 8, 0.1), Setting(5, 10, 0.1)),
    only=("3",),
    wider=(),
    variants=(BASELINE, "skipv1", "svformer"),
    widths=(1.0,),
    between=(),
    orders=(),
    restarts=Restarts(count=24, steps=4000),
    tuning=replace(_RATES, share=0.125, restarts=4, finals=Finals(rates=2, trials=2)),
    doublings=1,
)
# As many restarts as there can be, of what learns most, where sixteen miss the best optimum for most seeds.  The start
# that leads after 4,000 steps often ends in a worse optimum than one behind it, and few trials tell rates badly.
_OPTIMA = replace(
    _LONG,
    only=("4", "5", "6"),
    wider=(1.5, 2.0),
    variants=(BASELINE, "skipv1", "resformer", "svformer", *OF_OUR_OWN),
    orders=(),
    restarts=Restarts(count=50, steps=4000, finished=5),
    tuning=replace(_LONG.tuning, restarts=32, finals=Finals(rates=2, trials=8)),
)
# Losses of linear attention have heavy tails: here on as many prompts as the rungs after it, and between d and 2d too.
_RESIDUAL = replace(_LONG, only=("3",), variants=(BASELINE, "svformer"), wider=(), orders=())
_GPU = replace(_LONG, between=(), orders=(*EVERY, *_ROTATED))
_TINY = replace(
    _SMOKE,
    tuning=Tuning(grid=(1e-2, 3e-2), share=0.5, widenings=1, seeds=2, restarts=2),
    restarts=Restarts(count=2, steps=20),
)
_HALF = "of the signal, in half of the comparisons"
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=2, seconds=20, detects=None),
    "cpu": Profile(config=_CPU, seeds=16, seconds=1100, detects=f"0.06 {_HALF}"),
    "long": Profile(config=_LONG, seeds=16, seconds=13_000, detects=f"0.06 {_HALF}", grows=True),
    "tasks": Profile(config=_TASKS, seeds=8, seconds=4800, detects=f"0.03 {_HALF}", grows=True),
    "optima": Profile(config=_OPTIMA, seeds=16, seconds=12_000, detects=f"0.03 {_HALF}", grows=True),
    "residual": Profile(config=_RESIDUAL, seeds=16, seconds=2400, detects=f"0.04 {_HALF}", grows=True),
    "gpu": Profile(config=_GPU, seeds=32, seconds=3600, detects=f"0.05 {_HALF}", grows=True, device="cuda", on_gpu=4),
    "gpu-tiny": Profile(config=_TINY, seeds=2, seconds=120, detects=None, grows=True),
}


class Ladder:
    name = "ladder"
    title = "From the theorem's toy to a decoder of two layers, one ingredient at a time"
    caption = (
        "Rung 1 is theory; every further rung adds what its label says. (a) By what factor vanilla's width must "
        "grow to do as well as a variant, but for 0.02 of the signal; lines join what is judged, pale is not "
        "converged and decides nothing, arrows lie beyond the widths trained, intervals end at the edge. (b) The "
        "order of what has converged, ties at one rank. (c) The share of the signal explained; filled: converged; "
        "grey: what is proved of vanilla. (d) In what share of single trainings learning sets in. Over several "
        "tasks there are shares, with the toy's as lines, and leads over vanilla instead. Intervals: 95 % over "
        "seeds, each the best of its restarts, in (a), (b) and of leads family-wise; in (d) exact, of a share. "
        "Lines are for the eye."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = ("toy.width", "toy.worth", "toy.trained-layer", "toy.residual-stream", "toy.rotary")
    profiles: Mapping[str, Profile] = PROFILES
    retired: Mapping[str, str] = {
        "depths": "no experiment asks of more than two layers now; what it found stands in results/earlier"
    }

    def architectures(self, config: Config) -> Sequence[Architecture]:
        tasks = ((rung, task) for rung in climbed(config) for task in config.tasks)
        return [rung.architecture(task, task.d) for rung, task in tasks]

    def comparing(self, config: Config, own: tuple[Asked, ...]) -> Config:
        return replace(config, variants=(BASELINE,), own=own, orders=(), between=())

    def predict(self, config: Config) -> Json:
        from experiments.across.ladder.predicting import predicted

        return predicted(config)

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        """Task by task: those whose trainings are finished when time is up count."""
        found: list[Json] = []
        for task in config.tasks:
            try:
                found.append(measured(replace(config, tasks=(task,)), seeds, run, self.name))
            except Unfinished:
                if not found:
                    raise
                break
        return together(found)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.across.ladder.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.ladder.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Ladder()
