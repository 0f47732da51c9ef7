"""Learning rates: tried for each arm on seeds that are not compared; what was found, and of whom it is short."""

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
class Finals:
    """Of an arm's best `rates` so many are tried on all of its steps too, each from the best `trials` of its trials,
    and the mean of those decides: the best for a while may be too high in the long run, or too low.  While the best of
    these is the lowest or the highest, so is the next of the arm's rates beyond."""

    rates: int
    trials: int


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Learning rates to try for each arm, on `share` of its steps and on so many `seeds` that are not compared, whose
    mean decides; of each the best of its random `restarts`, if it has several.

    Where an arm's best rate is the lowest or highest of them, the next one beyond is tried too, `widenings` times at
    most.  An empty grid: the rate of the recipe is used for all arms, untuned.
    """

    grid: tuple[float, ...] = ()
    share: float = 0.25
    widenings: int = 3
    seeds: int = 1
    restarts: int = 1
    finals: Finals | None = None

    def described(self, each: str = "variant") -> str:
        """What a prediction says of it, of arms that differ by `each`."""
        if not self.grid:
            return "not tuned: one learning rate for all arms"
        best = f", each the best of {self.restarts} random restarts" if self.restarts > 1 else ""
        last = ""
        if self.finals:
            last = (
                f"; the best {self.finals.rates} rates of these on all steps too, from the best {self.finals.trials} "
                "trials of each, whose mean decides, and while that of an end is best the next beyond"
            )
        return (
            f"per {each} from {self.grid}, widened up to {self.widenings} times where the best is at an end, on "
            f"{self.share:.0%} of the steps, {'one seed' if self.seeds == 1 else f'the mean of {self.seeds} seeds'}"
            f"{best}{last}"
        )


Losses = dict[str, dict[float, float | None]]  # by arm and rate; None where a training diverged
Tries = dict[tuple[str, float], list[list[tuple[int, float | None]]]]  # of every seed, its restarts: seed and loss


def tuned(
    arms: Mapping[str, Arm], tuning: Tuning, run: RunFolder, label: str, train: Trainer | None = None
) -> tuple[dict[str, float], Json]:
    """The best learning rate for each arm by held-out loss, and what was found; a training that diverged never wins.

    `untuned` finds the arms whose best is at an end of what was tried.  Raises Unfinished if time is up before.
    """
    if not tuning.grid:
        return {name: arm.recipe.learning_rate for name, arm in arms.items()}, {"tuned": False}
    train = train or train_all
    rates = {name: sorted(tuning.grid) for name in arms}
    for widening in range(tuning.widenings + 1):
        tries = _tries(arms, rates, tuning, run, label, train)
        losses: Losses = {name: {rate: _mean(tries[name, rate]) for rate in rates[name]} for name in arms}
        best = {name: _best(by_rate) for name, by_rate in losses.items()}
        ends = [name for name, rate in best.items() if rate in _ends(rates[name])]
        if len(tuning.grid) < 2 or widening == tuning.widenings or not ends:
            break
        for name in ends:
            rates[name] = sorted([*rates[name], _beyond(rates[name], best[name])])
    about = {"tuned": True, "grid": list(tuning.grid), "share_of_steps": tuning.share, "losses": _table(losses)}
    if tuning.finals:
        last = _finals(arms, losses, tries, tuning.finals, run, label, train)
        best |= {name: _best(by_rate) for name, by_rate in last.items() if any(x is not None for x in by_rate.values())}
        about["finals"] = _table(last)
    return best, {**about, "best": dict(best)}


def _best(by_rate: Mapping[float, float | None]) -> float:
    return min(by_rate, key=lambda rate: (by_rate[rate] is None, by_rate[rate]))


def _table(losses: Losses) -> Json:
    return {name: {str(rate): loss for rate, loss in by_rate.items()} for name, by_rate in losses.items()}


def _tries(
    arms: Mapping[str, Arm],
    rates: Mapping[str, Sequence[float]],
    tuning: Tuning,
    run: RunFolder,
    label: str,
    train: Trainer,
) -> Tries:
    trials = {
        (name, rate): [
            [_trial(arm, rate, TUNING_SEED + i + APART * r, tuning.share) for r in range(tuning.restarts)]
            for i in range(tuning.seeds)
        ]
        for name, arm in arms.items()
        for rate in rates[name]
    }
    losses = _losses([arm for seeds in trials.values() for tries in seeds for arm in tries], run, label, train)
    return {which: [[(arm.seed, losses[arm]) for arm in tries] for tries in seeds] for which, seeds in trials.items()}


def _finals(
    arms: Mapping[str, Arm], coarse: Losses, tries: Tries, finals: Finals, run: RunFolder, label: str, train: Trainer
) -> Losses:
    """The mean losses after all steps, of each arm's best rates and of those beyond that may be better."""
    ranked = {name: sorted((loss, rate) for rate, loss in coarse[name].items() if loss is not None) for name in arms}
    asked = {name: [rate for _, rate in some[: finals.rates]] for name, some in ranked.items()}
    found: Losses = {name: {} for name in arms}

    def trial(name: str, rate: float) -> list[Arm]:
        known = sorted((loss, seed) for of_seed in tries[name, rate] for seed, loss in of_seed if loss is not None)
        return [_trial(arms[name], rate, seed, 1.0) for _, seed in known[: finals.trials]]

    while any(asked.values()):
        trials = {(name, rate): trial(name, rate) for name, rates in asked.items() for rate in rates}
        losses = _losses([arm for some in trials.values() for arm in some], run, label, train)
        for (name, rate), some in trials.items():
            found[name][rate] = _mean([[(arm.seed, losses[arm])] for arm in some])
        asked = {name: _next(by_rate, [rate for _, rate in ranked[name]]) for name, by_rate in found.items()}
    return found


def _next(found: Mapping[float, float | None], rates: Sequence[float]) -> list[float]:
    """The neighbours, among all rates, of the best of those found, where it is an end of these; at most one a side."""
    if all(loss is None for loss in found.values()):
        return []
    best, every = _best(found), sorted(rates)
    at = every.index(best)
    below, above = every[max(0, at - 1) : at], every[at + 1 : at + 2]
    return [rate for rate in (*below, *above) if best in _ends(list(found)) and rate not in found]


def _losses(arms: Sequence[Arm], run: RunFolder, label: str, train: Trainer) -> dict[Arm, float | None]:
    every = dict.fromkeys(arms)
    records = train(list(every), run, f"{label}, learning rates")
    if len(records) < len(every):
        raise Unfinished(f"{label}: {len(records)} of {len(every)} learning-rate trials are finished")
    return {arm: records[arm]["loss"] for arm in every}


def _mean(seeds: Sequence[Sequence[tuple[int, float | None]]]) -> float | None:
    """Of every seed's best; None where one diverged, with all of its restarts."""
    losses = [min((loss for _, loss in tries if loss is not None), default=None) for tries in seeds]
    known = [loss for loss in losses if loss is not None]
    return sum(known) / len(known) if len(known) == len(losses) else None


def _trial(arm: Arm, rate: float, seed: int, share: float) -> Arm:
    return replace(arm, seed=seed, recipe=_shorter(arm, rate, share))


def _ends(rates: Sequence[float]) -> tuple[float, float]:
    return min(rates), max(rates)


def _beyond(rates: Sequence[float], end: float) -> float:
    """The rate that follows on an end of at least two, by the factor between the last two there, FARTHEST at most."""
    _, neighbour = sorted(rates, key=lambda rate: abs(math.log(rate / end)))[:2]
    factor = min(max(end / neighbour, 1 / FARTHEST), FARTHEST)
    return float(f"{end * factor:.3g}")


def untuned(measurement: Json) -> dict[str, str]:
    """The arms of a result whose best learning rate is the lowest or highest tried for them, and that in words.

    Beyond there may be a better one, so what is measured of them may be short of what they can do.
    """
    tuning = measurement.get("tuning") or {}
    if not tuning.get("tuned"):
        return {}
    found = {}
    for name, by_rate in tuning["losses"].items():
        best, (lowest, highest) = tuning["best"][name], _ends([float(rate) for rate in by_rate])
        if best in (lowest, highest):
            found[name] = f"its best learning rate, {best:g}, is the {'highest' if best == highest else 'lowest'} tried"
    return found


def mark(arm: str, measurement: Json) -> str:
    """What stands behind the name of an arm wherever its number is shown: nothing, unless it is untuned."""
    return " (untuned)" if arm in untuned(measurement) else ""


def other_rates(pair: tuple[str, str], measurement: Json) -> str:
    """What stands behind a pair of arms not trained at one learning rate, for its difference may be the rate's."""
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
