"""The verdicts of `attnres-ablations`: the signs of the paper's table."""

from __future__ import annotations

import math
from collections.abc import Iterator

from experiments.attnres.ablations.points import WORDS, trial
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.tuning import mark, other_rates
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, paired_differences


def verdicts(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    found = differences(prediction, measurement)
    for pair in prediction["compared"]:
        arm, against = pair["arm"], pair["against"]
        better = "lower" if pair["sign"] < 0 else "higher"
        yield expected(
            f"{arm}/{against}",
            f"{called(arm, measurement)} less {called(against, measurement)}{rates(arm, against, measurement)}",
            pair["claim"],
            f"the loss of {words(arm)} ends {better} than that of {words(against)} ({pair['place']})",
            "sign",
            float(pair["sign"]),
            found[arm, against],
            found[TWIN, BASELINE],
            quantity="difference of losses, nats a token",
        )


def differences(prediction: Json, measurement: Json) -> dict[tuple[str, str], Interval]:
    """Of every pair, and of the twin, with intervals that hold for all of them at once."""
    losses = {name: [math.nan if x is None else x for x in of] for name, of in measurement["loss"].items()}
    pairs = [(pair["arm"], pair["against"]) for pair in prediction["compared"]]
    return paired_differences(losses, [*pairs, (TWIN, BASELINE)])


def words(name: str) -> str:
    return WORDS.get(name, "PreNorm")


def called(name: str, measurement: Json) -> str:
    """With a mark, if its best learning rate is an end of those that were tried."""
    return f"{words(name)}{mark(_tried(name, measurement), measurement)}"


def rates(arm: str, against: str, measurement: Json) -> str:
    """As `other_rates`, each at its depth rule's rate."""
    return other_rates((_tried(arm, measurement), _tried(against, measurement)), measurement)


def _tried(name: str, measurement: Json) -> str:
    return trial(BASELINE if name == TWIN else name, measurement["depth_rates"][name])
