"""Trainings of the ladder: continuations up the rungs, and single trainings from random weights."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.across.ladder.setting import FIRST, LAST, RUNGS, Config, architecture
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.provenance import provenance
from experiments.store.work import results
from experiments.training import stacks
from experiments.training.arms import Arm, PromptSource
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.comparing import model_of
from experiments.training.tuning import APART, tuned
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from icl.models.decoder import Decoder

SEARCH_SEED = 1_000  # of the first start, apart from seeds of `found`
GROUP = 4  # seeds that one worker leads up a rung
FINELY = 8  # times as many prompts score what is reached where no lead is expected, which takes a smaller error


def measured(config: Config, seeds: int, run: RunFolder) -> Json:
    """Return the shares reached, by task and rung and by width, and those of single trainings, by rung and width."""
    reached, wider, records = dict[str, Json](), dict[str, Json](), list[Json]()
    for task in config.tasks:
        reached[task.key], some = _reached(task, task.d, config, run=run)
        records += some
    for factor in config.widths:
        wider[str(factor)], some = _reached(config.task, factor * config.task.d, config, run=run)
        records += some
    parts, tuning, trained = _found(config, seeds, run)
    provenance_of = of_runs([*records, *trained])
    about = {"seeds": seeds, "task": config.task.key}
    return {**about, "reached": reached, "wider": wider, "parts": parts, "tuning": tuning, "provenance": provenance_of}


def prompts(config: Config, task: Setting) -> PromptSource:
    """Return what models of a task are trained and compared on; the last answer alone is scored."""
    return PromptSource(*task.floats, config.scored_prompts, scored="last")


def _arm(name: str, place: tuple[str, Setting, int], config: Config, *, seed: int, steps: int, rate: float) -> Arm:
    """Return a training of a rung, a task and a width."""
    rung, task, width = place
    sizes, variant = model_of(BASELINE if name == TWIN else name, config.own, architecture(rung, task, width))
    return Arm(
        architecture=sizes,
        variant=variant,
        source=prompts(config, task),
        recipe=replace(config.recipe.of_length(steps), learning_rate=rate),
        seed=seed,
        std=width**-0.5,
        twin=name == TWIN,
        label="" if name in (BASELINE, TWIN) else name,
    )


@dataclass(frozen=True)
class Climb:
    """Some seeds of all arms of a task and a width, to be led up a rung.

    before: the weights at the end of the rung before, by arm and seed; none on the first.
    """

    rung: str
    task: Setting
    width: int
    config: Config
    names: tuple[str, ...]
    seeds: tuple[int, ...]
    before: Mapping[str, Json]

    @property
    def place(self) -> tuple[str, Setting, int]:
        """Return rung, task and width."""
        return self.rung, self.task, self.width

    @property
    def scored(self) -> PromptSource:
        """Return the prompts on which the best are compared."""
        more = 1 if self.width == self.task.d else FINELY
        return replace(prompts(self.config, self.task), held_out_prompts=more * self.config.scored_prompts)

    @property
    def steps(self) -> int:
        """Return how many steps a training takes."""
        return self.config.search_steps if self.rung == FIRST else self.config.lengths[0]


def _reached(task: Setting, width: int, config: Config, run: RunFolder) -> tuple[Json, list[Json]]:
    """Return shares and learning rates by rung and arm, one number per seed, and the trainings' records.

    Arms that no stack can hold are left out.
    """
    from icl.stacks.decoder import misfit

    seeds, before, found, about = config.seeds(task), dict[str, Json](), dict[str, Json](), list[Json]()
    groups = [tuple(seeds[i : i + GROUP]) for i in range(0, len(seeds), GROUP)]
    where = task.key if width == task.d else f"{task.key}/width {width}"
    first = {name: _arm(name, (FIRST, task, width), config, seed=0, steps=1, rate=1.0) for name in config.names(task)}
    names = tuple(name for name, arm in first.items() if misfit(arm.architecture, arm.plan) is None)
    for rung in RUNGS:
        climbs = {
            f"{rung}/{where}/seeds {some[0]} to {some[-1]}": Climb(
                rung, task, width, config=config, names=names, seeds=some, before=before
            )
            for some in groups
        }
        parts = results("reached", climbs, _climb, run=run, label=f"ladder, {where}, {rung}", size=_size)
        about += [part["about"] for part in parts.values()]
        ends = {name: end for part in parts.values() for name, end in part["ends"].items()}
        before = {name: end["weights"] for name, end in ends.items()}
        found[rung] = {
            what: {arm: [ends.get(f"{arm}/{seed}", {}).get(what) for seed in seeds] for arm in names}
            for what in ("share", "stderr", "rate")
        }
    return found, about


def _size(climb: Climb) -> float:
    return len(_tries(climb)) * climb.steps


class Try(NamedTuple):
    """A training of a seed: its number among them, and its learning rate."""

    name: str
    seed: int
    number: int
    rate: float

    @property
    def key(self) -> str:
        return f"{self.name}/{self.seed}"


def _tries(climb: Climb) -> list[Try]:
    """Return all that is trained: a seed that diverged on a rung goes no further."""
    config, rates = climb.config, climb.config.rates
    count = max(config.starts, len(rates)) if climb.rung == FIRST else len(rates)
    tries = [
        Try(name, seed, i, rate=rates[i % len(rates)])
        for name in climb.names
        for seed in climb.seeds
        for i in range(count)
    ]
    return [one for one in tries if climb.rung == FIRST or one.key in climb.before]


def _climb(climb: Climb, desk: Desk) -> Json:
    """Train all tries of a rung, those of one shape as a stack; the best of each seed by training loss."""
    from icl.stacks.decoder import common

    began, stacked, ends = time.monotonic(), dict[tuple[Any, ...], dict[Try, Arm]](), Json()
    first = climb.rung == FIRST
    for one in _tries(climb):
        seed = SEARCH_SEED + one.seed + APART * (one.number if first else 0)
        arm = _arm(one.name, climb.place, climb.config, seed=seed, steps=climb.steps, rate=one.rate)
        stacked.setdefault((arm.architecture, *common(arm.plan)), {})[one] = arm
    for arms in stacked.values():
        ends |= _best_of(arms, climb, desk)
    return {
        "ends": ends,
        "about": {"seconds": round(time.monotonic() - began, 2), **provenance(desk.slot.device, __name__)},
    }


def _best_of(arms: Mapping[Try, Arm], climb: Climb, desk: Desk) -> Json:
    from icl.stacks.training import score, train

    tries, some = list(arms), next(iter(arms.values()))
    models = [arm.model(desk.slot.device) for arm in arms.values()]
    for one, model in zip(tries, models, strict=True):
        if climb.rung != FIRST:
            _take_over(model, climb.before[one.key])
    quick = replace(some, source=PromptSource(*climb.task.floats, 64, scored="last")).task()
    seeds = [arm.seed for arm in arms.values()]
    rates = [one.rate for one in tries]
    trained = train(models, quick, [some.recipe], seeds=seeds, rates=rates, turning=RUNGS[climb.rung])  # type: ignore[arg-type]
    losses: Sequence[float] = ()
    while True:
        try:
            logged = next(trained)
        except StopIteration as end:
            stack = end.value
            break
        losses = logged.losses
        desk.report(logged.done * len(models), f"{climb.rung}: step {logged.step}")
    best: dict[str, int] = {}
    for i, one in enumerate(tries):
        if isfinite(losses[i]) and (one.key not in best or losses[i] < losses[best[one.key]]):
            best[one.key] = i
    if not best:
        return {}
    finely = replace(some, source=climb.scored).task()
    ends = score([stack.copied(i, models[i]) for i in best.values()], finely)  # type: ignore[arg-type]
    power, zero, signal = climb.scored.power(), float(climb.task.zero_loss), climb.task.d**2
    return {
        key: {
            "share": zero / signal * (1 - end.loss[-1] / power),
            "stderr": end.stderr[-1] / signal,
            "rate": tries[i].rate,
            "weights": {name: x.flatten().tolist() for name, x in stack.weights(i).items()},
        }
        for (key, i), end in zip(best.items(), ends, strict=True)
    }


def _take_over(model: Decoder, weights: Mapping[str, Sequence[float]]) -> None:
    """Give a model the weights of the rung before; what that lacks stays as it begins."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in weights:
                parameter.copy_(torch.tensor(weights[name]).view_as(parameter))


def _found(config: Config, seeds: int, run: RunFolder) -> tuple[Json, Json, list[Json]]:
    """Return shares after both lengths of one training per seed: by rung at width d, then by width on the last rung."""
    task, names, long = config.task, config.names(config.task), config.lengths[-1]
    places = {f"{rung}, width d": (rung, task, task.d) for rung in RUNGS}
    places |= {f"{LAST}, width {factor} d": (LAST, task, factor * task.d) for factor in config.widths}
    trials = {
        f"{key}, {name}": _arm(name, place, config, seed=0, steps=long, rate=config.recipe.learning_rate)
        for key, place in places.items()
        for name in names
        if name != TWIN
    }
    rates, tuning = tuned(trials, config.tuning, run, label="ladder", train=stacks.train_stacked)

    def arms(seed: int) -> dict[tuple[str, str, int], Arm]:
        return {
            (key, name, steps): _arm(name, place, config, seed=seed, steps=steps, rate=rates[f"{key}, {tuned_as}"])
            for key, place in places.items()
            for name in names
            for tuned_as in [BASELINE if name == TWIN else name]
            for steps in config.lengths
        }

    trained = rounds(arms, seeds, run, label="ladder", train=stacks.train_stacked)
    power, zero, signal = prompts(config, task).power(), float(task.zero_loss), task.d**2

    def ends(key: str, name: str, steps: int) -> list[Json | None]:
        return [of_seed[key, name, steps]["held_out"] for of_seed in trained]

    def shares(key: str, name: str, steps: int) -> list[float | None]:
        return [end and zero / signal * (1 - end["loss"][-1] / power) for end in ends(key, name, steps)]  # type: ignore[misc]

    parts = {
        key: {
            "width": width,
            "share": {name: [shares(key, name, steps) for steps in config.lengths] for name in names},
            "stderr": {name: [end and end["stderr"][-1] / signal for end in ends(key, name, long)] for name in names},
        }
        for key, (_, _, width) in places.items()
    }
    return parts, tuning, [record for of_seed in trained for record in of_seed.values()]
