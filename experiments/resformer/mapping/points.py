"""What is trained and what is compared, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from icl.recipe import Recipe
from theory.plans.architecture import Architecture

GATE, SHARP, IN_THE_MEAN = "resformer.gate", "resformer.block-form-sharp", "resformer.block-form-mean"
NEARER, BETTER = "resformer.fig-3", "resformer.block-form-better"

SOURCES = {"previous": "the layer before", "first": "layer 1"}  # the earlier layer: Fig. 3's, and ResFormer's

CURRENT, IDENTITY, EVEN, PRINTED, OTHER_TEXT = "current", "identity", "even", "printed", "other text"
MAPPINGS = {
    CURRENT: "Eqn. (3), the current attention",
    IDENTITY: "Eqn. (6), identity",
    EVEN: "even attention to the past",
    OTHER_TEXT: "Eqn. (3), but (2) has another text's keys",
}

RESFORMER = "resformer"
ARMS = {  # of Fig. 8, each mapping layer 1's values; Eqn. (6) as printed, the mean of all earlier layers' values
    BASELINE: BASELINE,
    RESFORMER: RESFORMER,
    "cross-layer": "cross-layer:source=1",
    "identity-mapping": "identity-mapping",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    architecture: Architecture
    data: str
    vocab: int
    recipe: Recipe
    held_out_windows: int = 64


def pair(layer: int, source: str) -> str:
    """How results name a layer and the earlier one whose values it attends over."""
    return f"{source}/{layer}"


def layers_of(probed: Sequence[Json], source: str) -> list[int]:
    return sorted(int(key.split("/")[1]) for key in probed[0]["pairs"] if key.startswith(source))
