"""Which depth rules are trained, and what is taken from a probe."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import linear_regression

from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.comparing import Asked, bare, own_names
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.names import resolve

CLAIM = "attnres.dilution"
FULL, DENSE, BLOCK = "attnres", "denseformer", "attnres-block:size=4"
RULES = {  # of reading over depth, and the words for them
    BASELINE: "PreNorm",
    DENSE: "DenseFormer",
    FULL: "Full",
    BLOCK: "Block of 4 sublayers",
    "attnres-block": "8 blocks",
}
ATTENTION = (FULL, BLOCK, "attnres-block")  # of which the paper says that they dilute less
OWN, PRENORMS = "own-rates", "prenorms-rate"  # learning rates at which rules are compared


@dataclass(frozen=True, kw_only=True)
class Config:
    """depths   layers, each two sublayers; the architecture's own number is replaced
    std      of initial matrices
    own      a user's variants, in place of RULES
    """

    architecture: Architecture
    depths: tuple[int, ...]
    std: float
    data: str
    vocab: int
    recipe: Recipe
    tuning: Tuning
    held_out_windows: int = 8
    own: tuple[Asked, ...] = ()

    def at(self, depth: int) -> Architecture:
        return replace(self.architecture, n_layers=depth)

    def rules(self, depth: int) -> tuple[str, ...]:
        """Those that are trained at this depth: up to eight sublayers eight blocks are Full."""
        if self.own:
            return (BASELINE, *(variant.name for variant in self.own))
        shape = self.at(depth).shape
        return tuple(rule for rule in RULES if rule == FULL or resolve(rule, shape) != resolve(FULL, shape))


def cell(rule: str, depth: int) -> str:
    """How results name a rule at a depth."""
    return f"{rule}/{depth}"


def compared(prediction: Json) -> list[str]:
    """The rules that are compared with PreNorm."""
    return own_names(prediction) or list(RULES)[1:]


def at_both_rates(prediction: Json) -> list[str]:
    """Return the rules that are compared at PreNorm's learning rate, too."""
    return own_names(prediction) or list(ATTENTION)


def paper_speaks_of(rule: str) -> bool:
    """Return whether the paper expects something of a rule: of depth attention, whatever its options."""
    return bare(rule) in map(bare, ATTENTION)


def place(prediction: Json, rule: str, depth: int) -> str:
    """Where results have a rule at a depth: in another's cell, if that is the same model."""
    at = cell(rule, depth)
    same: str = prediction["same"].get(at, at)
    return same


def words(rule: str) -> str:
    return RULES.get(rule, rule)


def rates(measurement: Json, reading: str) -> str:
    """The learning rates of a reading, in words."""
    if not measurement["tuning"]["tuned"]:
        return "at one learning rate"
    return "each at its own learning rate" if reading == OWN else "all at PreNorm's learning rate"


def of_seeds(measurement: Json, at: str, stage: str) -> list[Json]:
    """What was probed in a cell, of the seeds whose training did not diverge."""
    return [both[stage] for both in measurement["shares"][at] if both["end"]]


def last_effective(measurement: Json, at: str, reading: str = OWN) -> list[float]:
    """log of the effective number of outputs in the last read, trained; by seed, nan where one diverged."""
    values = [both["end"] and both["end"]["effective"][-1] for both in measurement["shares"][at]]
    if reading == PRENORMS:
        values = measurement["at_prenorms_rate"].get(at, values)
    return [math.nan if x is None else x for x in values]


def exponents(prediction: Json, measurement: Json, rule: str, reading: str = OWN) -> list[float]:
    """Of that effective number as a power of the number of outputs, by seed."""
    outputs = [math.log(len(prediction["law"][str(depth)])) for depth in prediction["depths"]]
    values = [last_effective(measurement, place(prediction, rule, depth), reading) for depth in prediction["depths"]]
    return [linear_regression(outputs, of_seed).slope for of_seed in zip(*values, strict=True)]
