"""The verdicts of `dva-collapse`: memory and time against formulas; all ways against each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from experiments.dva.collapse.points import CLAIMS, SIDES
from experiments.store.folders import Json
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import t_interval

TOLERANCE, ALTERED = 0.02, 0.1  # of a formula
OTHER_BOUND = 0.7  # of an upper bound, which something is above
ROUNDING = 1e-12
FACTOR = 1.5  # of times, within which they go with products


def verdicts(prediction: Json, measurement: Json) -> Iterator[Judgement]:
    yield from _memory(prediction, measurement)
    yield from _times(prediction["products"], measurement["seconds"])


def _memory(prediction: Json, measurement: Json) -> Iterator[Check]:
    for name, by_tokens in measurement["peak"].items():
        side = SIDES[name]
        for tokens, found in by_tokens.items():
            said = prediction["peak"][name][tokens]
            controls = (OTHER_BOUND * said,) if side.blocks else ((1 - ALTERED) * said, (1 + ALTERED) * said)
            yield Check(
                id=f"peak/{name}/{tokens}",
                group=f"numbers at the peak: {side.words}",
                claim=CLAIMS[side.form],
                statement=f"a forward and a backward pass need {'no more than' if side.blocks else 'what'} the formula "
                "says",
                predicted=said,
                measured=found,
                stderr=0.0,
                tolerance=0.0 if side.blocks else TOLERANCE * said,
                controls=controls,
                relation="at most" if side.blocks else "equal",
                slack=0.0 if side.blocks else TOLERANCE * said,
                quantity="numbers beside the inputs",
            )
            if tokens not in measurement["apart"].get(name, {}):  # the side that others are held against
                continue
            yield Check(
                id=f"equal/{name}/{tokens}",
                group=f"outputs and gradients: {side.words}",
                claim=CLAIMS[side.form],
                statement="outputs and all gradients are those of every pair's value, else of all queries at once",
                predicted=0.0,
                measured=measurement["apart"][name][tokens],
                stderr=0.0,
                tolerance=ROUNDING,
                controls=(measurement["wrong"],),
                slack=ROUNDING,
                quantity="largest relative difference",
            )


Times = Mapping[str, Mapping[str, Sequence[float]]]
Number = TypeVar("Number")


def _times(products: Json, seconds: Times) -> Iterator[Expectation]:
    """How each side grows from its last size but one to its last; what every pair's value costs, at the last size."""
    compared = []
    for name, side in SIDES.items():
        last = [(name, str(t)) for t in sorted(map(int, seconds.get(name, {})))[-2:]]
        if len(last) == 2:
            compared.append((f"grows/{name}", f"time over tokens: {side.words}", side, last[1], last[0]))
        if side.way == "pairs" and last:
            other = f"{side.form}, collapsed", last[-1][1]
            compared.append((f"saved/{name}", f"time of every pair's value: {side.form}", side, last[-1], other))
    for which, group, side, one, other in compared:
        turns = [math.log(a / b) for a, b in zip(_of(seconds, one), _of(seconds, other), strict=True)]
        if len(turns) < 2:
            continue
        found = t_interval(turns, len(compared))
        said = math.log(_of(products, one) / _of(products, other))
        yield Expectation(
            id=f"time/{which}",
            group=group,
            claim=CLAIMS[side.form],
            statement=f"{one[0]} at {one[1]} tokens takes as many times longer than {other[0]} at {other[1]} as it has "
            f"more products, to a factor of {FACTOR:g}",
            rule="none",
            predicted=0.0,
            measured=found.mean - said,
            stderr=found.stderr,
            tolerance=found.half_width,
            controls=tuple((off, found.half_width) for off in (math.log(2), -math.log(2))),
            slack=math.log(FACTOR),
            quantity="log of the ratio of times, less that of products",
        )


def _of(by_name: Mapping[str, Mapping[str, Number]], place: tuple[str, str]) -> Number:
    name, tokens = place
    return by_name[name][tokens]
