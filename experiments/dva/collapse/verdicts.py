"""The verdicts of `dva-collapse`: memory against the formula; all ways against each other."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.dva.collapse.points import CLAIMS, SIDES
from experiments.store.folders import Json
from experiments.verdicts.checks import Check

TOLERANCE, ALTERED = 0.02, 0.1  # of a formula
OTHER_BOUND = 0.7  # of an upper bound, which something is above
ROUNDING = 1e-12


def verdicts(prediction: Json, measurement: Json) -> Iterator[Check]:
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
