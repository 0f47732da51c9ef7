"""The verdicts of `scale-decode`: bytes and answers, which must hold; times, which are this machine's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from experiments.store.folders import Json
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, t_interval

BASELINE, SKIPV1 = "vanilla", "skipv1"
ROUNDING = {"float32": 1e-4, "bfloat16": 0.1}  # of scores, over the largest
SLOWER, AS_READ = math.log(1.05), math.log(1.1)
LOG = "logarithm of a step's seconds over vanilla's"


def verdicts(prediction: Json, measurement: Json, memory: str, speed: str) -> Iterator[Judgement]:
    rounding = ROUNDING[measurement["what"].rpartition(" ")[2]]
    for name, side in measurement["sides"].items():
        yield Check(
            id=f"answer/{name}",
            group="steps answer as a whole pass",
            claim=speed,
            statement=f"{name}: scores of steps are those of a pass over all tokens",
            predicted=0.0,
            measured=side["apart"],
            stderr=0.0,
            tolerance=rounding,
            controls=(1.0,),
            slack=rounding,
            quantity="largest difference of scores, over the largest",
        )
        if name not in prediction["kept"]:
            continue
        for size, found in side["sizes"].items():
            batch, tokens = map(int, size.split(" x "))
            said = batch * tokens * prediction["kept"][name] * (4 if rounding < 0.01 else 2)
            yield Check(
                id=f"bytes/{name}/{size}",
                group="bytes of the cache",
                claim=memory,
                statement=f"{name}: the cache of {batch} sequences of {tokens} tokens has the formula's bytes",
                predicted=float(said),
                measured=float(found["bytes"]),
                stderr=0.0,
                tolerance=0.0,
                controls=(said + 1.0, said - 1.0),
                quantity="bytes",
            )
    yield from _times(prediction, measurement, speed)


def over_vanilla(measurement: Json, name: str, size: str, times: float = 1.0) -> Interval:
    """The logarithm of a step's time over vanilla's, of all turns; times: as if it took so many times as long.

    The interval holds for all variants and sizes at once.
    """
    sides = measurement["sides"]
    ours, base = (sides[side]["sizes"][size]["turns"] for side in (name, BASELINE))
    family = (len(sides) - 1) * len(sides[BASELINE]["sizes"])
    return logs([times * a / b for a, b in zip(ours, base, strict=True)], family)


def logs(ratios: Sequence[float], family: int = 1) -> Interval:
    return t_interval([math.log(ratio) for ratio in ratios], family)


def _times(prediction: Json, measurement: Json, claim: str) -> Iterator[Expectation]:
    names = [name for name in prediction["read"] if name != BASELINE]
    for size in prediction["read"][BASELINE]:
        words = "{} sequences of {} tokens".format(*size.split(" x "))
        for name in names:
            found = over_vanilla(measurement, name, size)
            twice = over_vanilla(measurement, name, size, 2.0)
            if name == SKIPV1:
                yield Expectation(
                    f"slower/{name}/{size}",
                    f"{name}: a step takes no longer than vanilla's",
                    claim,
                    f"{name} takes no longer than vanilla, {words}",
                    "not less",
                    0.0,
                    -found.mean,
                    found.stderr,
                    found.half_width,
                    ((-twice.mean, twice.half_width),),
                    SLOWER,
                    f"minus the {LOG}",
                )
            said = math.log(prediction["read"][name][size] / prediction["read"][BASELINE][size])
            apart = found.mean - said
            yield Expectation(
                f"read/{name}/{size}",
                f"{name}: a step takes as long as what it reads",
                claim,
                f"{name}, {words}: {math.exp(found.mean):.2f} of vanilla's time for {math.exp(said):.2f} of what it "
                "reads",
                "none",
                0.0,
                apart,
                found.stderr,
                found.half_width,
                ((twice.mean - said, twice.half_width),),
                AS_READ,
                f"{LOG}, less that of what is read",
            )
