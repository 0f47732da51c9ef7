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
    """count     of initial weights tried for each seed, for so many steps, decay included; 1: none is tried beforehand
    finished  so many, the best of these, are trained to the shortest length that is compared too, and the best of
              them is the seed's: what is behind after `steps` may be ahead by then

    Raises ValueError for so many that they would reach the seeds that rates are tuned on, and for more finished than
    there are.
    """

    count: int = 1
    steps: int = 0
    finished: int = 1

    def __post_init__(self) -> None:
        if self.count * APART > TUNING_SEED:
            raise ValueError(f"at most {TUNING_SEED // APART} restarts, got {self.count}")
        if not 1 <= self.finished <= self.count:
            raise ValueError(f"of {self.count} restarts 1 to {self.count} are finished, got {self.finished}")

    def described(self) -> str:
        """What a prediction says of them."""
        if self.count == 1:
            return "one start a seed"
        last = (
            f", and of the best {self.finished} of these, trained to the shortest length, the best by then"
            if self.finished > 1
            else ""
        )
        return (
            f"a seed is the best of {self.count} random restarts, by the training loss at the end of {self.steps} "
            f"steps (the last mean of its log){last}; how many set in is said of all of them, each by itself, after "
            "those steps.  So a seed's number pairs two models, but not their initial weights or the order of their "
            "data"
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
    records of its restarts, none where there is but one; finished: of those of them that were trained on."""

    rounds: Sequence[Mapping[tuple[M, int], Json]]
    tuning: Json
    tried: Mapping[str, Sequence[Sequence[Json]]]
    finished: Mapping[str, Sequence[Sequence[Json]]]

    @property
    def records(self) -> list[Json]:
        every = [record for of_seed in self.rounds for record in of_seed.values()]
        tried = [seeds for some in (self.tried, self.finished) for seeds in some.values()]
        return [*every, *(record for seeds in tried for tries in seeds for record in tries)]

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
    chosen, tried, finished = _restarted(comparison, rate_of, seeds, run, label)

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
    of_seeds = ({name: some[: len(by_seed)] for name, some in each.items()} for each in (tried, finished))
    found = Trained(by_seed, tuning, *of_seeds)
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


Kept = dict[str, list[list[Json]]]  # records by a model's key, seed and restart


def _restarted(
    comparison: Comparison[M], rate_of: Mapping[M, float], seeds: int, run: RunFolder, label: str
) -> tuple[dict[M, list[int]], Kept, Kept]:
    """Of every model, for as many seeds as time allows: the seeds that are the best of their restarts; the records of
    all restarts, and of those that were finished."""
    some = {m: found for m in comparison.models if (found := comparison.restarts(m)).count > 1}
    starts = {m: [[s + APART * r for r in range(of_m.count)] for s in range(seeds)] for m, of_m in some.items()}
    steps = {m: of_m.steps for m, of_m in some.items()}
    tried = _records(comparison, starts, steps, rate_of, run, f"{label}, restarts")
    best = {m: _best(starts[m], tried[m.key], of_m.finished) for m, of_m in some.items()}
    on = {m: of_seeds for m, of_seeds in best.items() if some[m].finished > 1}
    lengths = {m: comparison.lengths(m)[0] for m in on}
    finished = _records(comparison, on, lengths, rate_of, run, f"{label}, best restarts")
    best |= {m: _best(on[m], finished[m.key], 1) for m in on}
    complete = min(map(len, best.values()), default=seeds)
    chosen = {
        m: [seed for (seed, *_) in best[m][:complete]] if m in best else list(range(complete))
        for m in comparison.models
    }
    return chosen, tried, finished


def _records(
    comparison: Comparison[M],
    starts: Mapping[M, Sequence[Sequence[int]]],
    steps: Mapping[M, int],
    rate_of: Mapping[M, float],
    run: RunFolder,
    label: str,
) -> Kept:
    """By key, of as many seeds as are finished for all models: those of its starts.

    Raises Unfinished for fewer than two.
    """
    arms = {
        m: [[comparison.tried(comparison.make(m, start, steps[m], rate_of[m])) for start in tries] for tries in seeds]
        for m, seeds in starts.items()
    }
    by_seed = [arm for seeds in zip(*arms.values(), strict=True) for tries in seeds for arm in tries]
    records = stacks.train_stacked(by_seed, run, label) if by_seed else {}
    late = [s for seeds in arms.values() for s, tries in enumerate(seeds) if any(arm not in records for arm in tries)]
    if late and min(late) < 2:
        done = sum(arm in records for arm in by_seed)
        raise Unfinished(f"{label}: {done} of {len(by_seed)} are finished; a comparison needs two seeds of all")
    complete = min(late, default=None)
    return {m.key: [[records[arm] for arm in tries] for tries in seeds[:complete]] for m, seeds in arms.items()}


def _best(starts: Sequence[Sequence[int]], tried: Sequence[Sequence[Json]], count: int) -> list[list[int]]:
    """Of every seed so many starts, those with the least training loss first; one that diverged comes last."""

    def loss(at: tuple[int, Json]) -> float:
        return inf if at[1]["diverged"] else at[1]["curve"][-1][1]

    pairs = (zip(of_seed, records, strict=True) for of_seed, records in zip(starts, tried, strict=False))
    return [[start for start, _ in sorted(some, key=loss)[:count]] for some in pairs]
