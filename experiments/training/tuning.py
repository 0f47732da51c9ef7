"""Learning rates tried for each arm on seeds that are not compared: the best, and arms whose best is at an end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.store.folders import Json, RunFolder, Unfinished
from experiments.training.arms import Arm
from experiments.training.pool import Trainer, train_all
from icl.recipe import Recipe

TUNING_SEED = 500_000  # and those that follow, apart from the seeds that are compared
APART = 10_000  # between the restarts of one seed
FARTHEST = 4.0  # factor by which a grid of learning rates is widened at a time, at most


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The learning rates to try for each arm, on `share` of its steps and on `seeds` that are not compared.

    The mean over these seeds decides.

    Where an arm's best rate is the lowest or highest of them, the next one beyond is tried too, `widenings` times at
    most.  An empty grid: the rate of the recipe is used for all arms, untuned.
    """

    grid: tuple[float, ...] = ()
    share: float = 0.25
    widenings: int = 3
    seeds: int = 1

    def described(self, each: str = "variant") -> str:
        """Return a prediction's words on it, for arms that differ by `each`."""
        if not self.grid:
            return "not tuned: one learning rate for all arms"
        return (
            f"per {each} from {self.grid}, widened up to {self.widenings} times where the best is at an end, on "
            f"{self.share:.0%} of the steps, {'one seed' if self.seeds == 1 else f'the mean of {self.seeds} seeds'}"
        )


Losses = dict[str, dict[float, float | None]]  # by arm and rate; None where a training diverged


def tuned(
    arms: Mapping[str, Arm], tuning: Tuning, run: RunFolder, label: str, train: Trainer | None = None
) -> tuple[dict[str, float], Json]:
    """Return the best learning rate for each arm by held-out loss, and the losses; one that diverged never wins.

    `untuned` finds the arms whose best is at an end of what was tried.  Raises Unfinished if time is up before.
    """
    if not tuning.grid:
        return {name: arm.recipe.learning_rate for name, arm in arms.items()}, {"tuned": False}
    train = train or train_all
    rates = {name: sorted(tuning.grid) for name in arms}
    for widening in range(tuning.widenings + 1):
        losses = _tried(arms, rates, tuning, run=run, label=label, train=train)
        best = {name: _best(by_rate) for name, by_rate in losses.items()}
        ends = [name for name, rate in best.items() if rate in _ends(rates[name])]
        if len(tuning.grid) < 2 or widening == tuning.widenings or not ends:
            break
        for name in ends:
            rates[name] = sorted([*rates[name], _beyond(rates[name], best[name])])
    about = {"tuned": True, "grid": list(tuning.grid), "share_of_steps": tuning.share, "losses": _table(losses)}
    return best, {**about, "best": dict(best)}


def _best(by_rate: Mapping[float, float | None]) -> float:
    return min(by_rate, key=lambda rate: (by_rate[rate] is None, by_rate[rate]))


def _table(losses: Losses) -> Json:
    return {name: {str(rate): loss for rate, loss in by_rate.items()} for name, by_rate in losses.items()}


def _tried(
    arms: Mapping[str, Arm],
    rates: Mapping[str, Sequence[float]],
    tuning: Tuning,
    run: RunFolder,
    label: str,
    train: Trainer,
) -> Losses:
    """Return the mean loss over seeds of every arm and rate; None where one of them diverged."""
    trials = {
        (name, rate): [_trial(arm, rate, TUNING_SEED + i, share=tuning.share) for i in range(tuning.seeds)]
        for name, arm in arms.items()
        for rate in rates[name]
    }
    every = dict.fromkeys(arm for some in trials.values() for arm in some)
    records = train(list(every), run, f"{label}, learning rates")
    if len(records) < len(every):
        raise Unfinished(f"{label}: {len(records)} of {len(every)} learning-rate trials are finished")

    def mean(some: Sequence[Arm]) -> float | None:
        losses = [records[arm]["loss"] for arm in some]
        return None if None in losses else sum(losses) / len(losses)

    return {name: {rate: mean(trials[name, rate]) for rate in rates[name]} for name in arms}


def _trial(arm: Arm, rate: float, seed: int, share: float) -> Arm:
    return replace(arm, seed=seed, recipe=_shorter(arm, rate, share))


def _ends(rates: Sequence[float]) -> tuple[float, float]:
    return min(rates), max(rates)


def _beyond(rates: Sequence[float], end: float) -> float:
    """Return the rate beyond an end of at least two, by the factor between the last two there, FARTHEST at most."""
    _, neighbour = sorted(rates, key=lambda rate: abs(math.log(rate / end)))[:2]
    factor = min(max(end / neighbour, 1 / FARTHEST), FARTHEST)
    return float(f"{end * factor:.3g}")


def untuned(measurement: Json) -> dict[str, str]:
    """Return the arms of a result whose best learning rate is the lowest or highest tried for them, and that in words.

    Beyond there may be a better one, so what is measured of them may be short of what they can do.
    """
    reasons = {
        name.replace(", ", " with "): f"its best learning rate, {own['rate']:g}, is an end of those tried"
        for name, own in (measurement.get("own_rates") or {}).items()
        if own["edge"]
    }
    tuning = measurement.get("tuning") or {}
    if not tuning.get("tuned"):
        return reasons
    for name, by_rate in tuning["losses"].items():
        best, (lowest, highest) = tuning["best"][name], _ends([float(rate) for rate in by_rate])
        if best in (lowest, highest):
            reasons[name] = (
                f"its best learning rate, {best:g}, is the {'highest' if best == highest else 'lowest'} tried"
            )
    return reasons


def by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the arms of `untuned` by their reasons, those of one place together."""
    places: dict[str, dict[str, list[str]]] = {}
    for name, why in reasons.items():
        place, _, arm = name.rpartition(", ")
        places.setdefault(why, {}).setdefault(place, []).append(arm)
    return {
        why: [f"{place}: {', '.join(arms)}" if place else ", ".join(arms) for place, arms in grouped.items()]
        for why, grouped in places.items()
    }


def mark(arm: str, measurement: Json) -> str:
    """Return the text behind an arm's name wherever its number is shown: empty, unless it is untuned."""
    return " (untuned)" if arm in untuned(measurement) else ""


def other_rates(pair: tuple[str, str], measurement: Json) -> str:
    """Return the text behind a pair of arms not trained at one learning rate: their difference may be the rate's."""
    return rates_in_brackets(*tuned_rates(pair, measurement))


def tuned_rates(pair: tuple[str, str], measurement: Json) -> tuple[float | None, float | None]:
    """Return the learning rates that were best for two arms, None of both where nothing was tuned."""
    best = measurement.get("tuning", {}).get("best", {})
    mine, theirs = (best.get(arm) for arm in pair)
    return mine, theirs


def rates_in_brackets(mine: float | None, theirs: float | None) -> str:
    """Return two arms' learning rates as they stand behind a difference at the last step; empty where they agree."""
    return "" if mine == theirs else f" ({_named(mine, theirs)})"


def apart_on_the_way(mine: float | None, theirs: float | None) -> str:
    """Say why two curves are not compared before the last step; empty at one learning rate.

    A loss on the way follows the learning rate: twice the rate is ahead early, whatever the model.  So before the last
    step curves are compared at one rate only, and at the last step both rates are named.
    """
    return "" if mine == theirs else f"not comparable before the last step: {_named(mine, theirs)}"


def _named(*rates: float | None) -> str:
    return "rates " + " and ".join("the recipe's" if rate is None else f"{rate:g}" for rate in rates)


def _shorter(arm: Arm, rate: float, share: float) -> Recipe:
    steps = max(arm.recipe.log_every, round(share * arm.recipe.steps))
    return replace(arm.recipe.of_length(steps), learning_rate=rate, evaluate_every=0)
