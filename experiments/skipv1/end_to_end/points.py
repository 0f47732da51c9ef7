"""What is trained: sweeps of arms, and the keys that results stand under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from theory.plans.setting import Setting

if TYPE_CHECKING:
    pass


StartName = Literal["random", "copying"]


@dataclass(frozen=True)
class Arms:
    """Both architectures at some widths: what layer 1's scores see (`icl.toys.end_to_end.Scores`), and the start."""

    widths: tuple[int, ...]
    scores: Literal["both", "positions", "printed"] = "both"
    start: StartName = "random"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All arms of one task, which are trained as one stack: at all `learning_rates` from the random start with nothing
    assumed, else at the first of them."""

    size: Setting
    arms: tuple[Arms, ...]
    steps: int
    learning_rates: tuple[float, ...]

    @property
    def widths(self) -> list[int]:
        return sorted({width for arms in self.arms for width in arms.widths})


@dataclass(frozen=True, kw_only=True)
class Config:
    """held_out, copying_prompts: of every seed, for the explained share and for the copying; construction_prompts: of
    all streams together, for the weights that theory writes down."""

    sweeps: tuple[Sweep, ...]
    held_out: int = 65_536
    copying_prompts: int = 2_048
    construction_prompts: int = 131_072


def arm_key(size: str, scores: str, start: str, toy: str, width: int) -> str:
    return f"{size}/{scores}/{start}/{toy}/m{width}"
