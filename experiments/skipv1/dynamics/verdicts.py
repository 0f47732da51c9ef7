"""Heights and times of the steps, and where Gaussian starts end, held against theory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from experiments.skipv1.dynamics.predictions import crossings
from experiments.store.folders import Json
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import t_interval

HEIGHTS, TIMES, ENDS = "skipv1.critical-points", "skipv1.staircase", "skipv1.reachability"
OF_A_PLATEAU = 0.15  # of the distance between plateaus: the even part is not learned away at once
OF_A_TIME = 0.05  # of gradient descent with finite steps, against the flow
OF_THE_SIGNAL = 0.2  # of times of the signal alone, whose even part is left out, against the exact flow
ALTERED = 1.5  # the negative controls of times
WINDOWS = 3  # of a curve that are averaged before it is read


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    """By staircase: heights and times; of all Gaussian starts: heights and ranks."""
    judgements: list[Judgement] = []
    for key, stairs in prediction["staircases"].items():
        curves = [_smooth(curve) for curve in zip(*measurement["staircases"][key], strict=True)]
        judgements += _heights(key, stairs, curves)
        judgements += _times(key, stairs, curves)
    judgements += _ends(prediction["shares"], measurement["shares"])
    judgements += _ratios(prediction["shares"], measurement["shares"])
    return judgements


def reached(arm: Json, explained: Sequence[float]) -> list[bool]:
    """Of every toy: whether it ended nearer to its optimum than to the plateau above."""
    return [x / arm["unit"] > arm["rank"] - 0.5 for x in explained]


def _smooth(curve: Sequence[float]) -> list[float]:
    half = WINDOWS // 2
    return [fmean(curve[max(0, i - half) : i + half + 1]) for i in range(len(curve))]


def _heights(key: str, stairs: Json, curves: Sequence[Sequence[float]]) -> Iterator[Check]:
    """Over the middle half of the time from one step of the exact flow to the next, or to the end."""
    unit, steps = stairs["unit"], [*stairs["path_steps"], stairs["times"][-1]]
    for k, (since, until) in enumerate(pairwise(steps), start=1):
        quarter, height = (until - since) / 4, stairs["heights"][k]
        at = [i for i, t in enumerate(stairs["times"]) if since + quarter <= t <= until - quarter]
        found = t_interval([fmean(curve[i] for i in at) for curve in curves], stairs["rank"])
        yield Check(
            id=f"height/{key}/k{k}",
            group=f"heights of plateaus, {stairs['toy']}",
            claim=HEIGHTS,
            statement=f"with {k} directions learned, the loss is that of as many times {unit:.3g} explained",
            predicted=height,
            measured=found.mean,
            stderr=found.stderr,
            tolerance=found.half_width + OF_A_PLATEAU * unit,
            controls=(height - unit / 2, height + unit / 2),
            slack=OF_A_PLATEAU * unit,
            quantity="loss, squared units of y",
        )


def _times(key: str, stairs: Json, curves: Sequence[Sequence[float]]) -> Iterator[Check]:
    whole, without = _crossings_of_means(stairs, curves)
    for k, (closed, exact) in enumerate(zip(stairs["steps"], stairs["path_steps"], strict=True)):
        count = len(curves)
        found = t_interval([count * whole[k] - (count - 1) * left[k] for left in without], len(stairs["steps"]))
        for name, predicted, measured, half_width, slack, statement in (
            (
                "flow",
                closed,
                exact,
                0.0,
                OF_THE_SIGNAL,
                "the exact gradient flow takes its steps when the closed form says",
            ),
            (
                "trained",
                exact,
                found.mean,
                found.half_width,
                OF_A_TIME,
                "gradient descent takes its steps when the flow does",
            ),
        ):
            yield Check(
                id=f"time/{name}/{key}/k{k + 1}",
                group=f"times of steps, {name}, {stairs['toy']}",
                claim=TIMES,
                statement=statement,
                predicted=predicted,
                measured=measured,
                stderr=found.stderr if half_width else 0.0,
                tolerance=half_width + slack * predicted,
                controls=(predicted / ALTERED, predicted * ALTERED),
                slack=slack * predicted,
                quantity="time, steps times learning rate",
            )


def _crossings_of_means(stairs: Json, curves: Sequence[Sequence[float]]) -> tuple[list[float], list[list[float]]]:
    """Of the mean over seeds, and of the means without one of them, for a jackknife: one seed's curve is too noisy."""
    sums = [sum(losses) for losses in zip(*curves, strict=True)]
    count = len(curves)
    means = [[x / count for x in sums]]
    means += [[(x - y) / (count - 1) for x, y in zip(sums, curve, strict=True)] for curve in curves]
    whole, *without = (crossings(stairs["times"], mean, stairs["heights"]) for mean in means)
    return whole, without


def _ends(prediction: Json, measured: Json) -> Iterator[Check]:
    """Of starts with one skip head: how far from a plateau they end, and the rank they end at against its bounds."""
    distances, low, high = [], [], []
    for arm in prediction["arms"]:
        ends = measured[arm["key"]]
        for x, (least, most) in zip(ends.get("limit", []), ends.get("bounds", []), strict=True):
            share = x / arm["unit"]
            distances.append(abs(share - round(share)))
            low.append(round(share) - least)
            high.append(round(share) - most)
    mean = fmean(distances)
    yield Check(
        id="ends/plateaus",
        group="where exact flows from Gaussian starts end",
        claim=HEIGHTS,
        statement="in the end the exact flow is on a plateau",
        predicted=0.0,
        measured=mean,
        stderr=0.0,
        tolerance=OF_A_PLATEAU,
        controls=(0.25,),
        slack=OF_A_PLATEAU,
        quantity="mean distance to the next plateau, in units of the distance of plateaus",
    )
    for name, relation, found, other in (("least", "at least", min(low), 1.0), ("most", "at most", max(high), -1.0)):
        yield Check(
            id=f"ends/{name}",
            group="where exact flows from Gaussian starts end",
            claim=ENDS,
            statement=f"of no start the rank it ends at is {'below' if name == 'least' else 'above'} the bound",
            predicted=0.0,
            measured=float(found),
            stderr=0.0,
            tolerance=0.5,
            controls=(other,),
            relation=relation,  # type: ignore[arg-type]
            slack=0.5,
            quantity="rank reached less its bound",
        )


def _ratios(prediction: Json, measured: Json) -> Iterator[Expectation]:
    """Trained from the same numbers, more toys reach their optimum with the smallest keys than with the largest."""
    two = [arm for arm in prediction["arms"] if arm["heads"] == 2]
    for toy, rank in dict.fromkeys((arm["toy"], arm["rank"]) for arm in two):
        arms = sorted((x for x in two if (x["toy"], x["rank"]) == (toy, rank)), key=lambda x: x["keys"])
        small, large = (reached(arm, measured[arm["key"]]["descent"]) for arm in (arms[0], arms[-1]))
        found = t_interval([float(a) - float(b) for a, b in zip(small, large, strict=True)])
        twin = t_interval([float(a) - float(b) for a, b in zip(small[::2], small[1::2], strict=False)])
        yield Expectation(
            id=f"ratio/{toy}/a{rank}",
            group="small keys reach the optimum more often than large ones",
            claim=ENDS,
            statement=f"{toy} at rank {rank} reaches its optimum more often with keys of {arms[0]['keys']:g} times the "
            f"compression's size than of {arms[-1]['keys']:g} times",
            rule="sign",
            predicted=1.0,
            measured=found.mean,
            stderr=found.stderr,
            tolerance=found.half_width,
            controls=((twin.mean, twin.half_width),),
            quantity="share of starts, difference",
        )
