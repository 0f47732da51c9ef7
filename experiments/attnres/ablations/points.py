"""Which decoders are trained, which of them are compared, and what the paper's table says of each pair."""

from __future__ import annotations

from dataclasses import dataclass, replace

from experiments.attnres.printed import ABLATION, PLACE
from experiments.training.arms import Arm, TextSource
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Tokens

CLAIM, LOSS = "attnres.ablations", "attnres.loss"
FULL, BLOCK, DENSEFORMER = "attnres", "attnres-block:size=4", "denseformer"
WORDS = {
    DENSEFORMER: "DenseFormer",
    FULL: "Full",
    "attnres-input-query": "query from the input",
    "attnres-static": "weights that do not look",
    "attnres-sigmoid": "sigmoid for softmax",
    "attnres-no-key-norm": "no norm of keys",
    "attnres-window": "embedding and newest eight",
    BLOCK: "Block of 4",
    "attnres-heads": "Block of 4, 16 heads",
    TWIN: "PreNorm, other weights",
}
OF_THE_PAPER = {BLOCK: "attnres-block"}  # what the printed numbers call a variant that is named here with its options


@dataclass(frozen=True, kw_only=True)
class Config:
    """depth_rates: of what weighs outputs over depth, tried beside the learning rates of `tuning`."""

    architecture: Architecture
    data: str
    vocab: int
    recipe: Recipe
    tuning: Tuning
    depth_rates: tuple[float, ...]
    held_out_windows: int = 64

    def variants(self) -> dict[str, str]:
        """By name: Block and heads have blocks of four sublayers, as the paper's."""
        blocks = max(1, 2 * self.architecture.n_layers // 4)
        own = {"attnres-heads": f"attnres-heads:blocks={blocks}"}
        return {name: own.get(name, name) for name in (BASELINE, *WORDS) if name != TWIN}

    def arm(self, name: str, source: TextSource, vocab: int, seed: int, depth_rate: float = 1.0) -> Arm:
        """At the recipe's learning rate."""
        return Arm(
            architecture=replace(self.architecture, stem=Tokens(vocab)),
            variant=self.variants()[BASELINE if name == TWIN else name],
            source=source,
            recipe=replace(self.recipe, depth_rate=depth_rate),
            seed=seed,
            twin=name == TWIN,
        )


def trial(name: str, depth_rate: float) -> str:
    """How results name a variant at a rate of its depth rule's own."""
    return name if name == BASELINE else f"{name} at {depth_rate:g}"


@dataclass(frozen=True)
class Compared:
    """What the paper prints of the loss of `arm` less that of `against`."""

    arm: str
    against: str
    nats: float
    place: str
    claim: str

    @property
    def sign(self) -> int:
        return (self.nats > 0) - (self.nats < 0)


def by_the_paper() -> list[Compared]:
    """Every row of the table less the baseline, and every ablation less the form that it is one of."""
    printed = {name: ABLATION[OF_THE_PAPER.get(name, name)] for name in (BASELINE, *WORDS) if name != TWIN}

    def less(arm: str, against: str) -> Compared:
        claim = LOSS if against == BASELINE else CLAIM
        return Compared(arm, against, round(printed[arm] - printed[against], 6), PLACE, claim)

    form = {"attnres-heads": BLOCK}
    ablations = [name for name in printed if name not in (BASELINE, DENSEFORMER, FULL)]
    return [
        *(less(name, BASELINE) for name in printed if name != BASELINE),
        *(less(name, form.get(name, FULL)) for name in ablations),
    ]
