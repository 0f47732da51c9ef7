"""What variants are worth in width, rung by rung, against what theory says of rung 1."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite, log2, nan

from experiments.across.ladder.points import key
from experiments.across.ladder.reading import NEARLY, OCTAVES, Results
from experiments.training.campaign import TWIN
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval
from experiments.verdicts.worth import Worth

WORTH = "toy.worth"
OPEN = 8.0  # log2: more than any worth


def worths(results: Results, rung: str, task: str) -> Iterator[Expectation]:
    """In width.  Where vanilla no longer grows no interval ends, so that it is of explaining NEARLY as much.

    Controls: vanilla's twin and a worth of one, where the toy says another; a worth of two, where it says one.  At
    vanilla's least width a worth of one has no lower end that could be seen, nor has the twin's: unless a variant is a
    little ahead such a worth can only be contradicted, and of two controls the second alone tells anything.
    """
    numbers = results.tasks[task]
    widths = numbers["vanilla_widths"]
    for width in numbers["widths"]:
        if len(widths) < 2:
            return
        for variant in results.compared(rung, task, width):
            toy = numbers["worth"].get(variant, {}).get(str(width))
            if not toy:
                continue
            where = (rung, task, variant, width)
            found, one = results.worth(*where, less=NEARLY), abs(log2(toy)) <= OCTAVES
            measured = _octaves(found)
            twin = _octaves(results.worth(rung, task, TWIN, width, less=NEARLY))
            controls = [(twin.mean, twin.half_width), (0.0, 0.0)]
            if one:
                controls = [(1.0, 0.0)]
            yield Expectation(
                id=f"worth/{key(*where)}",
                group=f"rung {rung}: worth of {variant}{results.note(*where)}, width {width}, {task}",
                claim=WORTH,
                statement=f"{variant} of width {width} explains what vanilla of {toy:.3g} times the width explains; "
                f"all but {NEARLY:g} of the signal it explains at {_in_words(found)} times the width, and at "
                f"{_in_words(results.worth(*where, parameters=True, less=NEARLY))} times the parameters",
                rule="none" if one else "size",
                predicted=log2(toy),
                measured=measured.mean,
                stderr=nan,
                tolerance=measured.half_width,
                controls=tuple(controls) if results.judged(*where, wider=True) else (),
                slack=OCTAVES,
                quantity="log2 of the worth in width, open ends 8 away",
            )


def _octaves(found: Worth) -> Interval:
    """An interval that is open on one side reaches OPEN beyond its end: it may contradict, and never agrees."""
    least, most = (log2(end) if isfinite(end) else end for end in (found.least, found.most))
    if not (isfinite(least) or isfinite(most)):
        return Interval(nan, nan, inf)
    least = least if isfinite(least) else most - OPEN
    most = most if isfinite(most) else least + OPEN
    return Interval((least + most) / 2, nan, (most - least) / 2)


def _in_words(found: Worth) -> str:
    beyond = {inf: "more than was trained", -inf: "less than was trained"}
    point = f"{found.factor:.2f}" if isfinite(found.factor) else beyond.get(found.factor, "nobody knows how many")
    least = f"from {found.least:.2f}" if isfinite(found.least) else "from below the least"
    most = f"to {found.most:.2f}" if isfinite(found.most) else "to beyond the most"
    return f"{point} ({least} {most})"
