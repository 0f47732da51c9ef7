"""What is trained and built: sweeps of arms, the keys that results stand under, and theory's weights for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from theory.plans.heads import ORDINARY, SKIP, Heads
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from theory.skipv1.softmax_moments import Moments

SIGMA = 0.3
TRANSFORMER = "transformer"
KINDS: dict[str, dict[str, Heads]] = {
    "two heads": {"mha": (ORDINARY, ORDINARY), "skipv1": (ORDINARY, SKIP)},
    "three heads": {"mha": (ORDINARY, ORDINARY, ORDINARY), "skipv1": (ORDINARY, SKIP, SKIP)},
    TRANSFORMER: {"mha": (ORDINARY,), "skipv1": (SKIP,)},
}
BUILT = tuple(kind for kind in KINDS if kind != TRANSFORMER)  # those that theory knows weights for
LOGITS = tuple(0.02 * 1.4**i for i in range(16))
SAMPLES = 4_000  # of queries and contexts, to choose logits by
FINAL_SAMPLES = 40_000


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Compressed models and those with raw values, of some kinds, trained on one task."""

    size: Setting
    kinds: tuple[str, ...]
    steps: int
    learning_rate: float


@dataclass(frozen=True, kw_only=True)
class Config:
    """curves: for each d, the prompts' lengths of a curve; logits: the tasks whose loss is shown over the logits;
    held_out and construction_prompts: of every seed, and of all streams together."""

    sweeps: tuple[Sweep, ...]
    curves: tuple[tuple[int, tuple[int, ...]], ...]
    logits: tuple[Setting, ...]
    held_out: int
    construction_prompts: int

    @property
    def sizes(self) -> tuple[Setting, ...]:
        return tuple(dict.fromkeys(sweep.size for sweep in self.sweeps))


@dataclass(frozen=True)
class Construction:
    """Weights of `theory.skipv1.softmax` at full rank, and the share of W* that they explain."""

    logit_scale: float
    step: float
    share: float


def arm_key(size: str, kind: str, toy: str) -> str:
    """How results name an arm, of whose size they have the key."""
    return f"{size}/{kind}/{toy}"


def rank(size: Setting, toy: str) -> int:
    """The best one, of the compressed models and of those with raw values."""
    return size.d // 2 if toy == "mha" else size.d


@cache
def construction(size: Setting, kind: str) -> Construction:
    """With the best of LOGITS, by sampled moments; the share is that sample's."""
    heads, moments = KINDS[kind]["skipv1"], moments_over_logits(size)
    scale, best = max(zip(LOGITS, moments, strict=True), key=lambda pair: pair[1].explained(size.d, heads))
    return Construction(scale, best.step(heads), best.explained(size.d, heads) / size.d**2)


@cache
def moments_over_logits(size: Setting) -> tuple[Moments, ...]:
    """At full rank, for each of LOGITS, from the same sample."""
    from theory.skipv1.softmax_moments import sampled

    return tuple(sampled(*size.floats, size.d, scale, SAMPLES) for scale in LOGITS)
