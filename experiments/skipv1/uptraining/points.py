"""What is trained: vanilla and SkipV1Former from scratch, then what vanilla is made into, by several ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from experiments.training.arms import Arm, Initial, TextSource
from experiments.training.campaign import BASELINE
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.plans.architecture import Architecture

SKIPV1, MHA = "skipv1", "MHA"
FIRST_LOSS = "held_out"  # the probe that is asked at the start and at the end
CONTINUED, CONTINUED_TWIN = "continued", "continued-twin"  # vanilla, and vanilla's twin, trained on as they are
REORDERED = "continued-reordered"  # vanilla, trained on with the text in another order: no difference is there to find
PRINTED = ("mean", "mean-vo", "top-v", "top-vo", "svd")  # ways in the paper's figure 10
WAYS = (*PRINTED, "apart", "first", "whole")
APART = 1000  # seeds, between the order of the text from scratch and that of what is trained on
TUNED_ON = 700_000  # seed of the model on which rates of training on are tuned
SLOW = 0.1  # of its arm's rate: what weighs outputs over depth


@dataclass(frozen=True)
class Choice:
    """What the trained vanilla model becomes, and is trained on as.

    variant  the plan; how: the way to it
    exact    it begins as the function that was trained
    slow     what weighs outputs over depth learns at SLOW of the rate
    """

    variant: str
    how: str = "mean"
    exact: bool = False
    slow: bool = False


CHOICES = {
    CONTINUED: Choice(BASELINE, exact=True),
    "skipv1, mean": Choice(SKIPV1, "mean"),
    "skipv1, apart": Choice(SKIPV1, "apart"),
    "skipv1, svd": Choice(SKIPV1, "svd"),
    "skipv1, whole": Choice(SKIPV1, "whole"),
    "svformer": Choice("svformer"),
    "resformer-learned": Choice("resformer-learned", exact=True),
    "attnres": Choice("attnres", exact=True, slow=True),
}
MEAN, WHOLE = "skipv1, mean", "skipv1, whole"
FORMS = (CONTINUED, MEAN, "skipv1, apart", WHOLE)  # of CHOICES, where heads share keys and values or a latent


def kind_of_heads(architecture: Architecture) -> str:
    if architecture.latent is not None:
        return "MLA"
    return MHA if architecture.group == 1 else "GQA"


@dataclass(frozen=True, kw_only=True)
class Config:
    """architecture  norms have no eps that matters, so that depth attention begins as PreNorm
    steps         of the training from scratch
    share         of these steps, on which a converted model is trained
    tuning        of rates from scratch; uptuning: of rates of all that is trained on, each its own
    evaluations   of a training on, evenly, the last at its end
    chosen        of CHOICES, what is trained on
    """

    architecture: Architecture
    recipe: Recipe
    share: float
    tuning: Tuning
    uptuning: Tuning
    data: str
    vocab: int
    held_out_windows: int
    evaluations: int
    chosen: tuple[str, ...] = tuple(CHOICES)

    @property
    def choices(self) -> dict[str, Choice]:
        """What is trained on, by name."""
        return {name: CHOICES[name] for name in self.chosen}

    @property
    def uptrained(self) -> Recipe:
        """Of what is trained on, but for its rate: the same schedule over fewer steps."""
        every = max(1, round(self.share * self.recipe.steps / self.evaluations))
        return replace(self.recipe, steps=every * self.evaluations, log_every=every, evaluate_every=every)


def from_scratch(config: Config, source: TextSource, sizes: Architecture, seed: int) -> dict[str, Arm]:
    """Vanilla and SkipV1Former, by name."""
    return {
        name: Arm(architecture=sizes, variant=name, source=source, recipe=config.recipe, seed=seed)
        for name in (BASELINE, SKIPV1)
    }


def trained_on(config: Config, before: Arm, begun: Callable[[str | None], Initial], seed: int) -> dict[str, Arm]:
    """All choices, by name.

    before   what was trained from scratch; begun: its weights, to be converted in this way, or as they are
    seed     of the order of the text: other than before, so that little of it is read again
    """
    found = {}
    for name, choice in config.choices.items():
        recipe = replace(config.uptrained, depth_rate=SLOW) if choice.slow else config.uptrained
        found[name] = replace(
            before,
            variant=choice.variant,
            recipe=recipe,
            seed=seed,
            twin=False,
            probes=(FIRST_LOSS,),
            initial=begun(None if choice.variant == BASELINE else choice.how),
        )
    return found
