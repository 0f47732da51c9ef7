"""What share of a read does each sublayer's output have: is it diluted under PreNorm, and less with depth attention?

The paper's summary says that uniform accumulation dilutes each layer's contribution, and that a softmax over depth
mitigates that.  Theory (`theory.attnres.dilution`): at zero queries every share is PreNorm's; coefficients' shares are
bounded by queries' lengths, and in Block by 1 / m_b.  What trained networks do none of it says; that is measured, by
how many outputs of one norm would be as spread as those that a read holds.

That number falls with the learning rate under every rule, PreNorm too, whose last read is then of a few outputs of its
first layers.  So rules are compared twice, each at the rate that is best for it, and all at PreNorm's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.attnres.dilution.points import CLAIM, Config
from experiments.attnres.dilution.profiles import PROFILES
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.folders import Json
from experiments.training.comparing import Asked, names_of_own
from experiments.verdicts.checks import Judgement
from theory.plans.architecture import Architecture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder


class Dilution:
    name = "attnres-dilution"
    title = "What share of a read each output has: PreNorm against Attention Residuals"
    caption = (
        "Trained networks. (a) The newest output's share of a read by coefficients, (b) by its projection on the "
        "read, (c) the embedding's projection: thick lines are means, thin pale ones single seeds, grey an even "
        "share. Short dashes in (a) are the most that a block of m_b outputs allows its newest. (d) Of how many "
        "outputs the last read is effectively made, over how many there are: geometric means, moved apart, with 95 "
        "% intervals over seeds, of logarithms; numbers in the legend are powers. Small filled markers: at "
        "PreNorm's learning rate. Lines join whole numbers for the eye."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.at(depth) for depth in config.depths]

    def comparing(self, config: Config, own: tuple[Asked, ...]) -> Config:
        return replace(config, own=own)

    def predict(self, config: Config) -> Json:
        from experiments.attnres.dilution.predicting import predicted

        return {
            "assumes": "at the start: zero queries, eps = 0; bounds: one softmax over depth, normed keys; of trained "
            "networks: that what the paper says of large ones holds at this size",
            "source": "theory.attnres.dilution, .coefficients, .zero_query; Attention Residuals, summary: uniform "
            "aggregation dilutes each layer's contribution, softmax attention over depth mitigates that",
            "statistic": "log of the effective number of outputs in the last read, 1 / sum of squares of their shares "
            "of the squared norms, mean over tokens, trained, as paired differences to PreNorm; and its exponent over "
            "the number of outputs",
            "rule": "identities and bounds must hold; an effect: the family-wise 95 % interval excludes zero on the "
            "predicted side, and that of PreNorm against a twin with other initial weights does not; each rule at its "
            "own learning rate, and, where those are tuned, all at PreNorm's too.  DenseFormer is shown: nothing is "
            "expected of it",
            "tuning": config.tuning.described("rule and depth"),
            "std": config.std,
            **predicted(config),
            **names_of_own(config.own),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.attnres.dilution.measuring import measured

        return measured(config, seeds, run, self.name)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.attnres.dilution.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.attnres.dilution.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = Dilution()
