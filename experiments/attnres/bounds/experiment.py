"""How large what is read gets with depth: PreNorm and Attention Residuals, predicted, bounded, measured.

At the start the mean square of every read has a closed form (`theory.attnres.initial`).  The largest that any network
can reach has another one, which explicit networks attain (`theory.attnres.growth`).  Both need what one sublayer can
put out (`theory.attnres.sublayers`, `.quartic`, `.typical`), and those bounds are held against random inputs and inputs
that ascents have made as bad as they get.  What a trained network does none of them says; that is measured.

The exponents of trained networks depend on how they are trained, and these settings were not the first.  All that was
run, of the largest read's power less PreNorm's, family-wise 95 %:
    2 to 8 layers, 100 steps     Full -0.97 +- 0.64, blocks of 4 -0.81 +- 0.64: `cpu`, as committed; with earlier
                                 code -0.96 and -0.80 +- 0.71, -0.98 and -0.82 +- 0.63, -1.04 and -0.84 +- 0.56
    2 to 8 layers, 150 steps     Full -0.82 +- 0.74; blocks undecided
    3 to 12 layers, 300 steps    both undecided
    text, 3 to 24, 100 steps     Full's own power was 0.95: it grew nearly in proportion to the depth
So that Full grows by less than PreNorm is seen at the first of these two lengths alone, and that trained magnitudes
stay bounded in practice is not shown.  `full`, which should decide, has not been run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.attnres.bounds.points import (
    ATTENTION,
    BOUNDED,
    FEED_FORWARD,
    GATED,
    GROWTH,
    INITIAL,
    SHARPENED,
    TRAINED,
    TYPICAL,
    Config,
    at_start,
    cell,
    largest,
)
from experiments.attnres.bounds.probe import NAME as SHARPNESS
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training import magnitude_probe
from experiments.training.arms import Arm, PromptSource
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.stacks import train_stacked
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Vectors
from theory.plans.presets import llama
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

_RECIPE = Recipe(steps=100, batch=16, learning_rate=4e-3, log_every=10)
_TASK = Setting(4, 8, 0.1)
_CPU = Config(
    sizes=llama(d_model=32, n_heads=4, n_layers=1, d_ff=85, vocab=16, context=2),
    depths=(3, 6, 12, 24, 48),
    std=32**-0.5,
    preset=replace(llama(d_model=512, n_heads=8, n_layers=8, d_ff=1376, vocab=64, context=16), norm_eps=0.0),
    tokens=16,
    widths=(16, 64),
    random=10_000,
    ascents=200,
    steps=100,
    trained=Architecture(d_model=32, n_layers=1, n_heads=2, d_ff=85, context=2 * _TASK.n + 1, stem=Vectors(_TASK.d)),
    trained_depths=(2, 4, 8),
    trained_seeds=4,
    recipe=_RECIPE,
    task=_TASK,
    held_out_prompts=64,
)
PROFILES = {
    "smoke": Profile(
        config=replace(
            _CPU,
            depths=(1, 4),
            preset=replace(llama(d_model=256, n_heads=4, n_layers=2, d_ff=512, vocab=16, context=4), norm_eps=0.0),
            widths=(8,),
            random=100,
            ascents=10,
            steps=10,
            trained_depths=(1, 2),
            trained_seeds=2,
            recipe=replace(_RECIPE, steps=10),
        ),
        seeds=8,
        seconds=25,
        detects="30 % of a mean square",
    ),
    "cpu": Profile(
        config=_CPU,
        seeds=12,
        seconds=110,
        detects="10 % of a mean square, and about one power of the depth, in narrow and briefly trained networks",
    ),
    "full": Profile(
        config=replace(_CPU, trained_depths=(3, 6, 12, 24), trained_seeds=8, recipe=replace(_RECIPE, steps=300)),
        seeds=64,
        seconds=2400,
        detects="5 % of a mean square, and 0.2 of a power of the depth, in narrow networks",
    ),
}


class Bounds:
    name = "attnres-bounds"
    title = "What is read over depth: predicted, bounded and measured, at the start and trained"
    caption = (
        "(a) The last read at initial weights over the number of layers: thick lines are closed forms, thin ones "
        "bounds from the weights, markers measured. (b) The last read over the largest output: thin lines bound it "
        "for any network, markers are networks built to attain the bound; thick lines are what uncorrelated outputs"
        " give. (c) One sublayer's output over its bound, by kind and width, then before and after training. (d) "
        "The largest read of trained networks under its bound, small filled markers before training; numbers in the"
        " legend are powers of the number of layers. Markers in (b), (d) are moved apart, lines join whole layers. "
        "Intervals: 95 % over weights or seeds, in (d) of logarithms about geometric means."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (GROWTH, INITIAL, TYPICAL, ATTENTION, GATED, FEED_FORWARD, BOUNDED)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [at_start(config, depth) for depth in config.depths]

    def predict(self, config: Config) -> Json:
        from experiments.attnres.bounds.predicting import predicted

        return {
            "assumes": "at the start: normal weights, eps = 0, zero queries, one token alone, or, as a preset is "
            "started (LLaMA-60M's sizes, std 0.02, outputs scaled by depth), 16 different tokens; the largest: outputs "
            "of norm 1, one softmax over depth; of sublayers: normed inputs",
            "source": "theory.attnres.initial, .initial_tokens, .growth, .typical, .sublayers, .quartic",
            "statistic": "norms of what is read, root mean square over tokens and weights; exponents of the largest "
            "one over the number of layers",
            "rule": "closed forms lie in the family-wise 95 % interval over initial weights, laws are attained to "
            "1 in 10,000, no input exceeds a bound; of trained networks: the exponent is less than PreNorm's, by a "
            "family-wise 95 % interval, and that of a twin of PreNorm is not",
            "tuning": Tuning().described(),
            **predicted(config),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.attnres.bounds.measuring import attained, measured_all

        trained = _trained(config, run, self.name)
        return {"seeds": seeds, **measured_all(config, seeds, run), "attained": attained(config), **trained}

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.attnres.bounds.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.attnres.bounds.figure import draw

        return draw(prediction, measurement)


def _trained(config: Config, run: RunFolder, label: str) -> Json:
    source = PromptSource(*config.task.floats, config.held_out_prompts, scored="all")

    def sharpened(rule: str, depth: int) -> bool:
        return rule in SHARPENED and depth == config.trained_depths[-1]

    def arm(rule: str, depth: int, seed: int) -> Arm:
        return Arm(
            architecture=replace(config.trained, n_layers=depth),
            variant=BASELINE if rule == TWIN else rule,
            source=source,
            recipe=config.recipe,
            seed=seed,
            twin=rule == TWIN,
            probes=(magnitude_probe.NAME, SHARPNESS) if sharpened(rule, depth) else (magnitude_probe.NAME,),
        )

    cells = [(rule, depth) for depth in reversed(config.trained_depths) for rule in (*TRAINED, TWIN)]
    by_seed = rounds(lambda seed: {at: arm(*at, seed) for at in cells}, config.trained_seeds, run, label, train_stacked)
    records = [record for of_seed in by_seed for record in of_seed.values()]
    return {
        "trained": {cell(*at): [of_seed[at]["magnitudes"]["end"] for of_seed in by_seed] for at in cells},
        "trained_from": {
            cell(*at): [largest(of_seed[at]["magnitudes"]["start"]) for of_seed in by_seed] for at in cells
        },
        "sharpened": {
            rule: [of_seed[rule, config.trained_depths[-1]]["probes"][SHARPNESS] for of_seed in by_seed]
            for rule in SHARPENED
        },
        "diverged": [record["diverged"] for record in records if record["diverged"]],
        "provenance": of_runs(records),
    }


EXPERIMENT: Experiment = Bounds()
