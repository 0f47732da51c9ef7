"""Heights and times of the steps, and where Gaussian starts end, held against theory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
WINDOWS = 5  # that a seed's curve is averaged over before it is read


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
    """Half way in time from one step of the exact flow to the next, and at the end."""
    times, unit, steps = stairs["times"], stairs["unit"], [*stairs["path_steps"], stairs["times"][-1]]
    for k in range(1, stairs["rank"] + 1):
        last = k == stairs["rank"]
        when = times[-1] if last else (steps[k - 1] + steps[k]) / 2
        at = min(range(len(times)), key=lambda i: abs(times[i] - when))
        found = t_interval([curve[at] for curve in curves], stairs["rank"])
        height = stairs["heights"][k]
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
    seeds = [crossings(stairs["times"], list(curve), stairs["heights"]) for curve in curves]
    for k, (closed, exact) in enumerate(zip(stairs["steps"], stairs["path_steps"], strict=True)):
        found = t_interval([float("nan") if seed[k] is None else seed[k] for seed in seeds], len(stairs["steps"]))
        for name, predicted, measured, half_width, slack, statement in (
            ("flow", closed, exact, 0.0, OF_THE_SIGNAL, "the exact gradient flow takes its steps when the closed form says"),
            ("trained", exact, found.mean, found.half_width, OF_A_TIME, "gradient descent takes its steps when the flow does"),
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


def _ends(prediction: Json, measured: Json) -> Iterator[Check]:
    """Of starts with one skip head: how far from a plateau they end, and the rank they end at against its bounds."""
    distances, low, high = [], [], []
    for arm in prediction["arms"]:
        bounds = measured[arm["key"]]["bounds"]
        for x, (least, most) in zip(measured[arm["key"]]["limit"], bounds, strict=False):
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
        small, large = (reached(arm, measured[arm["key"]]["trained"]) for arm in (arms[0], arms[-1]))
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
