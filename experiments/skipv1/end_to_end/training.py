"""The trained arms of the end-to-end experiment: one stack for every width of a sweep.

Learning rates were searched on seeds 100 to 103, among 0.01, 0.03 and 0.1 at d = 2 and 0.005, 0.01, 0.02 and 0.03 at
d = 3: those at which the fewest toys of both architectures stopped on plateaus, as a gain of 0.5 left fewer there than
one of 1.  Some still do from a random start; so with nothing assumed each toy is trained at two rates, and the one
counts whose mean training loss over the last LAST_STEPS steps is lower.  The rule is one for both architectures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.skipv1.end_to_end.points import Config, Sweep, arm_key
from experiments.store.desk import Desk
from experiments.store.folders import Json
from experiments.store.work import results
from experiments.toys.training import held_out_batches, held_out_signal, train_stack

if TYPE_CHECKING:
    from experiments.store.folders import RunFolder
    from icl.toys.end_to_end import EndToEndSpec, EndToEndToys

LAST_STEPS = 500
MEASURED = ("explained", "learning_rates", "copying", "copying_at_start")


@dataclass(frozen=True)
class _Stack:
    sweep: Sweep
    width: int
    heads: int
    seeds: int
    held_out: int
    copying_prompts: int

    @property
    def size(self) -> int:
        return self.sweep.steps + held_out_batches(self.held_out)


@dataclass(frozen=True)
class _Trainee:
    arm: str
    learning_rate: float
    spec: EndToEndSpec


def train_arms(config: Config, seeds: int, run: RunFolder) -> Json:
    """By what is MEASURED and by arm: explained share, learning rate and copying of every seed, after training and, of
    copying, before it."""
    stacks = {  # what takes longest first, so that none is left to run alone at the end
        _stack_key(sweep, width, heads): _Stack(sweep, width, heads, seeds, config.held_out, config.copying_prompts)
        for sweep in reversed(config.sweeps)
        for width in reversed(sweep.widths)
        for heads in reversed(sweep.heads)
        if any(arms.heads == heads and width in arms.widths for arms in sweep.arms)
    }
    trained = results("trained", stacks, _trained, run, label="training end to end", size=lambda stack: stack.size)
    return {name: {arm: x for stack in trained.values() for arm, x in stack[name].items()} for name in MEASURED}


def _stack_key(sweep: Sweep, width: int, heads: int) -> str:
    return f"{sweep.size.key}/m{width}" + (f"/h{heads}" if heads != 2 else "")


def _trained(stack: _Stack, desk: Desk) -> Json:
    import torch

    from icl.toys.end_to_end import EndToEndToys
    from icl.toys.training import toy_recipe

    trainees = [
        trainee
        for trainee in _trainees(stack.sweep, stack.seeds)
        if trainee.spec.width == stack.width and len(trainee.spec.heads) == stack.heads
    ]
    toys = EndToEndToys([trainee.spec for trainee in trainees])
    before = _copying(toys, stack.copying_prompts)
    rates = torch.zeros(toys.shape, dtype=toys.dtype)
    for i, trainee in enumerate(trainees):
        rates[toys.locate[i]] = trainee.learning_rate
    recipe = toy_recipe(stack.sweep.steps)
    losses = train_stack(toys, recipe, desk, rates)
    last = losses[-LAST_STEPS // recipe.log_every :]
    counting = _lowest(trainees, [fmean(toy) for toy in zip(*last, strict=True)])
    explained = held_out_signal(toys, stack.held_out, desk, after=recipe.steps)
    return {
        "losses": losses,
        "explained": _by_arm(counting, [x / stack.sweep.size.d**2 for x in explained]),
        "learning_rates": _by_arm(counting, [trainee.learning_rate for trainee in trainees]),
        "copying": _by_arm(counting, _copying(toys, stack.copying_prompts)),
        "copying_at_start": _by_arm(counting, before),
    }


def _trainees(sweep: Sweep, seeds: int) -> Iterator[_Trainee]:
    """Every toy to be trained; what differs in its learning rate alone stands together, and the seeds of an arm do."""
    from icl.prompts import RegressionTask
    from icl.toys.end_to_end import Copying, EndToEndSpec, Random
    from theory.plans.heads import MHA

    size = sweep.size
    task = RegressionTask(*size.floats)
    for arms in sweep.arms:
        several = arms.scores == "both" and arms.start == "random"
        for width in arms.widths:
            for toy, heads in arms.toys.items():
                rank = min(width // 2, size.d) if heads == MHA else size.d
                start = Random() if arms.start == "random" else Copying(rank)
                key = arm_key(size.key, arms.scores, arms.start, toy, width)
                for seed in range(seeds):
                    spec = EndToEndSpec(task, heads, width, seed, start, arms.scores)
                    for rate in sweep.learning_rates if several else sweep.learning_rates[:1]:
                        yield _Trainee(key, rate, spec)


Counting = dict[str, list[int]]  # of every arm, the trainee that counts for each seed


def _lowest(trainees: Sequence[_Trainee], losses: Sequence[float]) -> Counting:
    """Of those that differ in their learning rate alone, the one with the lowest loss; NaN is the highest."""
    best: dict[EndToEndSpec, int] = {}
    for i, trainee in enumerate(trainees):
        here = best.setdefault(trainee.spec, i)
        if losses[i] < losses[here] or math.isnan(losses[here]):
            best[trainee.spec] = i
    counting: Counting = {}
    for i in best.values():
        counting.setdefault(trainees[i].arm, []).append(i)
    return counting


def _by_arm(counting: Counting, values: Sequence[float] | Sequence[Json]) -> Json:
    return {arm: [values[i] for i in members] for arm, members in counting.items()}


def _copying(toys: EndToEndToys, prompts: int) -> list[Json]:
    from icl.probes.copying import copying

    shares = copying(toys, prompts)
    parts = {name: getattr(shares, name) for name in ("x_kept", "x_in_y", "y_in_y", "gram")}
    return [{name: float(x[toys.locate[i]]) for name, x in parts.items()} for i in range(len(toys.specs))]
