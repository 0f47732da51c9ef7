"""The rungs of the ladder, what is trained on them, and the margins that decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.training.campaign import BASELINE, TWIN
from experiments.training.comparing import OwnVariant
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Vectors
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from icl.stacks.forward import Turned

RUNGS: dict[str, Turned | None] = {
    "linear": None,
    "softmax": "softmax",
    "norms": "norms",
    "feed-forward": "feed-forward",
}
FIRST, LAST = "linear", "feed-forward"
WIDTH, LAYER = "toy.width", "toy.residual-stream"
KEPT = 0.05  # of the signal: a lead this near to another is as large
NULL = 0.02  # of the signal: a lead this small is none
CONVERGED = 0.02  # of the signal: the most that twice the steps may add


@dataclass(frozen=True, kw_only=True)
class Config:
    """The trainings of a ladder and their sizes.

    Attributes:
        task: at which everything is measured.
        further: more tasks, at which vanilla, its twin and `few` are led up the ladder, from half of the seeds.
        arms: variants beside vanilla and its twin.
        climbs: seeds of what is reached; each is the best of `starts` on the first rung.
        search_steps: of a start.
        rates: of starts, in turn, and of each later rung, of which a seed's best is kept.
        recipe: of later rungs and of `found`.
        lengths: in steps, of `found` and of the null; the second is twice the first and says what has converged.
        widths: of the null, as factors of d.
        tuning: of `found` and the null.
        scored_prompts: on which models are compared, the same for all.
        own: a user's variants.
    """

    task: Setting
    further: tuple[Setting, ...]
    arms: tuple[str, ...]
    few: tuple[str, ...]
    climbs: int
    starts: int
    search_steps: int
    rates: tuple[float, ...]
    recipe: Recipe
    lengths: tuple[int, int]
    widths: tuple[int, ...]
    tuning: Tuning
    scored_prompts: int
    own: tuple[OwnVariant, ...] = ()

    @property
    def tasks(self) -> tuple[Setting, ...]:
        return self.task, *self.further

    def names(self, task: Setting) -> tuple[str, ...]:
        """Return all that is trained at a task."""
        return BASELINE, TWIN, *(self.arms if task == self.task else self.few), *(asked.name for asked in self.own)

    def seeds(self, task: Setting) -> range:
        """Return the seeds of what is reached at a task."""
        return range(self.climbs if task == self.task else max(2, self.climbs // 2))


def architecture(rung: str, task: Setting, width: int) -> Architecture:
    """Return the sizes of a rung's models, for tokens of `width` numbers."""
    at = list(RUNGS).index(rung)
    return Architecture(
        d_model=width,
        n_layers=2,
        n_heads=2,
        d_ff=2 * width if at >= 3 else 0,
        context=2 * task.n + 1,
        stem=Vectors(task.d),
        head_dim=width,
        norm="rms" if at >= 2 else "none",
        positions="bias",
        score="softmax" if at >= 1 else "linear",
    )
