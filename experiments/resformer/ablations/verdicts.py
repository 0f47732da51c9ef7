"""The verdicts of `resformer-ablations`: signs that the paper and the toy give to differences of losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from experiments.resformer.ablations.points import SHOWN
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.tuning import mark, other_rates
from experiments.verdicts.checks import Expectation, Judgement
from experiments.verdicts.intervals import Interval, paired_differences

WHOSE = {"paper": "the paper", "toy": "the toy"}


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    return list(_expectations(prediction, measurement))


def differences(prediction: Json, measurement: Json) -> dict[tuple[str, str], Interval]:
    """Of every pair that is judged or shown, in held-out loss, with intervals that hold for all of them at once."""
    losses = {name: [math.nan if x is None else x for x in of] for name, of in measurement["loss"].items()}
    judged = [(pair["arm"], pair["against"]) for pair in prediction["compared"]]
    return paired_differences(losses, list(dict.fromkeys([*judged, *SHOWN])))


def _expectations(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    found = differences(prediction, measurement)
    for pair in prediction["compared"]:
        arm, against = pair["arm"], pair["against"]
        better = "lower" if pair["sign"] < 0 else "higher"
        marks = [f"{name}{mark(name, measurement)}" for name in (arm, against)]
        yield expected(
            f"{pair['by']}/{arm}/{against}",
            f"{WHOSE[pair['by']]}: {marks[0]} less {marks[1]}{rates(arm, against, measurement)}",
            pair["claim"],
            f"the loss of {arm} ends {better} than that of {against} ({pair['place']})",
            "sign",
            float(pair["sign"]),
            found[arm, against],
            found[TWIN, BASELINE],
            quantity="difference of losses, nats a token",
        )


def rates(arm: str, against: str, measurement: Json) -> str:
    """As `other_rates`; twin has the baseline's."""
    mine, theirs = (BASELINE if name == TWIN else name for name in (arm, against))
    return other_rates((mine, theirs), measurement)
