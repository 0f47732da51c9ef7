"""Which trainings are compared, and in which pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.training.arms import START, Arm, TextSource, start_at_width
from experiments.training.campaign import BASELINE
from experiments.training.optimal import Optimal
from theory.plans.accounting import flops
from theory.plans.architecture import Architecture
from theory.plans.names import resolve

if TYPE_CHECKING:
    from icl.recipe import Recipe

LOSS, COMPUTE = "attnres.loss", "attnres.compute"
NO_EPS = 1e-12  # of norms: nothing beside the mean square of what any read holds


@dataclass(frozen=True)
class Choice:
    """What is trained.

    eps         of all norms; None: as the architecture has it
    depth_rate  as a recipe has it
    wide        matrices start as `start_at_width` has them; else at 0.02, with which a narrow model's reads are small
                beside the usual eps
    words       what a figure calls it
    """

    variant: str
    words: str
    eps: float | None = None
    depth_rate: float = 1.0
    wide: bool = False

    def sized(self, sizes: Architecture) -> Architecture:
        return sizes if self.eps is None else replace(sizes, norm_eps=self.eps)

    def std(self, width: int) -> float:
        return start_at_width(width) if self.wide else START


PRENORM, FULL, FULL_EPS, HELD, SLOW, BLOCK = "vanilla-eps", "full", "full-eps", "full-held", "full-slow", "block-slow"
WIDE, FULL_WIDE = "vanilla-wide", "full-wide"
BLOCK_PLAN = "attnres-block:size=4"
CHOICES = {
    BASELINE: Choice("vanilla", "PreNorm"),
    PRENORM: Choice("vanilla", "PreNorm, eps = 0", NO_EPS),
    WIDE: Choice("vanilla", "PreNorm, wide start", wide=True),
    FULL: Choice("attnres", "Full"),
    FULL_WIDE: Choice("attnres", "Full, wide start", wide=True),
    FULL_EPS: Choice("attnres", "Full, eps = 0", NO_EPS),
    HELD: Choice("attnres", "Full, eps = 0, queries held at zero", NO_EPS, 0.0),
    SLOW: Choice("attnres", "Full, eps = 0, queries at a tenth of the rate", NO_EPS, 0.1),
    BLOCK: Choice(BLOCK_PLAN, "Block of 4, eps = 0, queries at a tenth of the rate", NO_EPS, 0.1),
}


@dataclass(frozen=True)
class Pair:
    """arm's loss less against's.  sign: what is expected of it, 0: no difference; by: whose expectation that is."""

    arm: str
    against: str
    sign: int
    by: str


PAPER, ALGEBRA, TRIED = "the paper", "theory", "an exploration on two seeds, width 48"
PAIRS = (
    Pair(FULL, BASELINE, -1, PAPER),
    Pair(FULL_EPS, BASELINE, -1, PAPER),
    Pair(SLOW, BASELINE, -1, PAPER),
    Pair(BLOCK, BASELINE, -1, PAPER),
    Pair(FULL_WIDE, WIDE, -1, PAPER),
    Pair(FULL_EPS, FULL, -1, TRIED),
    Pair(SLOW, FULL_EPS, -1, TRIED),
    Pair(HELD, PRENORM, 0, ALGEBRA),
)
PRINTED = {FULL: "Full", FULL_EPS: "Full", SLOW: "Full", BLOCK: "Block"}  # whose factor in compute the paper gives


def arms(source: TextSource, sizes: Architecture, recipe: Recipe, seed: int) -> dict[str, Arm]:
    """By name, vanilla first."""
    return {
        name: Arm(
            architecture=choice.sized(sizes),
            variant=choice.variant,
            source=source,
            recipe=replace(recipe, depth_rate=choice.depth_rate),
            seed=seed,
            std=choice.std(sizes.d_model),
            label=name,
        )
        for name, choice in CHOICES.items()
    }


def compute(config: Optimal, name: str, width: int, vocab: int) -> float:
    """FLOPs of a training, forward and backward, reads over depth included; twin as vanilla."""
    choice = CHOICES.get(name, CHOICES[BASELINE])
    sizes = config.sizes(width, vocab)
    token = 3 * flops(sizes, resolve(choice.variant, sizes.shape), (sizes.context + 1) // 2)
    return float(token * config.tokens(config.trained(width, vocab).steps))
