"""Which numbers of heads are compared, with ordinary values and with dynamic ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.training.arms import Arm, TextSource
from experiments.training.campaign import TWIN
from experiments.training.tuning import Tuning
from theory.plans.architecture import Architecture, Tokens

if TYPE_CHECKING:
    from icl.recipe import Recipe

ONE_HEAD, REDUNDANCY = "dva.one-head", "dva.redundancy"
PROBE = "experiments.dva.heads.probe:probe"
ORDINARY, DYNAMIC, ALONE = "ordinary", "dynamic", "alone"
FAMILIES = {ORDINARY: "vanilla", DYNAMIC: "dva-attention", ALONE: "dva"}
WORDS = {
    ORDINARY: "ordinary values",
    DYNAMIC: "dynamic values",
    ALONE: "dynamic values, no feed-forward",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """heads: each divides the width; spared: nats a token that a model may lose with heads that it can do without;
    in_use: that one loses at least without any, if it uses them."""

    architecture: Architecture
    heads: tuple[int, ...]
    data: str
    vocab: int
    recipe: Recipe
    tuning: Tuning
    spared: float = 0.02
    in_use: float = 0.2
    held_out_windows: int = 64

    def arms(self, source: TextSource, vocab: int, seed: int) -> dict[str, Arm]:
        """At the recipe's learning rate; twin is another model of ordinary values with the most heads."""
        return {
            name: Arm(
                architecture=replace(self.architecture, n_heads=heads, stem=Tokens(vocab)),
                variant=FAMILIES[family],
                source=source,
                recipe=self.recipe,
                seed=seed,
                twin=name == TWIN,
                probes=(PROBE,),
                label=name,
            )
            for name, (family, heads) in self.models().items()
        }

    def models(self) -> dict[str, tuple[str, int]]:
        """By name: family and number of heads."""
        cells = {cell(family, heads): (family, heads) for family in FAMILIES for heads in self.heads}
        return {**cells, TWIN: (ORDINARY, self.heads[-1])}


def cell(family: str, heads: int) -> str:
    """How results name a model."""
    return f"{family}/{heads}"
