"""The verdicts of `dva-against-gpt2`, and what the difference of the two models is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from experiments.dva.against_gpt2.factors import (
    CELLS,
    DYNAMIC,
    FACTORS,
    MODEL_B,
    earliest,
    latest,
    parts,
    with_dynamic_values,
)
from experiments.dva.against_gpt2.points import (
    A_AT_B_S,
    B_AT_A_S,
    FEED_FORWARD,
    LEARNING,
    ONE_ORDINARY,
    PAIRS,
    TIME,
    WORDS,
)
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN, expected
from experiments.training.tuning import mark, other_rates
from experiments.verdicts.checks import Expectation
from experiments.verdicts.intervals import Interval, contrast, paired_differences, t_interval

PLAINEST = ONE_ORDINARY  # model a without what is said to be of use: unless that costs, nothing is free here
FAMILY = 5  # what is told of whole trainings: mean difference and roughness, each at two rates, and time
SETTLED = 0.2  # of the steps, after which the roughness of a training is taken


def verdicts(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    found = differences(measurement)
    for pair in prediction["compared"]:
        arm, against = pair["arm"], pair["against"]
        how = {-1: "lower than", 1: "higher than", 0: "no lower than"}[pair["sign"]]
        rates = other_rates((_tuned(arm), _tuned(against)), measurement)
        interval = found[arm, against]
        control = found[(TWIN if pair["sign"] else PLAINEST), BASELINE]
        signs = (1, -1) if pair["sign"] else (-1,)
        yield Expectation(
            f"{arm}/{against}",
            f"{called(arm, measurement)} less {called(against, measurement)}{rates}",
            pair["claim"],
            f"the loss ends {how} that of {WORDS[against]} ({pair['place']})",
            "sign" if pair["sign"] else "not less",
            float(pair["sign"]),
            interval.mean,
            interval.stderr,
            interval.half_width,
            tuple((sign * control.mean, control.half_width) for sign in signs),
            0.0 if pair["sign"] else prediction["similar"],
            quantity="difference of losses, nats a token",
        )
    yield from _of_parts(measurement)
    yield from _of_trainings(prediction, measurement)
    yield from _overfitting(measurement)


def differences(measurement: Json) -> dict[tuple[str, str], Interval]:
    """Of every pair, and of those that verdicts are controlled by, with intervals that hold for all of them at once."""
    pairs = [(pair.arm, pair.against) for pair in PAIRS]
    return paired_differences(_losses(measurement), [*pairs, (TWIN, BASELINE), (PLAINEST, BASELINE)])


@dataclass(frozen=True)
class Part:
    """What a factor changes: the mean over all orders, as early as can be, and as late as can be."""

    mean: Interval
    earliest: Interval
    latest: Interval


def what_adds(measurement: Json) -> dict[str, Part]:
    """By factor, its part of model b's loss less model a's, with intervals that hold for all numbers at once."""
    found = {}
    for factor in FACTORS:
        weights = (parts()[factor], earliest(factor).weights(), latest(factor).weights())
        found[factor] = Part(*(_of_cells(measurement, some, 3 * len(FACTORS)) for some in weights))
    return found


def _of_cells(measurement: Json, weights: Mapping[str, float], family: int) -> Interval:
    losses = {name: losses for name, losses in _losses(measurement).items() if name in CELLS}
    return contrast(list(losses.values()), [weights.get(name, 0.0) for name in losses], family)


def called(name: str, measurement: Json) -> str:
    """With a mark, if its best learning rate is an end of those that were tried."""
    return f"{WORDS[name]}{mark(_tuned(name), measurement)}"


def _tuned(name: str) -> str:
    return BASELINE if name == TWIN else name


def _losses(measurement: Json) -> dict[str, list[float]]:
    return {name: [math.nan if x is None else x for x in of] for name, of in measurement["loss"].items()}


def of_trainings(measurement: Json, arm: str, base: str = BASELINE) -> dict[str, list[float]]:
    """By seed, of arm less base: mean difference of held-out losses, log ratios of roughness and of time a token."""
    found: dict[str, list[float]] = {"held out": [], "roughness": [], "time": []}
    speeds = measurement["tokens_per_second"]
    for i, (ours, other) in enumerate(zip(measurement["curves"][arm], measurement["curves"][base], strict=True)):
        whole = ours is not None and other is not None
        found["held out"].append(_mean_difference(ours["held_out"], other["held_out"]) if whole else math.nan)
        rough = [roughness(x["training"]) for x in (ours, other)] if whole else [math.nan, math.nan]
        found["roughness"].append(math.log(rough[0] / rough[1]) if min(rough) > 0 else math.nan)
        known = speeds[arm][i] and speeds[base][i]
        found["time"].append(math.log(speeds[base][i] / speeds[arm][i]) if known else math.nan)
    return found


def roughness(curve: Sequence[Sequence[float]]) -> float:
    """The standard deviation of second differences of the logged training losses, after a fifth of the steps."""
    losses = [loss for step, loss in curve if step > SETTLED * curve[-1][0]]
    return pstdev([c - 2 * b + a for a, b, c in zip(losses, losses[1:], losses[2:], strict=False)] or [0.0])


def _mean_difference(ours: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float:
    pairs = [(a, b) for (step, a), (other, b) in zip(ours, base, strict=True) if step == other]
    return sum(a - b for a, b in pairs) / len(pairs)


def _of_parts(measurement: Json) -> Iterator[Expectation]:
    twin = differences(measurement)[TWIN, BASELINE]
    yield expected(
        f"part/{DYNAMIC}",
        "dynamic values' part of model b's loss less model a's",
        LEARNING,
        "dynamic values lower the loss, in the mean over all orders (sections 3 and 5)",
        "sign",
        -1.0,
        what_adds(measurement)[DYNAMIC].mean,
        twin,
        quantity="part of the difference of losses, nats a token",
    )
    yield expected(
        "part/with dynamic values",
        "leaving out the feed-forward: with dynamic values less with static ones",
        FEED_FORWARD,
        "it costs less with dynamic values, which are why it can be left out (abstract)",
        "sign",
        -1.0,
        _of_cells(measurement, with_dynamic_values(), 1),
        twin,
        quantity="part of the difference of losses, nats a token",
    )


def _of_trainings(prediction: Json, measurement: Json) -> Iterator[Expectation]:
    twin = of_trainings(measurement, TWIN)
    said = {
        "held out": (-1.0, "it learns faster: held-out losses on the way are lower"),
        "roughness": (prediction["smoother"], "its training curve is the smoother one"),
    }
    at_one_rate = {"a": of_trainings(measurement, B_AT_A_S), "b": of_trainings(measurement, MODEL_B, A_AT_B_S)}
    told = {
        f"{kind} at model {model}'s rate": (
            found[kind],
            LEARNING,
            predicted,
            f"{statement}, at the learning rate that is best for model {model}",
        )
        for kind, (predicted, statement) in said.items()
        for model, found in at_one_rate.items()
    }
    faster = math.log(prediction["faster"]["paper"])
    told["time"] = (of_trainings(measurement, MODEL_B)["time"], TIME, faster, "it takes less time")
    for kind, (values, claim, predicted, statement) in told.items():
        what = kind.partition(" at ")[0]
        unit = "nats a token" if what == "held out" else "log ratio"
        yield expected(
            f"training/{kind}",
            f"model b beside model a, over a training: {kind}",
            claim,
            f"{statement} (section 5)",
            "sign",
            predicted,
            t_interval(values, FAMILY),
            t_interval(twin[what], FAMILY),
            quantity=f"over a training: {what}, {unit}",
        )


def _overfitting(measurement: Json) -> Iterator[Expectation]:
    """Mean losses of the last epoch less those of the second; controlled by the same of text that is read once."""
    epochs = measurement["epochs"]
    for name in (BASELINE, MODEL_B):
        again, once = (
            t_interval([_risen(curves, epochs) for curves in measurement[kind][name]], 2)
            for kind in ("again", "curves")
        )
        yield Expectation(
            f"again/{name}",
            f"text read {epochs:.2g} times: {WORDS[name]}",
            LEARNING,
            "held-out losses rise when the text is read again and again (section 5)",
            "sign",
            1.0,
            again.mean,
            again.stderr,
            again.half_width,
            ((once.mean, once.half_width),),
            quantity="held-out loss of the last fifth less the second, nats a token",
        )


def _risen(curves: Json | None, epochs: float) -> float:
    """A training's parts are as long as an epoch; the first evaluation of one stands at its end or later."""
    if curves is None:
        return math.nan
    steps, losses = zip(*curves["held_out"], strict=True)
    parts = [math.ceil(epochs * step / steps[-1]) for step in steps]
    second, last = ([x for part, x in zip(parts, losses, strict=True) if part == at] for at in (2, parts[-1]))
    return fmean(last) - fmean(second) if second and last else math.nan
