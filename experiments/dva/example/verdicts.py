"""The verdicts of `dva-example`: the best of all restarts ends at the least error, and none below."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.dva.example.points import EXAMPLE, LAYERS
from experiments.store.folders import Json
from experiments.verdicts.checks import Check

REACHED, ROUNDING = 0.01, 1e-9  # of a meaning's square


def verdicts(prediction: Json, measurement: Json) -> Iterator[Check]:
    for name, said in prediction["least"].items():
        layer, table, _ = name.split("/")
        one = 1 / prediction["meanings"][table]
        yield Check(
            id=name,
            group=f"{LAYERS[layer].words}, {table}",
            claim=EXAMPLE,
            statement="the best of all restarts ends at the least error, and none below it",
            predicted=said,
            measured=min(measurement["errors"][name]),
            stderr=0.0,
            tolerance=ROUNDING,
            controls=(said - one, said + one),  # a meaning more, or fewer, told apart
            above=REACHED,
            slack=REACHED,
            quantity="mean squared error, of a meaning's square",
        )
