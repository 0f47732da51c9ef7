"""What is trained: sweeps of arms, and the keys that results stand under."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from experiments.store.folders import Json
from theory.plans.heads import ORDINARY, TOYS, Heads
from theory.plans.setting import Setting

StartName = Literal["random", "copying"]
Scores = Literal["both", "positions", "printed"]
HEADS = (2, 4, 8)  # in each layer
Variant = tuple[str, str]  # what layer 1's scores see, and the start


@dataclass(frozen=True)
class Arms:
    """Toys at some widths: what layer 1's scores see (`icl.toys.end_to_end.Scores`), the start, and the heads of each
    layer.  Both architectures with two, MHA alone with more."""

    widths: tuple[int, ...]
    scores: Scores = "both"
    start: StartName = "random"
    heads: int = 2

    @property
    def toys(self) -> dict[str, Heads]:
        return TOYS if self.heads == 2 else {many_heads(self.heads): (ORDINARY,) * self.heads}


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All arms of one task, trained at all `learning_rates` from the random start with nothing assumed, else at the
    first of them."""

    size: Setting
    arms: tuple[Arms, ...]
    steps: int
    learning_rates: tuple[float, ...]

    @property
    def widths(self) -> list[int]:
        return sorted({width for arms in self.arms for width in arms.widths})

    @property
    def heads(self) -> list[int]:
        return sorted({arms.heads for arms in self.arms})


@dataclass(frozen=True, kw_only=True)
class Config:
    """held_out, copying_prompts: of every seed, for the explained share and for the copying; construction_prompts: of
    all streams together, for the weights that theory writes down."""

    sweeps: tuple[Sweep, ...]
    held_out: int = 65_536
    copying_prompts: int = 2_048
    construction_prompts: int = 131_072


def many_heads(heads: int) -> str:
    """How results name MHA with so many heads in each layer."""
    return "mha" if heads == 2 else f"mha-{heads}"


def head_counts(arms: Json, size: str, variant: Variant, width: int) -> list[int]:
    """With how many heads MHA was trained at a width."""
    return [heads for heads in HEADS if arm_key(size, *variant, many_heads(heads), width) in arms]


def arm_key(size: str, scores: str, start: str, toy: str, width: int) -> str:
    """How results name an arm, of whose size they have the key."""
    return f"{size}/{scores}/{start}/{toy}/m{width}"


def widths(numbers: Json, arms: Json, size: str, variant: Variant) -> list[int]:
    """At which a variant was trained; said: what is predicted of the size."""
    return [width for width in map(int, numbers["widths"]) if arm_key(size, *variant, "mha", width) in arms]


def variants(numbers: Json, arms: Json, size: str) -> list[Variant]:
    """Those that were trained at a size."""
    every = product(get_args(Scores), get_args(StartName))
    return [variant for variant in every if widths(numbers, arms, size, variant)]


def arm_keys(numbers: Json, arms: Json, size: str) -> list[str]:
    """Of everything that was trained at a size."""
    cells = [
        (variant, width) for variant in variants(numbers, arms, size) for width in widths(numbers, arms, size, variant)
    ]
    return [arm_key(size, *variant, toy, width) for variant, width in cells for toy in TOYS]
