"""What is trained and what is compared, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from icl.recipe import Recipe
from theory.plans.architecture import Architecture

AT_START, LIMIT, EIGENVALUES, SMOOTHING = (
    "resformer.values-at-start",
    "resformer.values-at-start-limit",
    "resformer.fig-12",
    "resformer.smoothing",
)
RESFORMER = "resformer"
ARMS = (BASELINE, RESFORMER)  # of Fig. 12
TEXT, DIFFERENT = "text", "different tokens"  # what a model is shown


@dataclass(frozen=True, kw_only=True)
class Config:
    architecture: Architecture
    data: str
    vocab: int
    recipe: Recipe
    held_out_windows: int = 64


@dataclass(frozen=True)
class Statistic:
    """One number of a model, from what its probe told of held-out text."""

    of: Callable[[Json], float]
    claim: str
    quantity: str
    words: str


def _logs(told: Json, name: str) -> float:
    """Mean over layers from 2 on of the log."""
    return fmean(math.log(value) for value in told[name][1:])


LOG = "mean log over layers from 2 on"
STATISTICS: Mapping[str, Statistic] = MappingProxyType(
    {
        "layer 1": Statistic(
            lambda told: math.log(told["largest"][0]), EIGENVALUES, "log", "the largest eigenvalue of layer 1's values"
        ),
        "largest": Statistic(
            lambda told: _logs(told, "largest"),
            EIGENVALUES,
            LOG,
            "the largest eigenvalue of the values that heads attend over",
        ),
        "own": Statistic(
            lambda told: _logs(told, "own"),
            EIGENVALUES,
            LOG,
            "the largest eigenvalue of the values that layers project",
        ),
        "filled": Statistic(
            lambda told: _logs(told, "participation"),
            SMOOTHING,
            LOG,
            "the number of directions that the values fill that heads attend over",
        ),
        "own filled": Statistic(
            lambda told: _logs(told, "own_participation"),
            SMOOTHING,
            LOG,
            "the number of directions that the values fill that layers project",
        ),
        "collapse": Statistic(
            lambda told: math.log(told["participation"][-1] / told["participation"][0]),
            SMOOTHING,
            "log of a ratio",
            "the number of directions that the last layer's values fill, over the first layer's",
        ),
    }
)


@dataclass(frozen=True)
class Said:
    """What the paper leads one to expect of ResFormer less vanilla, or of vanilla itself, by its sign."""

    statistic: str
    sign: int
    place: str
    of_vanilla: bool = False

    @property
    def key(self) -> str:
        return f"{self.statistic}/{BASELINE if self.of_vanilla else RESFORMER}"


SAID = (
    Said("layer 1", 1, "Fig. 12 (left)"),
    Said("largest", 1, "Fig. 12 (right)"),
    Said("own", 1, "Fig. 12 (right), if it shows these"),
    Said("filled", 1, "section 4.5: stronger representational capacity"),
    Said("own filled", 1, "section 4.5: stronger representational capacity"),
    Said("collapse", -1, "introduction: over-smoothing with depth", of_vanilla=True),
    Said("collapse", 1, "introduction: ResFormer alleviates it"),
)
