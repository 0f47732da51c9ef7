"""What each ingredient does to each variant's gap, in numbers and in words: along the ladder, and in other orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from experiments.across.gaps import KEPT
from experiments.across.ladder.points import REORDERED
from experiments.across.ladder.reading import Results, by_ingredient
from experiments.across.ladder.rungs import FIRST, ROTARY, THEORY, cell
from experiments.training.campaign import BASELINE, TWIN
from experiments.verdicts.intervals import Interval

ADDED = {
    "residual": "a residual stream",
    "softmax": "softmax",
    "norms": "norms",
    "feed-forward": "a feed-forward",
    ROTARY: "rotary positions",
}


@dataclass(frozen=True)
class Effect:
    """Of what `after` adds to `before`, both rungs: the change of a variant's gap to vanilla at the first width.

    width    in words
    added    in words
    twin     the same of vanilla's twin
    word     keeps, bends, breaks or undecided
    doubt    why nothing is to be made of it: an arm has not converged, on one of the rungs no model learns, or the
             twin's change may be as large; empty if there is none
    """

    before: str
    after: str
    added: str
    width: str
    task: str
    variant: str
    gap_before: Interval
    gap_after: Interval
    change: Interval
    twin: Interval
    word: str
    doubt: str

    @property
    def sentence(self) -> str:
        does = {"undecided": f"what adding {self.added} does is undecided: "}.get(
            self.word, f"adding {self.added} {self.word} "
        )
        return (
            f"{does}{self.variant}'s gap to vanilla at width {self.width} ({self.task}), from "
            f"{self.gap_before.mean:.3f} to {self.gap_after.mean:.3f} of the signal, "
            f"{self.change.mean:+.3f} +- {self.change.half_width:.3f}"
            f"{'; ' if self.doubt else ''}{self.doubt}"
        )


def climbed(results: Results) -> Iterator[Effect]:
    """From each rung to the next, of every variant of which there is a gap before."""
    for task in results.tasks:
        for before, after in pairwise(_neighbours(results)):
            added = _added(results, before, after)
            for variant in results.variants:
                if before != THEORY or results.toy_gap(task, variant, results.width(task)) is not None:
                    yield _effect(results, before, after, added, task, variant, results.family)


def _added(results: Results, before: str, after: str) -> str:
    """In words: all that is new, where rungs between these two were left out."""
    had, has = (results.prediction["cells"].get(rung, []) for rung in (before, after))
    new = [ADDED[ingredient] for ingredient in has if ingredient not in had]
    return " and ".join(filter(None, [", ".join(new[:-1]), *new[-1:]])) or results.prediction["rungs"][after]


def _neighbours(results: Results) -> list[str]:
    """Rungs, each of which adds something to the one before."""
    return [THEORY, *results.rungs] if results.rungs[0] == FIRST else results.rungs


def permuted(results: Results) -> Iterator[Effect]:
    """Of each ingredient, added to each set of the others to which it was: one variant's."""
    trained = results.prediction["cells"]
    pairs = [
        (before, after, new)
        for before, had in trained.items()
        for new in ADDED
        if new not in had and (after := cell([*had, new]).key) in trained
    ]
    if not results.prediction["orders"] or REORDERED not in results.variants:
        return
    for task in results.tasks:
        for before, after, new in pairs:
            yield _effect(results, before, after, ADDED[new], task, REORDERED, len(pairs))


def _effect(results: Results, before: str, after: str, added: str, task: str, variant: str, family: int) -> Effect:
    width = results.width(task)
    change = results.change(before, after, task, variant, width, family)
    gap_before, gap_after = (results.gap(rung, task, variant, width) for rung in (before, after))
    of_twin = results.change(before, after, task, TWIN, width, family) if before != THEORY else None
    twin = of_twin or results.gap(after, task, TWIN, width)
    trained = [rung for rung in (before, after) if rung != THEORY]
    doubts = {
        "not all of these trainings have converged": all(
            results.converged(rung, task, v, width) for rung in trained for v in (variant, BASELINE)
        ),
        "no model there explains as much as the toy's vanilla": all(
            results.learns(rung, task, width) for rung in trained
        ),
        # A change that is none needs no twin: it is held against what is known to be one.
        "the twin's may be as large": abs(change.mean) <= KEPT or abs(twin.mean) + twin.half_width < abs(change.mean),
    }
    return Effect(
        before=before,
        after=after,
        added=added,
        width=results.at_width(task),
        task=task,
        variant=variant,
        gap_before=gap_before,
        gap_after=gap_after,
        change=change,
        twin=twin,
        word=by_ingredient(change, gap_before, gap_after),
        doubt=", ".join(doubt for doubt, dispelled in doubts.items() if not dispelled),
    )
