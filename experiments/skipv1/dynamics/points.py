"""What is trained: balanced starts, whose plateaus have predicted heights and times, and Gaussian ones by the dozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from theory.plans.heads import ORDINARY, SKIP, Heads
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from icl.toys.stacked import Given
    from theory.skipv1.dynamics import HeadKind


@dataclass(frozen=True, kw_only=True)
class Staircase:
    """Two heads, one of them in balance (`theory.skipv1.dynamics`, Theorem 4) with keys diag(scales), the other with
    Gaussian keys `others` times as large as the largest of these and no readout.

    past            how long it is trained, in units of the last predicted step
    learning_rate   of plain gradient descent, constant; batch: prompts a step; log_every: steps a point of the curve
    """

    size: Setting
    toy: str
    scales: tuple[float, ...]
    others: float = 0.5
    past: float = 1.35
    learning_rate: float = 0.01
    batch: int = 64
    log_every: int = 15

    @property
    def key(self) -> str:
        return f"{self.size.key}/{self.toy}/a{self.rank}"

    @property
    def rank(self) -> int:
        return len(self.scales)

    @property
    def heads(self) -> Heads:
        return heads(self.toy, 2)

    @property
    def kind(self) -> HeadKind:
        return "skip" if self.toy == "skipv1" else "ordinary"

    @property
    def rows(self) -> int:
        """How many entries of W* are learned at a time."""
        return rows(self.toy, self.size.d, self.rank)

    @property
    def steps(self) -> int:
        """A whole number of points of the curve."""
        from theory.skipv1.dynamics import step_times

        last = step_times(*self.size.floats, self.scales, self.kind)[-1]
        return max(1, round(self.past * last / (self.learning_rate * self.log_every))) * self.log_every

    @property
    def times(self) -> list[float]:
        """The middles of the windows that a point of the curve averages over."""
        window = self.learning_rate * self.log_every
        return [(i + 0.5) * window for i in range(self.steps // self.log_every)]

    def start(self) -> Given:
        """The same for every seed: seeds differ in their prompts."""
        import numpy as np

        from icl.toys.stacked import Given
        from theory.skipv1.dynamics import balanced_start

        d, rank = self.size.d, self.rank
        parts = balanced_start(d, self.scales, self.kind)
        noise = np.random.default_rng(0).standard_normal((d, rank)) / d**0.5
        other, idle = self.others * max(self.scales) * noise, np.zeros((d, d))
        w, k = (idle, parts["v"]), (other, parts["k"])
        if self.kind == "ordinary":
            w, k = w[::-1], k[::-1]
        return Given.of({"a": parts["a"], "b": parts["b"], "w": w, "k": k})


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Gaussian starts of one toy.  keys: how many times larger the keys start than the compression."""

    toy: str
    rank: int
    heads: int
    keys: float

    @property
    def key(self) -> str:
        return f"{self.toy}/a{self.rank}/h{self.heads}/keys{self.keys:g}"

    @property
    def bounded(self) -> bool:
        """Whether Theorem 3 says of its start at which ranks it may end."""
        return self.toy == "skipv1" and self.heads == 2


@dataclass(frozen=True, kw_only=True)
class Shares:
    """arms, trained for `time` by plain gradient descent whose rate falls to zero, with `batch` prompts a step.

    starts      of each arm, to a seed
    flows       of how many of them the exact gradient flow is followed as well, for arms with two heads
    adam_steps  for arms that are trained by Adam too, at the same rate
    """

    size: Setting
    arms: tuple[Arm, ...]
    flows: int
    starts: int = 2
    time: float = 15.0
    learning_rate: float = 0.02
    batch: int = 32
    adam_steps: int = 1500

    @property
    def steps(self) -> int:
        """The rate falls like the square of what is left: its sum is a third."""
        return round(3 * self.time / self.learning_rate)

    @property
    def by_adam(self) -> list[Arm]:
        """Arms that are trained by Adam too: two heads, the highest rank of each toy."""
        two = [arm for arm in self.arms if arm.heads == 2]
        return [arm for arm in two if arm.rank == max(other.rank for other in two if other.toy == arm.toy)]


@dataclass(frozen=True, kw_only=True)
class Config:
    staircases: tuple[Staircase, ...]
    shares: Shares


def heads(toy: str, count: int) -> Heads:
    """MHA's, or SkipV1Former's, half of which are skip heads."""
    return (ORDINARY,) * count if toy == "mha" else (ORDINARY,) * (count // 2) + (SKIP,) * (count // 2)


def rows(toy: str, d: int, rank: int) -> int:
    """How many entries of W* a direction of A is worth: d, or, for MHA, what B keeps of y."""
    return d if toy == "skipv1" else d - rank
