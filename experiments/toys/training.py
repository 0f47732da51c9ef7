"""Toys trained on sampled prompts: stacks of them, each an item of `experiments.store.work`, resumed where killed.

Toys of different widths go into different stacks: a stack pads all its toys to the widest one, and its numbers no
longer fit into a core's cache.  Those of one width go into PARTS of them, by seed, so that no core waits for another's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from experiments.store.desk import Desk
from experiments.store.folders import METRICS, Json, RunFolder, UserError
from experiments.store.progress import warn
from experiments.store.steps import StepLog, stoppable
from experiments.store.work import results
from experiments.toys.runs import Point, population_weights
from theory.plans.heads import TOYS

if TYPE_CHECKING:
    from torch import Tensor

    from icl.recipe import Recipe
    from icl.toys.stack import Stack
    from icl.toys.stacked import ToySpec
    from icl.toys.training import Method

Start = Literal["orthogonal", "gaussian"]
BATCHES_A_REPORT = 16  # of held-out prompts
PARTS = 2  # halves cost no more than the whole; below some size a step's calls outweigh its arithmetic
SECONDS_BETWEEN_SAVES = 2.0


@dataclass(frozen=True, kw_only=True)
class Training:
    """The settings with which toys are trained and tested; the rest stands in `icl.toys.training.toy_recipe`.

    start  "orthogonal": near the theorem's own construction; "gaussian": the usual start (`icl.toys.stacked.Init`)
    """

    steps: int
    held_out: int
    batch: int = 64
    learning_rate: float = 0.003
    start: Start = "orthogonal"


@dataclass(frozen=True)
class _Group:
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    training: Training


def train_all(points: Sequence[Point], seeds: int, training: Training, run: RunFolder) -> Json:
    """Return, for every point, the signal that trained toys explain on held-out prompts, one number per seed."""
    by_width: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        by_width[point.size.d].append(point)
    parts = [tuple(range(part, seeds, PARTS)) for part in range(min(PARTS, seeds))]
    groups = {
        f"{training.start}/d{d}/{part}": _Group(tuple(by_width[d]), of_part, training)
        for d in sorted(by_width, reverse=True)  # what takes longest first
        for part, of_part in enumerate(parts)
    }
    label = f"training {len(points) * seeds} toys, {training.start} start"
    size = training.steps + held_out_batches(training.held_out)
    trained = results("trained", groups, _trained, run=run, label=label, size=lambda _: size)
    explained: dict[tuple[str, int], float] = {}
    for name, group in groups.items():
        for key, values in trained[name]["explained"].items():
            explained |= {(key, seed): value for seed, value in zip(group.seeds, values, strict=True)}
    return {point.key: [explained[point.key, seed] for seed in range(seeds)] for point in points}


def _trained(group: _Group, desk: Desk) -> Json:
    from icl.toys.stacked import StackedToys
    from icl.toys.training import toy_recipe

    training = group.training
    toys = StackedToys(_specs(group.points, group.seeds, training.start))
    recipe = toy_recipe(training.steps, training.batch, training.learning_rate)
    losses = train_stack(toys, recipe, desk)
    explained = held_out_signal(toys, training.held_out, desk, after=training.steps)
    return {"losses": losses, "explained": _by_point(group.points, group.seeds, explained)}


def train_stack(
    toys: Stack[Any, Any],
    recipe: Recipe,
    desk: Desk,
    learning_rates: Tensor | None = None,
    method: Method = "adam",
) -> list[list[float]]:
    """Train in place, from where a killed computation left off; return the losses of all toys at every logged step.

    learning_rates and method as in `icl.toys.training.train`.  Reports steps.  Raises UserError for a checkpoint that
    is damaged or belongs to something else, and OutOfTime once all is saved.
    """
    from icl.toys.training import train

    log = StepLog(RunFolder(desk.folder), "step", recipe.log_every, losses=list)
    steps = train(
        toys,
        recipe,
        learning_rates=learning_rates,
        method=method,
        folder=desk.folder / "training",
        seconds_between_saves=SECONDS_BETWEEN_SAVES,
        warn=warn,
    )
    with stoppable(steps):
        for report in steps:
            losses = [float(report.losses[toys.locate[i]]) for i in range(len(toys.specs))]
            log.add(report.step, losses=losses)
            _check_whole(log, report.step)
            desk.report(report.step, f"mean loss {sum(losses) / len(losses):.3f}")
    _check_whole(log, recipe.steps)
    return [line["losses"] for line in log.lines]


def _check_whole(log: StepLog, step: int) -> None:
    if log.missing(step):
        raise UserError(f"{log.run / METRICS} lacks lines of what was trained; delete {log.run.path} to retrain")


def held_out_batches(prompts: int) -> int:
    """Return how many batches make at least so many prompts."""
    from icl.toys.stack import EVAL_BATCH

    return -(-prompts // EVAL_BATCH)


def held_out_signal(toys: Stack[Any, Any], prompts: int, desk: Desk, after: float) -> list[float]:
    """Return the signal explained by every toy, in the order of its spec, on at least `prompts` held-out prompts.

    Reports batches beside what was done before, `after`.
    """
    import torch

    from icl.toys.stack import EVAL_BATCH, explained_signal

    batches = held_out_batches(prompts)
    total = torch.zeros((), dtype=torch.float64)
    for start in range(0, batches, BATCHES_A_REPORT):
        count = min(BATCHES_A_REPORT, batches - start)
        total = total + explained_signal(toys, count * EVAL_BATCH, start) * (count / batches)
        desk.report(after + start + count, "held-out prompts")
    return [float(total[toys.locate[i]]) for i in range(len(toys.specs))]


def readouts_only(points: Sequence[Point], seeds: int, start: Start) -> Json:
    """Return, for every point, what the initial A, B and K explain, exactly, if only the readouts W are fitted."""
    from icl.toys.stacked import StackedToys
    from theory.prompts.moments import PromptMoments
    from theory.toy.population import PopulationLoss

    specs = _specs(points, range(seeds), start)
    toys = StackedToys(specs)
    explained = []
    for i, spec in enumerate(specs):
        loss = PopulationLoss(PromptMoments(spec.task.d, spec.task.n, spec.task.sigma), spec.heads)
        explained.append(loss.zero_loss - loss.value(loss.best_readout(population_weights(toys, i))))
    return _by_point(points, range(seeds), explained)


def _specs(points: Sequence[Point], seeds: Sequence[int], start: Start) -> list[ToySpec]:
    from icl.prompts import RegressionTask
    from icl.toys.stacked import Gaussian, Orthogonal, ToySpec

    init = Orthogonal() if start == "orthogonal" else Gaussian()
    return [
        ToySpec(RegressionTask(*p.size.floats), TOYS[p.toy], p.rank, seed=seed, init=init)
        for p in points
        for seed in seeds
    ]


def _by_point(points: Sequence[Point], seeds: Sequence[int], values: Sequence[float]) -> Json:
    """Return values in the order of `_specs`, as one list of seeds per point."""
    count = len(seeds)
    return {point.key: list(values[i * count : (i + 1) * count]) for i, point in enumerate(points)}
