"""The verdicts of `attnres-compute`: who is ahead, what decides it, and factors in compute."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from experiments.attnres.compute.points import ALGEBRA, COMPUTE, FULL, LOSS, PRINTED
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.of_widths import losses_of, rates, untuned, worth_of
from experiments.training.tuning import rates_in_brackets
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, paired_differences, t_interval
from experiments.verdicts.worth import Worth

ALIKE = 0.03  # nats within which two trainings that rounding alone tells apart are called alike


def verdicts(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    for width in measurement["widths"]:
        yield from _pairs(prediction, measurement, width)
        yield from _factors(prediction, measurement, width)


def differences(prediction: Json, measurement: Json, width: str) -> dict[tuple[str, str], Interval]:
    """Of all pairs, and of vanilla's twin, with intervals that hold for all of them at once."""
    pairs = [(pair["arm"], pair["against"]) for pair in prediction["compared"]]
    return paired_differences(losses_of(measurement, width), [*pairs, (TWIN, BASELINE)])


def factor(measurement: Json, name: str, width: str) -> Worth | None:
    """FLOPs of the PreNorm model that does as well, over one's own."""
    return worth_of(measurement, name, width, lambda of, about: float(about["compute"][of]))


def _pairs(prediction: Json, measurement: Json, width: str) -> Iterator[Expectation]:
    found = differences(prediction, measurement, width)
    words = {name: choice["words"] for name, choice in prediction["choices"].items()}
    at = f"at {measurement['widths'][width]['parameters'][BASELINE] / 1e6:.2f}M parameters"
    for pair in prediction["compared"]:
        arm, against = pair["arm"], pair["against"]
        apart = rates_in_brackets(*rates(measurement, width, arm, against))
        marked = [f"{words[name]}{untuned(name, width, measurement)}" for name in (arm, against)]
        name, group = f"loss/{arm}/{against}/{width}", f"{pair['by']}: {marked[0]} less {marked[1]}"
        interval, quantity = found[arm, against], "difference of held-out losses, nats a token"
        if pair["by"] == ALGEBRA:
            free, losses = found[FULL, BASELINE], losses_of(measurement, width)
            alone = [a - b for a, b in zip(losses[arm], losses[against], strict=True)]
            interval = t_interval(alone, len(found))  # rounding's spread is not that of the other pairs
            yield Expectation(
                name,
                group,
                LOSS,
                f"{words[arm]} ends as {words[against]}, {at}{apart}",
                "none",
                0.0,
                interval.mean,
                interval.stderr,
                interval.half_width,
                ((free.mean, free.half_width),),
                ALIKE,
                quantity,
            )
            continue
        better = "lower" if pair["sign"] < 0 else "higher"
        yield expected(
            name,
            group,
            LOSS,
            f"{words[arm]} ends {better} than {words[against]}, {at}{apart}",
            "sign",
            float(pair["sign"]),
            interval,
            found[TWIN, BASELINE],
            quantity=quantity,
        )


def _factors(prediction: Json, measurement: Json, width: str) -> Iterator[Expectation]:
    """Nothing where vanilla has one size alone."""
    twin = factor(measurement, TWIN, width)
    for name, rule in PRINTED.items():
        if name not in prediction["choices"]:
            continue
        ours = factor(measurement, name, width)
        if ours is None or twin is None:
            continue
        words = f"{prediction['choices'][name]['words']}{untuned(name, width, measurement)}"
        logs = [math.log(of_size[0]) for of_size in prediction["printed"][rule].values()]
        said, range_ = fmean(logs), (max(logs) - min(logs)) / 2
        parameters = measurement["widths"][width]["parameters"][BASELINE]
        yield expected(
            f"factor/{name}/{width}",
            f"{words}: worth in compute what the paper's losses make it",
            COMPUTE,
            f"at {parameters / 1e6:.2f}M parameters {words} is worth {math.exp(said):.2f} times its compute, as "
            f"printed losses make {rule} at 194M to 528M; measured {ours.told()}",
            "size",
            said,
            ours.in_logs(),
            twin.of_twin(),
            slack=range_,
            quantity="logarithm of PreNorm's compute for the same loss, over one's own",
        )
