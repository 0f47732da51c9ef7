"""Toys trained by plain gradient descent on fresh prompts, and the exact gradient flow from the same starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.skipv1.dynamics.points import Arm, Config, Shares, Staircase, heads
from experiments.store.desk import Desk
from experiments.store.folders import Json
from experiments.store.work import results
from experiments.toys.runs import population_weights
from experiments.toys.training import train_stack
from theory.plans.heads import Heads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.store.folders import RunFolder
    from icl.toys.stacked import StackedToys
    from icl.toys.training import Method
    from theory.toy.population import PopulationLoss, Weights

ACCURACY = 1e-5  # of the exact flow from Gaussian starts, whose plateaus are far apart
LIMIT = 10  # times as long as training: when the exact flow is taken to be at its end


@dataclass(frozen=True)
class _Staircase:
    staircase: Staircase
    seeds: int


@dataclass(frozen=True)
class _Stack:
    """Arms with the same number of heads."""

    shares: Shares
    arms: tuple[Arm, ...]
    seeds: int
    method: Method

    @property
    def steps(self) -> int:
        return self.shares.steps if self.method == "descent" else self.shares.adam_steps


@dataclass(frozen=True)
class _Flows:
    shares: Shares
    arm: Arm
    count: int


def train_staircases(config: Config, seeds: int, run: RunFolder) -> Json:
    """Of every staircase the losses at its times, one list of seeds a time."""
    items = {x.key: _Staircase(x, seeds) for x in config.staircases}
    trained = results(
        "staircase", items, _staircase, run, label="training from balance", size=lambda item: item.staircase.steps
    )
    return {key: value["losses"] for key, value in trained.items()}


def train_shares(shares: Shares, seeds: int, run: RunFolder) -> Json:
    """Of every arm the signal explained by its trained toys, exactly, one number a start.

    Of those with two heads also what the exact gradient flow from the first starts explains, after the same time and,
    where Theorem 3 bounds the rank of the limit, after LIMIT times that, with the bounds; and of the highest rank what
    toys trained by Adam explain.
    """
    groups: dict[tuple[str, int, Method], list[Arm]] = {}
    for arm in shares.arms:
        groups.setdefault((arm.toy, arm.heads, "descent"), []).append(arm)
        if arm in shares.by_adam:
            groups.setdefault((arm.toy, arm.heads, "adam"), []).append(arm)
    stacks = {
        f"{toy}/h{count}/{method}": _Stack(shares, tuple(arms), seeds, method)
        for (toy, count, method), arms in groups.items()
    }
    trained = results("share", stacks, _share, run, label="training from Gaussian starts", size=lambda x: x.steps)
    flows = {arm.key: _Flows(shares, arm, min(seeds, shares.flows)) for arm in shares.arms if arm.heads == 2}
    flowed = results("flow", flows, _flow, run, label="exact gradient flows", size=lambda item: item.count)
    ends: Json = {arm.key: dict(flowed.get(arm.key, {})) for arm in shares.arms}
    for stack in trained.values():
        for key, explained in stack["explained"].items():
            ends[key][stack["method"]] = explained
    return ends


def exact_path(staircase: Staircase) -> list[float]:
    """The exact losses along the gradient flow from the start of a staircase, at its times."""
    from theory.toy.flow import gradient_flow

    toys = _balanced_toys(staircase, 1)
    loss = _loss(staircase.size.floats, staircase.heads)
    return [float(x) for x in gradient_flow(loss, population_weights(toys, 0), staircase.times).losses]


def _staircase(item: _Staircase, desk: Desk) -> Json:
    from icl.toys.training import toy_recipe

    stairs = item.staircase
    recipe = toy_recipe(
        stairs.steps,
        stairs.batch,
        stairs.learning_rate,
        warmup=0.0,
        floor=1.0,
        clip=0.0,
        log_every=stairs.log_every,
    )
    return {"losses": train_stack(_balanced_toys(stairs, item.seeds), recipe, desk, method="descent")}


def _share(stack: _Stack, desk: Desk) -> Json:
    from icl.toys.training import toy_recipe

    shares = stack.shares
    toys = _gaussian_toys(shares, stack.arms, stack.seeds)
    recipe = toy_recipe(stack.steps, shares.batch, shares.learning_rate, warmup=0.0)
    train_stack(toys, recipe, desk, method=stack.method)
    explained = [
        _explained(shares, arm, population_weights(toys, i * stack.seeds + seed))
        for i, arm in enumerate(stack.arms)
        for seed in range(stack.seeds)
    ]
    groups = [explained[i * stack.seeds : (i + 1) * stack.seeds] for i in range(len(stack.arms))]
    return {
        "method": stack.method,
        "explained": {arm.key: group for arm, group in zip(stack.arms, groups, strict=True)},
    }


def _flow(item: _Flows, desk: Desk) -> Json:
    from theory.skipv1.dynamics import rank_bounds
    from theory.toy.flow import gradient_flow

    arm = item.arm
    toys = _gaussian_toys(item.shares, (arm,), item.count)
    loss = _loss(item.shares.size.floats, heads(arm.toy, arm.heads))
    explained: list[float] = []
    limits: list[float] = []
    bounds: list[tuple[int, int]] = []
    for seed in range(item.count):
        start = population_weights(toys, seed)
        if arm.bounded:
            bounds.append(rank_bounds(start.k[1][: arm.rank], start.a))
        times = [item.shares.time, LIMIT * item.shares.time][: 2 if arm.bounded else 1]
        losses = gradient_flow(loss, start, times, ACCURACY).losses
        for values, value in zip((explained, limits), losses, strict=False):
            values.append(loss.zero_loss - float(value))
        desk.report(seed + 1, arm.key)
    return {"flow": explained, "limit": limits, "bounds": bounds}


def _explained(shares: Shares, arm: Arm, weights: Weights) -> float:
    loss = _loss(shares.size.floats, heads(arm.toy, arm.heads))
    return loss.zero_loss - loss.value(weights)


def _balanced_toys(stairs: Staircase, seeds: int) -> StackedToys:
    from icl.prompts import RegressionTask
    from icl.toys.stacked import StackedToys, ToySpec

    task, start = RegressionTask(*stairs.size.floats), stairs.start()
    return StackedToys([ToySpec(task, stairs.heads, stairs.rank, seed, start) for seed in range(seeds)])


def _gaussian_toys(shares: Shares, arms: Sequence[Arm], seeds: int) -> StackedToys:
    from icl.prompts import RegressionTask
    from icl.toys.stacked import Gaussian, StackedToys, ToySpec

    task = RegressionTask(*shares.size.floats)
    return StackedToys(
        [
            ToySpec(task, heads(arm.toy, arm.heads), arm.rank, seed, Gaussian(keys=arm.keys))
            for arm in arms
            for seed in range(seeds)
        ]
    )


def _loss(task: tuple[int, int, float], kinds: Heads) -> PopulationLoss:
    from theory.prompts.moments import PromptMoments
    from theory.toy.population import PopulationLoss

    return PopulationLoss(PromptMoments(*task), kinds)
