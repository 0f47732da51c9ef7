"""Training dynamics: an optimum that exists is not one that training reaches.

From small weights the loss falls in steps.  `theory.skipv1.landscape` says how high its plateaus are and which of them
are traps, `theory.skipv1.dynamics` when each is left and which starts end in a trap.  Here toys are trained by plain
gradient descent on fresh prompts, for which time is steps times the learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.dynamics.training import (
    Arm,
    Shares,
    Staircase,
    exact_path,
    rows,
    train_shares,
    train_staircases,
)
from experiments.store.folders import Json, RunFolder
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, share_interval, t_interval
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHTS, TIMES, ENDS = "skipv1.critical-points", "skipv1.staircase", "skipv1.reachability"
SAMPLES = 1000  # of Gaussian starts, for the shares that Theorem 3 bounds
RATIOS = [2 ** (i / 2) for i in range(-8, 9)]
OF_A_PLATEAU = 0.15  # of the distance between plateaus: the even part is not learned away at once
OF_A_TIME = 0.05  # of gradient descent with finite steps, against the flow
OF_THE_SIGNAL = 0.2  # of times of the signal alone, whose even part is left out, against the exact flow
ALTERED = 1.5  # the negative controls of times
WINDOWS = 3  # of a curve that are averaged before it is read


@dataclass(frozen=True, kw_only=True)
class Config:
    staircases: tuple[Staircase, ...]
    shares: Shares


def _arms(ranks: Mapping[str, Sequence[int]], keys: Sequence[float], counts: Sequence[int]) -> tuple[Arm, ...]:
    """Return every toy and rank with two heads over `keys`, and its highest rank over the numbers of heads."""
    two = [Arm(toy=toy, rank=a, heads=2, keys=r) for toy, some in ranks.items() for a in some for r in keys]
    more = [Arm(toy=toy, rank=max(some), heads=h, keys=1.0) for toy, some in ranks.items() for h in counts]
    return tuple(dict.fromkeys([*two, *more]))


_TWO, _FOUR, _SIX = Setting(2, 12, 0.3), Setting(4, 20, 0.3), Setting(6, 30, 0.3)
_SMOKE = Config(
    staircases=(Staircase(size=_TWO, toy="skipv1", scales=(0.2, 0.1), past=2.0),),
    shares=Shares(size=_TWO, arms=_arms({"skipv1": (2,)}, (0.125, 8.0), ()), flows=4, time=10.0, batch=16),
)
_CPU = Config(
    staircases=(
        Staircase(size=_FOUR, toy="skipv1", scales=(0.1, 0.05, 0.03, 0.02)),
        Staircase(size=_FOUR, toy="mha", scales=(0.24, 0.1)),
    ),
    shares=Shares(
        size=Setting(3, 20, 0.3),
        arms=_arms({"skipv1": (2, 3), "mha": (2,)}, (0.25, 1.0, 4.0), (2, 4, 8)),
        flows=4,
    ),
)
_FULL = Config(
    staircases=(
        Staircase(size=_SIX, toy="skipv1", scales=(0.1, 0.05, 0.03, 0.02, 0.015, 0.012)),
        Staircase(size=_SIX, toy="mha", scales=(0.2, 0.08, 0.05)),
    ),
    shares=Shares(
        size=_FOUR,
        arms=_arms({"skipv1": (2, 3, 4), "mha": (2, 3)}, (0.25, 0.5, 1.0, 2.0, 4.0), (2, 4, 8, 16)),
        flows=32,
        time=60.0,
        learning_rate=0.01,
        batch=64,
    ),
)
_DETECTS = "5 % of the time of a step, 15 % of its height; a difference of 0.25 between two shares of starts"
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=8, seconds=30, detects=_DETECTS),
    "cpu": Profile(config=_CPU, seeds=8, seconds=65, detects=_DETECTS),
    "full": Profile(config=_FULL, seeds=32, seconds=7200, detects=_DETECTS),
}


class SkipV1Dynamics:
    name = "skipv1-dynamics"
    title = "Training dynamics: plateaus, steps, and how many starts reach the optimum"
    caption = (
        "Training descends in stairs that theory gives, and can stop on one. (a), (b) Loss over time from small "
        "balanced weights: band, 95 % over seeds; solid, exact gradient flow; dotted, closed forms. Share of random "
        "starts that reach the optimum, (c) over the initial keys' size, (d) over the number of heads; filled: Adam; "
        "95 %, Wilson's."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (HEIGHTS, TIMES, ENDS)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; gradient flow.  Heights and times: of the signal "
            "of one head in balance; path: of the exact loss, from the very start that is trained",
            "source": "theory.skipv1.landscape, Theorem 1; theory.skipv1.dynamics, Theorems 3 and 4; theory.toy.flow",
            "staircases": {stairs.key: _predict_staircase(stairs) for stairs in config.staircases},
            "shares": _predict_shares(config.shares),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        return {
            "staircases": train_staircases(config.staircases, seeds, run),
            "shares": train_shares(config.shares, seeds, run),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        """Return by staircase the checks of heights and times; of all Gaussian starts those of heights and ranks."""
        judgements: list[Judgement] = []
        for key, stairs in prediction["staircases"].items():
            curves = [_smooth(curve) for curve in zip(*measurement["staircases"][key], strict=True)]
            judgements += _compare_heights(key, stairs, curves)
            judgements += _compare_times(key, stairs, curves)
        judgements += _compare_ends(prediction["shares"], measurement["shares"])
        judgements += _compare_ratios(prediction["shares"], measurement["shares"])
        return judgements

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        fig, axes = style.figure(2, 2, width=4.2, height=3.9)
        panels, shares = iter(axes), prediction["shares"]
        for key, stairs in prediction["staircases"].items():
            _draw_staircase(next(panels), stairs, measurement["staircases"][key])
        _draw_over_keys(next(panels), shares, measurement["shares"])
        if any(arm["heads"] != 2 for arm in _at_best_rank(shares)):
            _draw_over_heads(next(panels), shares, measurement["shares"])
        unused = list(panels)
        for axis in unused:
            axis.remove()
        style.finish(axes[: len(axes) - len(unused)])
        return fig


def _predict_staircase(stairs: Staircase) -> Json:
    """Return heights and times in closed form, and the exact gradient flow from the same start with its own times."""
    from theory.skipv1.dynamics import step_times
    from theory.skipv1.landscape import plateau

    task, path, entries = stairs.size.floats, exact_path(stairs), rows(stairs.toy, stairs.size.d, stairs.rank)
    heights = [float(plateau(*task, entries, k)) for k in range(stairs.rank + 1)]
    return {
        "toy": stairs.toy,
        "d": stairs.size.d,
        "rank": stairs.rank,
        "unit": stairs.size.signal_share * entries,
        "heights": heights,
        "steps": [float(t) for t in step_times(*task, stairs.scales, stairs.balanced)],
        "times": stairs.times,
        "path": path,
        "path_steps": crossings(stairs.times, path, heights),
    }


def crossings(times: Sequence[float], losses: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return when the losses first come half way from each plateau to the next, by straight lines; NaN: not at all."""

    def crossing(level: float) -> float:
        for i in range(1, len(times)):
            if losses[i] < level:
                share = (losses[i - 1] - level) / (losses[i - 1] - losses[i]) if losses[i - 1] > level else 0.0
                return times[i - 1] + share * (times[i] - times[i - 1])
        return math.nan

    return [crossing((a + b) / 2) for a, b in pairwise(heights)]


def _predict_shares(shares: Shares) -> Json:
    """Return the arms, and over the ratio of keys to compression what Theorem 3 says of one skip head.

    That is the shares of starts whose signal will be learned whole ("reached"), or may be ("reachable").
    """
    d, rho = shares.size.d, shares.size.signal_share
    arms = [{"key": arm.key, **vars(arm), "unit": rho * rows(arm.toy, d, arm.rank)} for arm in shares.arms]
    ranks = sorted({arm.rank for arm in shares.arms if arm.bounded})
    return {"d": d, "arms": arms, "ratios": RATIOS, "bounds": {str(rank): _rank_bounds(d, rank) for rank in ranks}}


def _rank_bounds(d: int, rank: int) -> Json:
    import numpy as np

    from theory.skipv1.dynamics import rank_bounds

    rng = np.random.default_rng(0)
    starts = [(rng.standard_normal((rank, rank)), rng.standard_normal((rank, d))) for _ in range(SAMPLES)]
    bounds = np.array([[rank_bounds(ratio * k, a) for k, a in starts] for ratio in RATIOS])
    least, most = (bounds == rank).mean(axis=1).T
    return {"reached": least.tolist(), "reachable": most.tolist()}


def reached(arm: Json, explained: Sequence[float]) -> list[bool]:
    """Return of every toy whether it ended nearer to its optimum than to the plateau above."""
    return [x / arm["unit"] > arm["rank"] - 0.5 for x in explained]


def _smooth(curve: Sequence[float]) -> list[float]:
    half = WINDOWS // 2
    return [fmean(curve[max(0, i - half) : i + half + 1]) for i in range(len(curve))]


def _compare_heights(key: str, stairs: Json, curves: Sequence[Sequence[float]]) -> Iterator[Check]:
    """Yield the heights over the middle half of the time from one step of the exact flow to the next, or to the end."""
    unit, steps = stairs["unit"], [*stairs["path_steps"], stairs["times"][-1]]
    for k, (since, until) in enumerate(pairwise(steps), start=1):
        quarter, height = (until - since) / 4, stairs["heights"][k]
        at = [i for i, t in enumerate(stairs["times"]) if since + quarter <= t <= until - quarter]
        interval = t_interval([fmean(curve[i] for i in at) for curve in curves], stairs["rank"])
        yield Check.sampled(
            interval,
            id=f"height/{key}/k{k}",
            group=f"heights of plateaus, {stairs['toy']}",
            claim=HEIGHTS,
            statement=f"with {k} directions learned, the loss is that of as many times {unit:.3g} explained",
            predicted=height,
            controls=(height - unit / 2, height + unit / 2),
            slack=OF_A_PLATEAU * unit,
            quantity="loss, squared units of y",
        )


def _compare_times(key: str, stairs: Json, curves: Sequence[Sequence[float]]) -> Iterator[Check]:
    """Yield the times of the mean over seeds, with a jackknife's errors: one seed's curve is too noisy."""
    count, sums = len(curves), [sum(losses) for losses in zip(*curves, strict=True)]
    means = [[x / count for x in sums]]
    means += [[(x - y) / (count - 1) for x, y in zip(sums, curve, strict=True)] for curve in curves]
    whole, *without = (crossings(stairs["times"], mean, stairs["heights"]) for mean in means)
    for k, (closed, exact) in enumerate(zip(stairs["steps"], stairs["path_steps"], strict=True)):
        trained = t_interval([count * whole[k] - (count - 1) * left[k] for left in without], len(stairs["steps"]))
        flow = "the exact gradient flow takes its steps when the closed form says"
        descent = "gradient descent takes its steps when the flow does"
        for name, predicted, interval, slack, statement in (
            ("flow", closed, Interval(exact, 0.0, 0.0), OF_THE_SIGNAL, flow),
            ("trained", exact, trained, OF_A_TIME, descent),
        ):
            yield Check.sampled(
                interval,
                id=f"time/{name}/{key}/k{k + 1}",
                group=f"times of steps, {name}, {stairs['toy']}",
                claim=TIMES,
                statement=statement,
                predicted=predicted,
                controls=(predicted / ALTERED, predicted * ALTERED),
                slack=slack * predicted,
                quantity="time, steps times learning rate",
            )


def _compare_ends(prediction: Json, measured: Json) -> Iterator[Check]:
    """Yield of starts with one skip head how far from a plateau they end, and at which rank against its bounds."""
    distances, low, high = [], [], []
    for arm in prediction["arms"]:
        ends = measured[arm["key"]]
        for x, (least, most) in zip(ends.get("limit", []), ends.get("bounds", []), strict=True):
            share = x / arm["unit"]
            distances.append(abs(share - round(share)))
            low.append(round(share) - least)
            high.append(round(share) - most)
    common: Json = {"group": "where exact flows from Gaussian starts end", "predicted": 0.0}
    yield Check.exact(
        id="ends/plateaus",
        claim=HEIGHTS,
        statement="in the end the exact flow is on a plateau",
        measured=fmean(distances),
        controls=(0.25,),
        slack=OF_A_PLATEAU,
        quantity="mean distance to the next plateau, in units of the distance of plateaus",
        **common,
    )
    common |= {"claim": ENDS, "slack": 0.5, "quantity": "rank reached minus its bound"}
    statement = "of no start the rank it ends at is {} the bound"
    yield Check.exact(
        id="ends/least",
        statement=statement.format("below"),
        measured=float(min(low)),
        controls=(1.0,),
        relation="at least",
        **common,
    )
    yield Check.exact(
        id="ends/most",
        statement=statement.format("above"),
        measured=float(max(high)),
        controls=(-1.0,),
        relation="at most",
        **common,
    )


def _compare_ratios(prediction: Json, measured: Json) -> Iterator[Expectation]:
    """Yield that more toys reach their optimum with the smallest keys than, from the same numbers, with the largest."""
    two = [arm for arm in prediction["arms"] if arm["heads"] == 2]
    for toy, rank in dict.fromkeys((arm["toy"], arm["rank"]) for arm in two):
        arms = sorted((x for x in two if (x["toy"], x["rank"]) == (toy, rank)), key=lambda x: x["keys"])
        small, large = (reached(arm, measured[arm["key"]]["descent"]) for arm in (arms[0], arms[-1]))
        interval = t_interval([float(a) - float(b) for a, b in zip(small, large, strict=True)])
        twin = t_interval([float(a) - float(b) for a, b in zip(small[::2], small[1::2], strict=False)])
        yield Expectation.sampled(
            interval,
            twin,
            id=f"ratio/{toy}/a{rank}",
            group="small keys reach the optimum more often than large ones",
            claim=ENDS,
            statement=f"{toy} at rank {rank} reaches its optimum more often with keys of {arms[0]['keys']:g} times the "
            f"compression's size than of {arms[-1]['keys']:g} times",
            rule="sign",
            predicted=1.0,
            quantity="share of starts, difference",
        )


CLOSED: dict[str, Any] = {"color": style.BOUND["color"], "linestyle": ":"}
BOUNDS = ("--", "-", "-.", ":")
MARKERS = {("skipv1", 0): "o", ("skipv1", 1): "^", ("mha", 0): "s", ("mha", 1): "D"}


def _draw_staircase(axis: Axes, stairs: Json, losses: Sequence[Sequence[float]]) -> None:
    name, look, _ = style.TOYS[stairs["toy"]]
    times = stairs["times"]
    intervals = [t_interval(seeds) for seeds in losses]
    low, high = ([i.mean + sign * i.half_width for i in intervals] for sign in (-1, 1))
    axis.fill_between(times, low, high, color=look["color"], alpha=0.3, linewidth=0, label="gradient descent, 95 %")
    axis.plot(times, stairs["path"], color="black", linewidth=1.1, label="exact gradient flow")
    steps = [0.0, *stairs["steps"], times[-1]]
    axis.stairs(stairs["heights"], steps, baseline=None, label="closed form: heights and times", **CLOSED, linewidth=2)
    axis.set_xlabel("time (steps $\\times$ learning rate)")
    axis.set_ylabel("loss (squared units of $y$)")
    axis.set_title(f"{name}, $d={stairs['d']}$, $a={stairs['rank']}$, from balance")


def _draw_over_keys(axis: Axes, shares: Json, measured: Json) -> None:
    for (rank, bounds), line in zip(shares["bounds"].items(), BOUNDS, strict=False):
        label = f"theory, a = {rank}: between"
        for which in ("reached", "reachable"):
            axis.plot(shares["ratios"], bounds[which], color="#8a8a8a", linewidth=0.9, linestyle=line, label=label)
            label = ""
    _draw_shares(axis, [arm for arm in shares["arms"] if arm["heads"] == 2], measured, over="keys")
    axis.set_xlabel("size of the keys at the start, in units of the compression's")
    axis.set_title(f"Starts that reach the optimum, $d={shares['d']}$, two heads")


def _draw_over_heads(axis: Axes, shares: Json, measured: Json) -> None:
    arms = _at_best_rank(shares)
    _draw_shares(axis, arms, measured, over="heads")
    counts = sorted({arm["heads"] for arm in arms})
    axis.set_xticks(counts, [str(count) for count in counts])
    axis.set_xlabel("heads")
    axis.set_title(f"Starts that reach the optimum, $d={shares['d']}$, by heads")


def _at_best_rank(shares: Json) -> list[Json]:
    """Return the arms whose keys start as large as the compression, of each toy at its highest rank."""
    best = {toy: max((arm["rank"] for arm in shares["arms"] if arm["toy"] == toy), default=0) for toy in style.TOYS}
    return [arm for arm in shares["arms"] if arm["keys"] == 1.0 and arm["rank"] == best[arm["toy"]]]


def _draw_shares(axis: Axes, arms: Sequence[Json], measured: Json, over: str) -> None:
    ranks = {toy: sorted({arm["rank"] for arm in arms if arm["toy"] == toy}) for toy in style.TOYS}
    for toy, (name, look, _) in style.TOYS.items():
        for place, rank in enumerate(ranks[toy]):
            some = sorted((x for x in arms if (x["toy"], x["rank"]) == (toy, rank)), key=lambda x: x[over])
            shift = 2 ** (0.2 * (place - 0.5 if toy == "skipv1" else 1.5 - place) if over == "keys" else 0)
            places = [arm[over] * shift for arm in some]
            marker: Json = {"marker": MARKERS[toy, min(place, 1)], "color": look["color"], "markerfacecolor": "white"}
            _draw_reached(
                axis, places, some, measured=measured, method="descent", label=f"{name}, a = {rank}, 95 %", **marker
            )
            if over == "keys" and all("adam" in measured[arm["key"]] for arm in some):
                marker |= {"markerfacecolor": look["color"], "label": f"{name}, a = {rank}, by Adam"}
                _draw_reached(axis, [x * 1.07 for x in places], some, measured=measured, method="adam", **marker)
    axis.set_ylim(-0.05, 1.08)
    axis.set_ylabel("share of starts")
    axis.set_xscale("log", base=2)


def _draw_reached(
    axis: Axes, places: Sequence[float], arms: Sequence[Json], measured: Json, method: str, **look: Any
) -> None:
    ends = [reached(arm, measured[arm["key"]][method]) for arm in arms]
    shares = [sum(end) / len(end) for end in ends]
    limits = [share_interval(sum(end), len(end)) for end in ends]
    below = [max(0.0, share - low) for share, (low, _) in zip(shares, limits, strict=True)]
    above = [max(0.0, high - share) for share, (_, high) in zip(shares, limits, strict=True)]
    axis.errorbar(places, shares, yerr=[below, above], linestyle="none", **look)


EXPERIMENT: Experiment = SkipV1Dynamics()
