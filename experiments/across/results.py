"""What readings of measured shares have in common: whose they are, and what of the signal a loss explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan

from experiments.store.folders import Json
from experiments.training.tuning import untuned


@dataclass(frozen=True, eq=False)
class Read:
    """A prediction and a measurement of models that stand under keys (`experiments.training.restarts`)."""

    prediction: Json
    measurement: Json

    @property
    def variants(self) -> list[str]:
        """But vanilla."""
        found: list[str] = self.prediction["variants"]
        return found

    @property
    def family(self) -> int:
        """Of intervals that are judged together: the variants' and the twin's."""
        return len(self.variants) + 1

    @cached_property
    def untuned(self) -> set[str]:
        """Keys of the models whose best learning rate is at an end of those tried."""
        return set(untuned(self.measurement))

    def tried(self, key: str) -> list[float | None]:
        """The losses of all restarts of a model; none where each seed has but one start."""
        return [loss for of_seed in self.measurement.get("restarts", {}).get(key, ()) for loss in of_seed]


def explained(losses: Sequence[float | None], *, zero: float, signal: float, power: float) -> list[float]:
    """Shares of the signal; NaN where a training diverged.

    zero   what predicting zero costs in expectation; power: what it costs on the prompts of the losses.  A loss counts
           by that, so that a model which predicts zero explains 0, whatever prompts were drawn
    """
    return [nan if x is None else zero / signal * (1 - x / power) for x in losses]
