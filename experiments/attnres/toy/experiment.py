"""The linear-attention toy has no norms: how large does it get, which norms keep it bounded, and what does depth
attention do in it?

At the start the mean square of every read is known exactly (`theory.attnres.toy`), and so is what the best weights
over depth can lose (`theory.attnres.deep`, `theory.prompts.spectral`): decoders with these weights have to agree.  Of
trained toys theory says which are bounded (`theory.attnres.bounds`, `theory.attnres.unnormed`); what they do is
measured, with norms added one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.attnres.toy.points import BOUNDED, DEEP, MAGNITUDE, NETWORKS, NORMS, Config
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

_RECIPE = Recipe(steps=80, batch=128, learning_rate=1e-2, floor=0.0, log_every=10)
_CPU = Config(
    task=Setting(2, 4, 0.5),
    step=1 / 16,
    deviation=1 / 32,
    depths=(2, 4, 8, 16),
    random_depths=(2, 4, 8),
    deepest=20,
    widths=(1.0, 2.0, 3.0),
    wider=(1.0, 1.2),
    prompts=400,
    width=8,
    std=0.2,
    trained_depths=(1, 2, 3),
    deeper=6,
    trained_seeds=7,
    recipe=_RECIPE,
    held_out_prompts=512,
    deep=(Setting(5, 8, 2.0), Setting(5, 8, 3.0), Setting(3, 8, 2.5)),
    layers=(2, 3, 4),
    noises=(0.5, 0.75, *(i / 8 for i in range(8, 21)), 2.75, 3.0, 3.5, 4.0, 5.0, 6.0),
    answered=3000,
)
PROFILES = {
    "smoke": Profile(
        config=replace(
            _CPU,
            depths=(2, 4),
            random_depths=(2,),
            deepest=6,
            prompts=90,
            trained_depths=(1, 2),
            deeper=3,
            held_out_prompts=64,
            trained_seeds=2,
            recipe=replace(_RECIPE, steps=10),
            deep=(Setting(5, 8, 2.0),),
            layers=(3, 4),
            noises=(1.0, 2.0, 3.0),
            answered=2000,
        ),
        seeds=6,
        seconds=20,
        detects="30 % of a mean square, two thirds of the deep toy's gains; nothing of what is trained",
    ),
    "cpu": Profile(
        config=_CPU,
        seeds=24,
        seconds=65,
        detects="10 % of a mean square (16 layers of a residual stream: 50 %), a third of the deep toy's gains at "
        "their largest; of what is trained briefly, 7 powers of the depth on wide prompts",
    ),
    "full": Profile(
        config=replace(_CPU, prompts=4000, trained_seeds=32, recipe=replace(_RECIPE, steps=400), answered=60_000),
        seeds=24,
        seconds=2700,
        detects="3 % of a mean square (16 layers of a residual stream: 20 %), a tenth of the deep toy's gains at "
        "their largest; of what is trained, 3 powers of the depth on wide prompts",
    ),
}


class Toy:
    name = "attnres-toy"
    title = "The linear-attention toy without norms: how large it gets, and what weights over depth reach"
    caption = (
        "The linear toy, which has no norms. (a), (b) Mean square of the last read over layers, closed forms "
        "(lines) and decoders (markers), for weights that make gradient steps and for random ones; crosses leave "
        "out the wide prompts that weigh most. (c) Trained, behind the colon what has norms, and read on prompts three "
        "times as wide, in the last row on ordinary ones: geometric means of the trainings that did not diverge, where "
        "two or more did not; the fuller the marker, the more layers. Columns count those that diverged, by layers. "
        "(d) What weights over depth gain over a residual stream in the deep toy, by layers and token size d: lines "
        "exact, markers sampled, moved apart. Lines join whole layers. Intervals: 95 % over seeds, in (c) of "
        "logarithms."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (MAGNITUDE, NORMS, BOUNDED, DEEP)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.trained(network, depth) for network in NETWORKS.values() for depth in config.trained_depths]

    def predict(self, config: Config) -> Json:
        from experiments.attnres.toy.predicting import predicted

        return {
            "assumes": "at the start: attention alone, without norms; W* and inputs normal, W0 = 0; B = step I or of "
            "independent normal entries; zero queries over depth.  Deep toy: scalar weights, static weights over "
            "depth.  Trained: nothing; a sign is expected where theory bounds one toy's reads and not the other's",
            "source": "theory.attnres.toy, .deep, .bounds, .unnormed; theory.prompts.spectral",
            "statistic": "mean squares over prompts of several widths, weighted; mean losses and their paired "
            "differences on the same prompts; exponents of the largest read, root mean square over tokens, over the "
            "number of layers, of the seeds in which neither training diverged",
            "rule": "closed forms and exact losses lie in the family-wise 95 % interval over seeds, and what is known "
            "to be wrong does not; of trained toys: differences have the sign expected by a family-wise 95 % interval, "
            "and that of a twin has none; divergence: an exact sign test over seeds",
            "tuning": Tuning().described(),
            **predicted(config),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.attnres.toy.deep import answers
        from experiments.attnres.toy.starts import starts
        from experiments.attnres.toy.training import trained

        return {
            "seeds": seeds,
            **starts(config, seeds, run),
            "answers": answers(config, seeds, run),
            **trained(config, run, self.name),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.attnres.toy.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.attnres.toy.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Toy()
