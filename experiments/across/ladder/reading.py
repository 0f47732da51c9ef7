"""What a measurement of the ladder says: shares, gaps, worths and convergence, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, nan

from experiments.across.gaps import KEPT
from experiments.across.ladder.points import key, parts
from experiments.across.ladder.rungs import THEORY
from experiments.across.results import Read, explained
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.restarts import Losses
from experiments.verdicts.intervals import Interval, share_interval, t_interval
from experiments.verdicts.worth import Worth, worth

# All fixed before anything was trained, as is `experiments.across.gaps.KEPT`.
CONVERGED = 0.02  # of the signal: what the last doubling of the steps may change
SETS_IN = 0.25  # of what vanilla's toy explains at the same width
OCTAVES = 0.25  # log2 of a worth that is one, and how far one of the toy's size may be from it
NEARLY = 0.02  # of the signal, that vanilla may explain less and yet be as good, where a worth is judged


@dataclass(frozen=True)
class SetIn:
    """Trainings in which in-context learning sets in, of how many; the exact interval of their probability; the mean
    share that those explain, NaN for none of them."""

    count: int
    trainings: int
    low: float
    high: float
    share: float

    @property
    def sentence(self) -> str:
        explained = f", which explain {self.share:.3f} of the signal" if self.count else ""
        which = f"{self.count} of {self.trainings} trainings ({self.low:.2f} to {self.high:.2f})"
        return f"learning sets in in {which}{explained}"


def set_in(shares: Sequence[float], toy: float) -> SetIn:
    """Of all trainings' shares, NaN where one diverged, against what vanilla's toy explains."""
    those = [share for share in shares if share > SETS_IN * toy]
    low, high = share_interval(len(those), len(shares), method="exact")
    return SetIn(len(those), len(shares), low, high, sum(those) / len(those) if those else nan)


def gained(few: Sequence[float], many: Sequence[float]) -> Interval:
    """What a doubling of the steps explains more, paired by seed: shares after both."""
    return t_interval([b - a for a, b in zip(few, many, strict=True)])


def reached(more: Interval) -> bool:
    """Whether a training that gained so much by its last doubling has converged; NaN: no.

    One that lost by it has not: its optimiser fails.
    """
    return abs(more.mean) + more.half_width <= CONVERGED


def settled(few: Losses, many: Losses, *, zero: float, signal: float, power: float) -> bool:
    """The same of losses, one a seed; what these are shares of: `experiments.across.results.explained`."""
    return reached(gained(*(explained(losses, zero=zero, signal=signal, power=power) for losses in (few, many))))


def marks(*, untuned: bool, converged: bool) -> str:
    """What stands behind the name of an arm: nothing, unless it is short of what it can do."""
    short = [name for name, is_so in (("untuned", untuned), ("not converged", not converged)) if is_so]
    return f" ({', '.join(short)})" if short else ""


class Results(Read):
    """Rungs, tasks and variants by name, widths in numbers a token."""

    @property
    def tasks(self) -> Mapping[str, Json]:
        """Those that were measured."""
        return {name: task for name, task in self.prediction["tasks"].items() if name in self.measurement["power"]}

    @property
    def rungs(self) -> list[str]:
        """Those that are trained."""
        return list(self.prediction["rungs"])

    def width(self, task: str) -> int:
        """At which ingredients and the order of the variants are judged: the first of those that are compared."""
        return int(self.tasks[task]["widths"][0])

    def at_width(self, task: str) -> str:
        """The same in words."""
        width = self.width(task)
        return "d" if width == self.tasks[task]["d"] else str(width)

    def compared(self, rung: str, task: str, width: int) -> list[str]:
        """The variants that are trained there."""
        return [v for v in self.variants if key(rung, task, v, width) in self.measurement["losses"]]

    def shares(self, rung: str, task: str, variant: str, width: int, steps: int | None = None) -> list[float]:
        """Of every seed, the share of E ||W*||^2 explained with all pairs in the context; NaN where it diverged.

        steps: of the training, by default the most.
        """
        by_steps = self.measurement["losses"][key(rung, task, variant, width)]
        return self._shares(task, by_steps[str(steps or self.lengths(rung, task, variant, width)[-1])], "power")

    def _shares(self, task: str, losses: Sequence[float | None], power_of: str) -> list[float]:
        numbers, power = self.tasks[task], self.measurement[power_of][task]
        return explained(losses, zero=numbers["zero_loss"], signal=numbers["d"] ** 2, power=power)

    def best(self, rung: str, task: str, variant: str, width: int) -> float:
        """The share of the best seed: what some weights of that shape explain, but for the noise of the prompts."""
        return max((share for share in self.shares(rung, task, variant, width) if isfinite(share)), default=nan)

    def alone(self, rung: str, task: str, variant: str, width: int) -> list[float]:
        """The share of every single training: of all restarts, after their own steps, or of all seeds."""
        power_of = (
            "power_of_trials" if "power_of_trials" in self.measurement else "power"
        )  # older ones had one for both
        tried = self._shares(task, self.tried(key(rung, task, variant, width)), power_of)
        return tried or self.shares(rung, task, variant, width)

    def lengths(self, rung: str, task: str, variant: str, width: int) -> list[int]:
        """Of its trainings, in steps, the shortest first."""
        return sorted(map(int, self.measurement["losses"][key(rung, task, variant, width)]))

    def learns(self, rung: str, task: str, width: int) -> bool:
        """Whether some model explains as much as vanilla's toy, so that there is anything to compare."""
        arms = (BASELINE, *self.compared(rung, task, width))
        means = [t_interval(self.shares(rung, task, v, width)).mean for v in arms]
        return any(mean >= self.tasks[task]["share"][BASELINE][str(width)] for mean in means)

    def distinct(self, rung: str, task: str, width: int) -> list[str]:
        """Vanilla and the variants that are trained there, without those that are one model with one before them: at
        two layers a plan may have two names."""
        found: dict[str, Json] = {}
        for variant in (BASELINE, *self.compared(rung, task, width)):
            losses = self.measurement["losses"][key(rung, task, variant, width)]
            if losses not in found.values():
                found[variant] = losses
        return list(found)

    def gaps(self, rung: str, task: str, variant: str, width: int) -> list[float]:
        """Of every seed, to vanilla."""
        both = (self.shares(rung, task, v, width) for v in (variant, BASELINE))
        return [a - b for a, b in zip(*both, strict=True)]

    def gap(self, rung: str, task: str, variant: str, width: int) -> Interval:
        """Of rung 1, the toy's, which is exact; NaN where the toy has nothing to say."""
        if rung == THEORY:
            predicted = self.toy_gap(task, variant, width)
            return Interval(nan if predicted is None else predicted, 0.0, 0.0)
        return t_interval(self.gaps(rung, task, variant, width), self.family)

    def toy_gap(self, task: str, variant: str, width: int) -> float | None:
        share = self.tasks[task]["share"]
        pair = share.get(variant, {}).get(str(width)), share[BASELINE][str(width)]
        return None if pair[0] is None or pair[1] is None else pair[0] - pair[1]

    def change(self, before: str, after: str, task: str, variant: str, width: int, family: int) -> Interval:
        """Of the gap from one rung to another, paired by seed."""
        later = self.gaps(after, task, variant, width)
        if before == THEORY:
            earlier = [self.gap(THEORY, task, variant, width).mean] * len(later)
        else:
            earlier = self.gaps(before, task, variant, width)
        return t_interval([b - a for a, b in zip(earlier, later, strict=True)], family)

    def doubling(self, rung: str, task: str, variant: str, width: int) -> Interval:
        """What the last doubling of the steps explains more; NaN where there was none."""
        lengths = self.lengths(rung, task, variant, width)
        if len(lengths) < 2:
            return Interval(nan, nan, nan)
        return gained(*(self.shares(rung, task, variant, width, steps) for steps in lengths[-2:]))

    def converged(self, rung: str, task: str, variant: str, width: int) -> bool:
        if rung == THEORY:
            return True
        return key(rung, task, variant, width) in self._converged

    @cached_property
    def _converged(self) -> set[str]:
        found = set()
        for name in self.measurement["losses"]:
            if reached(self.doubling(*parts(name))):
                found.add(name)
        return found

    def note(self, rung: str, task: str, variant: str, width: int) -> str:
        where = rung, task, variant, width
        return marks(untuned=key(*where) in self.untuned, converged=self.converged(*where))

    def judged(self, rung: str, task: str, variant: str, width: int, *, wider: bool = False) -> bool:
        """Whether a variant and vanilla have converged, and something is learned; wider: vanilla at all its widths."""
        others = self.tasks[task]["vanilla_widths"] if wider else [width]
        arms = [(variant, width), *((BASELINE, m) for m in others)]
        return self.learns(rung, task, width) and all(self.converged(rung, task, v, m) for v, m in arms)

    def sets_in(self, rung: str, task: str, variant: str, width: int) -> SetIn:
        """Of single trainings, the best of restarts or not; one that diverged does not set in."""
        shares, toy = self.alone(rung, task, variant, width), self.tasks[task]["share"][BASELINE][str(width)]
        return set_in(shares, toy)

    def worth(
        self, rung: str, task: str, variant: str, width: int, *, parameters: bool = False, less: float = 0.0
    ) -> Worth:
        """In vanilla's width, or in its parameters; of explaining so much less than the variant."""
        widths = self.tasks[task]["vanilla_widths"]
        of_variant, of_vanilla = float(width), {float(m): m for m in widths}
        if parameters:
            counts = self.prediction["parameters"]
            of_variant = counts[key(rung, task, BASELINE if variant == TWIN else variant, width)]
            of_vanilla = {counts[key(rung, task, BASELINE, m)]: m for m in widths}
        vanilla = {size: self.shares(rung, task, BASELINE, m) for size, m in of_vanilla.items()}
        shares = [share - less for share in self.shares(rung, task, variant, width)]
        return worth(of_variant, shares, vanilla, better="higher", family=self.family)


def against_toy(gap: Interval, toy: float) -> str:
    """keeps, bends, breaks or undecided: a rung's gap against the toy's, by the rule that is stored beforehand."""
    if not isfinite(gap.mean + gap.half_width):
        return "undecided"
    low, high = gap.mean - gap.half_width, gap.mean + gap.half_width
    if toy - KEPT <= low and high <= toy + KEPT:
        return "keeps"
    if toy - KEPT <= high and low <= toy + KEPT:
        return "undecided"
    return _signs(_side(Interval(toy, 0.0, 0.0)), gap)


def by_ingredient(change: Interval, before: Interval, after: Interval) -> str:
    """keeps, bends, breaks or undecided: what an ingredient does to a gap."""
    if not isfinite(change.mean + change.half_width):
        return "undecided"
    if abs(change.mean) + change.half_width <= KEPT:
        return "keeps"
    if abs(change.mean) - change.half_width <= KEPT:
        return "undecided"
    side = _side(before)
    return _signs(side, after)


def _signs(side: int | None, gap: Interval) -> str:
    """Of a gap that has changed: does it keep the side of zero that it had?  0: it had none; None: not known."""
    if side is None:
        return "undecided"
    if side == 0:
        return "breaks"
    if side * gap.mean > gap.half_width:
        return "bends"
    return "breaks" if side * gap.mean + gap.half_width <= KEPT else "undecided"


def _side(gap: Interval) -> int | None:
    """1 or -1; 0 for a gap that is none; None where that is not known."""
    if abs(gap.mean) + gap.half_width <= KEPT:
        return 0
    if not abs(gap.mean) > gap.half_width:
        return None
    return 1 if gap.mean > 0 else -1


def widest(intervals: Sequence[Interval]) -> float:
    """The largest half-width."""
    return max(interval.half_width for interval in intervals)
