"""Which trainings are compared, and in which pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from experiments.store.folders import Json
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
    depth_rate  as a recipe has it; depth_decay: likewise
    wide        matrices start as `start_at_width` has them; else at 0.02, with which a narrow model's reads are small
                beside the usual eps
    words       what a figure calls it
    """

    variant: str
    words: str
    eps: float | None = None
    depth_rate: float = 1.0
    wide: bool = False
    depth_decay: float = 0.0

    def told(self) -> Json:
        """As predictions have had it since before there was a decay."""
        return {name: value for name, value in asdict(self).items() if name != "depth_decay" or value}

    def sized(self, sizes: Architecture) -> Architecture:
        return sizes if self.eps is None else replace(sizes, norm_eps=self.eps)

    def std(self, width: int) -> float:
        return start_at_width(width) if self.wide else START


PRENORM, FULL, FULL_EPS, HELD, SLOW, BLOCK = "vanilla-eps", "full", "full-eps", "full-held", "full-slow", "block-slow"
WIDE, FULL_WIDE, DECAYED, MUCH = "vanilla-wide", "full-wide", "full-decayed", "full-much-decayed"
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
    DECAYED: Choice("attnres", "Full, eps = 0, queries with a weight decay of 0.1", NO_EPS, depth_decay=0.1),
    MUCH: Choice("attnres", "Full, eps = 0, queries with a weight decay of 1", NO_EPS, depth_decay=1.0),
    BLOCK: Choice(BLOCK_PLAN, "Block of 4, eps = 0, queries at a tenth of the rate", NO_EPS, 0.1),
}


@dataclass(frozen=True)
class Pair:
    """arm's loss less against's.  sign: what is expected of it, 0: no difference; by: whose expectation that is."""

    arm: str
    against: str
    sign: int
    by: str


USUAL = tuple(name for name in CHOICES if name not in (DECAYED, MUCH))  # decay is asked about in a profile of its own
ON_DECAY = (BASELINE, FULL_EPS, DECAYED, MUCH)


@dataclass(frozen=True, kw_only=True)
class Config(Optimal):
    """choices: what is trained, vanilla first."""

    choices: tuple[str, ...] = USUAL

    def pairs(self) -> list[Pair]:
        return [pair for pair in PAIRS if {pair.arm, pair.against} <= set(self.choices)]


PAPER, ALGEBRA, TRIED = "the paper", "theory", "an exploration on two seeds, width 48"
GUESS = "a guess: decay draws queries to zero, where Full is PreNorm"
PAIRS = (
    Pair(FULL, BASELINE, -1, PAPER),
    Pair(FULL_EPS, BASELINE, -1, PAPER),
    Pair(SLOW, BASELINE, -1, PAPER),
    Pair(BLOCK, BASELINE, -1, PAPER),
    Pair(FULL_WIDE, WIDE, -1, PAPER),
    Pair(FULL_EPS, FULL, -1, TRIED),
    Pair(SLOW, FULL_EPS, -1, TRIED),
    Pair(HELD, PRENORM, 0, ALGEBRA),
    Pair(DECAYED, FULL_EPS, -1, GUESS),
    Pair(MUCH, FULL_EPS, -1, GUESS),
    Pair(DECAYED, BASELINE, -1, PAPER),
    Pair(MUCH, BASELINE, -1, PAPER),
)
PRINTED = {FULL: "Full", FULL_EPS: "Full", SLOW: "Full", BLOCK: "Block"}  # whose factor in compute the paper gives


def arms(
    source: TextSource, sizes: Architecture, recipe: Recipe, seed: int, choices: Sequence[str] = USUAL
) -> dict[str, Arm]:
    """By name, vanilla first."""
    return {
        name: Arm(
            architecture=choice.sized(sizes),
            variant=choice.variant,
            source=source,
            recipe=replace(recipe, depth_rate=choice.depth_rate, depth_decay=choice.depth_decay),
            seed=seed,
            std=choice.std(sizes.d_model),
            label=name,
        )
        for name, choice in CHOICES.items()
        if name in choices
    }


def compute(config: Optimal, name: str, width: int, vocab: int) -> float:
    """FLOPs of a training, forward and backward, reads over depth included; twin as vanilla."""
    choice = CHOICES.get(name, CHOICES[BASELINE])
    sizes = config.sizes(width, vocab)
    token = 3 * flops(sizes, resolve(choice.variant, sizes.shape), (sizes.context + 1) // 2)
    return float(token * config.tokens(config.trained(width, vocab).steps))
