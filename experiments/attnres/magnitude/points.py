"""Which depth rules are trained, and what is taken from a probe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import pstdev

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.comparing import Asked, own_names
from icl.recipe import Recipe
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan

CLAIM = "attnres.bounded"


RULES = (BASELINE, "attnres", "attnres-block")


STAGES = ("start", "end")


EPS_SLACK = 0.05  # of the start's identity: the norms' eps is up to a fortieth of the mean square of what they divide


ROUNDING = 1e-5  # float32 sums of some hundred terms


@dataclass(frozen=True, kw_only=True)
class Config:
    """depths    layers, each two sublayers; the architecture's own number is replaced
    own       a user's variants, in place of RULES
    unrolled  how many sources all reads of a model may have together for it to be compiled, where the recipe compiles;
              None: any number
    """

    architecture: Architecture
    depths: tuple[int, ...]
    data: str
    vocab: int
    recipe: Recipe
    held_out_windows: int = 8
    own: tuple[Asked, ...] = ()
    unrolled: int | None = None

    def trained(self, architecture: Architecture, plan: Plan) -> Recipe:
        """The recipe, compiled where it is and the model's reads are short enough."""
        few = self.unrolled is None or sum(map(len, depth_reads(architecture, plan))) <= self.unrolled
        return replace(self.recipe, compile=self.recipe.compile and few)


def compared(prediction: Json) -> tuple[str, ...]:
    """The rules that are compared with PreNorm."""
    return tuple(own_names(prediction)) or RULES[1:]


def cell(rule: str, depth: int) -> str:
    """How results name a rule at a depth."""
    return f"{rule}/{depth}"


def of_seeds(measurement: Json, rule: str, depth: int, stage: str) -> list[Json]:
    """What was probed, of the seeds whose training did not diverge."""
    return [both[stage] for both in measurement["magnitudes"][cell(rule, depth)] if both["end"]]


def growth(probed: Json) -> float:
    return math.log(probed["read_rms"][-1] / probed["read_rms"][0])


def unevenness(gradients: Sequence[float]) -> float:
    """NaN where one of them is zero."""
    return pstdev(map(math.log, gradients)) if min(gradients) > 0 else math.nan
