"""Random restarts: for every seed several initial weights and orders of the data are tried, and the best is trained.

Where a small model ends is often settled by its first steps: in a local minimum, or beyond it.  What a model can do and
how often one training finds it are two questions.  The best of several restarts answers the first; all of them, each by
itself, the second.

The best is the one with the least training loss in the last line of its log, a mean over some of its last steps:
prompts that nothing else has seen, so that held-out ones have no part in the choice.  The best of one model and of
another are different starts, so that what is paired by seed is paired by a number: intervals hold, but are no narrower
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, Protocol, TypeVar

from experiments.store.folders import Json, RunFolder, Unfinished
from experiments.training import stacks
from experiments.training.arms import Arm
from experiments.training.campaign import of_runs, rounds
from experiments.training.tuning import APART, TUNING_SEED, Tuning, tuned


@dataclass(frozen=True, kw_only=True)
class Restarts:
    """count: of initial weights tried for each seed, for so many steps, decay included; 1: none is tried beforehand.

    Raises ValueError for so many that they would reach the seeds that rates are tuned on.
    """

    count: int = 1
    steps: int = 0

    def __post_init__(self) -> None:
        if self.count * APART > TUNING_SEED:
            raise ValueError(f"at most {TUNING_SEED // APART} restarts, got {self.count}")

    def described(self) -> str:
        """What a prediction says of them."""
        if self.count == 1:
            return "one start a seed"
        return (
            f"a seed is the best of {self.count} random restarts, by the training loss at the end of {self.steps} "
            "steps (the last mean of its log); how many set in is said of all of them, each by itself, after those "
            "steps.  So a seed's number pairs two models, but not their initial weights or the order of their data"
        )


NONE = Restarts()


class Model(Protocol):
    """What is trained, but for its seed, its learning rate and its steps.  key: how results name it; tuned_as: the one
    whose learning rate it has."""

    @property
    def key(self) -> str: ...

    @property
    def tuned_as(self) -> Model: ...


M = TypeVar("M", bound=Model)
Losses = Sequence[float | None]  # one a seed; None where the training diverged


def unseen_elsewhere(arm: Arm) -> Arm:
    """The training without what only those that are compared are asked."""
    return replace(arm, elsewhere=())


@dataclass(frozen=True, kw_only=True)
class Comparison(Generic[M]):
    """Models to be tuned, restarted and trained to several lengths, in steps.

    make       the training of a model: by seed, length and learning rate (None: the recipe's)
    tried      what of it is trained to try a rate or a restart
    lengths    of a model's trainings, the shortest first
    converged  whether it has, by the held-out losses of all seeds after the last length but one and after the last
    doublings  so many times a model that has not, and all that it is compared with, are trained twice as long as before
    alike      of a model, the same for all that it is compared with
    """

    models: Sequence[M]
    make: Callable[[M, int, int, float | None], Arm]
    lengths: Callable[[M], Sequence[int]]
    tuning: Tuning
    restarts: Callable[[M], Restarts]
    converged: Callable[[M, Losses, Losses], bool]
    tried: Callable[[Arm], Arm] = unseen_elsewhere
    doublings: int = 0
    alike: Callable[[M], Hashable] = lambda _: None


@dataclass(frozen=True)
class Trained(Generic[M]):
    """rounds: records of one seed's models by length, for every seed; tried: by a model's key, for every seed the
    records of its restarts, none where there is but one."""

    rounds: Sequence[Mapping[tuple[M, int], Json]]
    tuning: Json
    tried: Mapping[str, Sequence[Sequence[Json]]]

    @property
    def records(self) -> list[Json]:
        every = [record for of_seed in self.rounds for record in of_seed.values()]
        return [*every, *(record for seeds in self.tried.values() for tries in seeds for record in tries)]

    @property
    def about(self) -> Json:
        """What every measurement says of its trainings."""
        diverged = [x["diverged"] for of_seed in self.rounds for x in of_seed.values() if x["diverged"]]
        return {
            "seeds": len(self.rounds),
            "tuning": self.tuning,
            "diverged": diverged,
            "provenance": of_runs(self.records),
        }

    def last(self, model: M, steps: int, what: str) -> list[float | None]:
        """At the last position of the held-out prompts, of every seed; None where the training diverged."""
        return [at_last(of_seed[model, steps], what) for of_seed in self.rounds]

    def alone(self) -> dict[str, list[list[float | None]]]:
        """The held-out losses of all restarts, by key, seed and restart."""
        return {key: [[at_last(x, "loss") for x in tries] for tries in seeds] for key, seeds in self.tried.items()}

    def lengths(self, model: M) -> list[int]:
        """Of its trainings, in steps, the shortest first."""
        return sorted(steps for trained, steps in self.rounds[0] if trained == model)


def at_last(record: Json, what: str) -> float | None:
    end = record["held_out"]
    return end[what][-1] if end else None


def trained(comparison: Comparison[M], seeds: int, run: RunFolder, label: str) -> Trained[M]:
    """Rates are tuned, then restarts tried, then the best of them trained.

    Raises Unfinished if time is up before two seeds of all models are trained.
    """
    models, make, lengths = comparison.models, comparison.make, comparison.lengths
    trials = {m.key: comparison.tried(make(m, 0, lengths(m)[-1], None)) for m in models if m.tuned_as == m}
    rates, tuning = tuned(trials, comparison.tuning, run, label, stacks.train_stacked)
    rate_of = {m: rates[m.tuned_as.key] for m in models}
    chosen, tried = _tried(comparison, rate_of, seeds, run, label)

    def best(m: M, seed: int, steps: int) -> Arm:
        return make(m, chosen[m][seed], steps, rate_of[m])

    complete = len(next(iter(chosen.values())))
    by_seed = rounds(
        lambda seed: {(m, n): best(m, seed, n) for m in models for n in lengths(m)},
        complete,
        run,
        label,
        stacks.train_stacked,
    )
    found = Trained(by_seed, tuning, {name: of_seeds[: len(by_seed)] for name, of_seeds in tried.items()})
    return _longer(comparison, found, best, run, label)


def _longer(
    comparison: Comparison[M], found: Trained[M], best: Callable[[M, int, int], Arm], run: RunFolder, label: str
) -> Trained[M]:
    """With trainings twice as long, and again, of those that have not converged and of all that these are compared
    with; those that time was up for stay as they are."""
    compared: dict[Hashable, list[M]] = {}
    for m in comparison.models:
        compared.setdefault(comparison.alike(m), []).append(m)
    late: set[Hashable] = set()

    def converged(m: M) -> bool:
        few, many = (found.last(m, steps, "loss") for steps in found.lengths(m)[-2:])
        return comparison.converged(m, few, many)

    for _ in range(comparison.doublings):
        on = {which: some for which, some in compared.items() if which not in late and not all(map(converged, some))}
        if not on:
            break
        models, seeds = [m for some in on.values() for m in some], range(len(found.rounds))
        steps = {m: 2 * found.lengths(m)[-1] for m in models}
        arms = {(seed, m): best(m, seed, steps[m]) for m in models for seed in seeds}
        records = stacks.train_stacked(list(arms.values()), run, f"{label}, twice as long")
        late |= {comparison.alike(m) for (_, m), arm in arms.items() if arm not in records}
        there = [m for m in models if comparison.alike(m) not in late]
        longer = [{(m, steps[m]): records[arms[seed, m]] for m in there} for seed in seeds]
        found = replace(found, rounds=[{**so_far, **more} for so_far, more in zip(found.rounds, longer, strict=True)])
    return found


def _tried(
    comparison: Comparison[M], rate_of: Mapping[M, float], seeds: int, run: RunFolder, label: str
) -> tuple[dict[M, list[int]], dict[str, list[list[Json]]]]:
    """Of every model, for as many seeds as time allows: the seeds that are the best of their restarts; and all
    records."""
    trial = comparison.tried
    restarted = {m: found for m in comparison.models if (found := comparison.restarts(m)).count > 1}
    arms = {
        (m, seed): [trial(comparison.make(m, seed + APART * r, some.steps, rate_of[m])) for r in range(some.count)]
        for seed in range(seeds)
        for m, some in restarted.items()
    }
    every = [arm for tries in arms.values() for arm in tries]
    records = stacks.train_stacked(every, run, f"{label}, restarts") if every else {}
    complete = next((s for (_, s), tries in arms.items() if any(arm not in records for arm in tries)), seeds)
    if complete < 2:
        done = sum(arm in records for arm in every)
        raise Unfinished(f"{label}: {done} of {len(every)} restarts are finished; a comparison needs two seeds of all")
    tried = {m.key: [[records[arm] for arm in arms[m, seed]] for seed in range(complete)] for m in restarted}
    chosen = {
        m: [s + APART * _best(tried[m.key][s]) if m in restarted else s for s in range(complete)]
        for m in comparison.models
    }
    return chosen, tried


def _best(tries: Sequence[Json]) -> int:
    """The first of those with the least training loss; one that diverged only where all have."""
    return min(range(len(tries)), key=lambda i: inf if tries[i]["diverged"] else tries[i]["curve"][-1][1])
