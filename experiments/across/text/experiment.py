"""Text, compute-optimally: what each variant is worth in vanilla's parameters, and when loss curves cross.

Models of one kind and several sizes read 20 tokens a parameter of real text, none of it twice.  Vanilla's loss falls
with its size, so a variant's lower loss is that of a larger vanilla, trained on as many more tokens.  Sizes are trained
from the smallest on, each as one round a seed, vanilla first; a result is about those that are finished, and of
the next size vanilla alone counts too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from experiments.across.text.points import Config
from experiments.across.text.profiles import PROFILES
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.length.points import CRITICAL
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.by_width import trained_by_width
from experiments.training.campaign import BASELINE
from experiments.training.comparing import Asked, names_of_own
from experiments.verdicts.checks import Judgement
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.depth import DepthAttention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder
    from experiments.training.text import Text

CLAIM = "toy.value-maps"


class LadderText:
    name = "ladder-text"
    title = "Compute-optimal language models: worth in parameters, and where loss curves cross"
    caption = (
        "(a) Held-out loss less vanilla's; other weights are no effect. (b) Vanilla's parameters for the same loss, "
        "over those at equal width; arrow: interval goes on; cross: by printed losses. (c), (d) Curves at vanilla's "
        "learning rate, diamonds where they cross for good; at another rate the end only. 95 % over paired seeds, in "
        "(a) for all at once."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CLAIM, CRITICAL)
    profiles: Mapping[str, Profile] = PROFILES

    def architectures(self, config: Config) -> Sequence[Architecture]:
        return [config.sizes(width, config.vocab) for width in config.widths]

    def comparing(self, config: Config, own: tuple[Asked, ...]) -> Config:
        return replace(config, variants=(BASELINE,), own=own)

    def predict(self, config: Config) -> Json:
        from experiments.across.loss.papers import of_paper
        from experiments.across.text.papers import SIGNS, printed_worth
        from experiments.across.text.toy import toy

        compared = [name for name in config.variants if name != BASELINE]
        plans = {name: name for name in compared} | {asked.name: asked.toy for asked in config.own}
        own = names_of_own(config.own)
        return {
            "assumes": "of the papers: that signs found at 60M to 3B parameters hold here, and that printed losses of "
            "single trainings give what a variant is worth; of the toy: all that it assumes, and that a better "
            "in-context learner is a better language model.  It says nothing of how narrow a language model is: what a "
            "variant is worth in width lies between the two numbers given",
            "source": "the papers, as named; theory.toy.width at two layers",
            "statistic": "held-out loss in nats a token at the last step, its paired difference to vanilla at equal "
            "width and tokens; worth: parameters of the vanilla model that does as well over those of the one of equal "
            "width, between sizes by straight lines in the logarithm of the parameters, by inverting the paired test",
            "crossings": "of held-out losses during training, means over three evaluations: from where on a variant "
            "stays behind vanilla (SVFormer) or ahead of it (AttnRes) until the end; each seed has its own, and an "
            "interval is given where every seed has one among the evaluations",
            "rule": "a sign: the family-wise 95 % interval excludes zero on the predicted side, and that of vanilla "
            "against a twin with other initial weights does not; a worth: the interval of its logarithm holds the mean "
            "of the papers', give or take their range, and is narrower than it; worths are judged one by one",
            "text": f"{config.tokens_a_parameter:g} tokens a parameter of vanilla, at most one epoch; a size for which "
            "the text does not suffice is left out",
            "tuning": f"{config.tuning_in_words()}; what weighs outputs over depth has {config.depth_rate:g} of its "
            "arm's rate",
            "sizes": {str(width): _size(config, width) for width in config.widths},
            "papers": {name: of_paper(SIGNS, own, name) for name in plans},
            "papers_worth": {name: {f"{at:g}": x for at, x in printed_worth(name).items()} for name in plans},
            "toy": {name: toy(plan) for name, plan in plans.items()},
            **own,
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab, config.held_out_windows)
        return trained_by_width(config, read, partial(_arms, config, read), seeds, run, self.name)

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.across.text.verdicts import verdicts

        return list(verdicts(prediction, measurement, CLAIM, CRITICAL))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.text.figure import draw

        return draw(prediction, measurement)


def _size(config: Config, width: int) -> Json:
    sizes, recipe = config.sizes(width, config.vocab), config.trained(width, config.vocab)
    return {
        "layers": sizes.n_layers,
        "parameters": config.parameters(width, config.vocab),
        "steps": recipe.steps,
        "tokens": config.tokens(recipe.steps),
    }


def _arms(config: Config, read: Text, sizes: Architecture, recipe: Recipe, seed: int) -> dict[str, Arm]:
    """By name, vanilla first."""
    asked = {asked.name: asked for asked in config.own}

    def arm(name: str) -> Arm:
        fitted, plan = asked[name].on(sizes) if name in asked else (sizes, name)
        found = Arm(
            architecture=fitted,
            variant=plan,
            source=read.source,
            recipe=recipe,
            seed=seed,
            label=name if name in asked else "",
        )
        if isinstance(found.plan.depth, DepthAttention):
            return replace(found, recipe=replace(recipe, depth_rate=config.depth_rate))
        return found  # elsewhere it has no effect, but would give a finished training another key

    return {name: arm(name) for name in (*config.variants, *asked)}


EXPERIMENT: Experiment = LadderText()
