"""What the toy experiments share: exact minimisation and stacked training of a list of toys, resumable."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, Unfinished, UserError
from experiments.store.progress import progress, warn
from experiments.store.steps import StepLog
from experiments.store.threads import one_thread
from experiments.store.work import results
from theory.plans.heads import TOYS, Heads
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from icl.recipe import Recipe
    from icl.toys.stack import Stack
    from icl.toys.stacked import StackedToys, ToySpec
    from theory.toy.population import Weights

SECONDS_BETWEEN_CHECKPOINTS = 5.0
HELD_OUT_CHUNK = 16 * 1024  # prompts


@dataclass(frozen=True)
class Point:
    """One toy: a task, an architecture by name (of `theory.plans.heads.TOYS`, unless others are given) and a rank."""

    size: Setting
    toy: str
    rank: int

    @property
    def key(self) -> str:
        return point_key(self.size.key, self.toy, self.rank)


def point_key(size: str, toy: str, rank: int) -> str:
    """How results name a point, of whose size they have the key."""
    return f"{size}/{toy}/a{rank}"


Start = Literal["orthogonal", "gaussian"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """How toys are trained and tested; the rest stands in `icl.toys.training.toy_recipe`.

    start  "orthogonal": near the theorem's own construction; "gaussian": the usual start (`icl.toys.stacked.Init`)
    """

    steps: int
    held_out: int
    batch: int = 64
    learning_rate: float = 0.003
    start: Start = "orthogonal"


def every_rank(sizes: Sequence[Setting]) -> list[Point]:
    """Every architecture at every rank of every size."""
    return [Point(size, toy, rank) for size in sizes for toy in TOYS for rank in range(size.d + 1)]


@dataclass(frozen=True)
class Minimisation:
    """The exact minimum at a point, from so many starts; heads: those of the architecture that the point names."""

    point: Point
    heads: Heads
    starts: int


def minimisations(points: Iterable[Point], starts: int, toys: Mapping[str, Heads] = TOYS) -> list[Minimisation]:
    return [Minimisation(point, toys[point.toy], starts) for point in points]


def minimise_all(todo: Iterable[Minimisation], run: RunFolder) -> Json:
    """For every point: the signal explained at the exact minimum, and the certificate's other numbers."""
    items = {item.point.key: item for item in todo}
    label, starts = "exact minimisation", attrgetter("starts")
    minima = results("exact", items, minimum, run, label=label, size=starts, field="point")
    return {key: {"kind": "exact", "point": key, **result} for key, result in minima.items()}


def minimum(item: Minimisation, desk: Desk) -> Json:
    """The signal explained at the exact minimum, and the certificate's other numbers."""
    from theory.prompts.moments import PromptMoments
    from theory.toy.minimise import minimise
    from theory.toy.population import PopulationLoss

    point = item.point

    def report(done: int, _: float) -> None:
        if done < item.starts:
            desk.report(done, point.key)

    loss = PopulationLoss(PromptMoments(*point.size.floats), item.heads)
    result = minimise(loss, point.rank, starts=item.starts, after_start=report)
    return {
        "loss": result.value,
        "explained": loss.zero_loss - result.value,
        "gradient_norm": result.gradient_norm,
        "scale": result.scale,
        "starts": result.starts,
        "agreeing": result.agreeing,
    }


def train_all(points: Sequence[Point], seeds: int, training: Training, run: RunFolder) -> Json:
    """For every point: the signal that toys trained on sampled prompts explain on held-out ones, one number a seed."""
    from icl.toys.stacked import StackedToys
    from icl.toys.training import toy_recipe

    toys = StackedToys(_specs(points, seeds, training.start))
    recipe = toy_recipe(training.steps, training.batch, training.learning_rate)
    train_stack(toys, recipe, training.start, run)
    return _by_point(points, seeds, held_out_signal(toys, training.held_out, HELD_OUT_CHUNK))


def train_stack(
    toys: Stack[Any, Any], recipe: Recipe, name: str, run: RunFolder, learning_rates: Tensor | None = None
) -> None:
    """Train in place, from where a killed run of that name left off; losses go to metrics.jsonl, kind "train NAME".

    learning_rates as in `icl.toys.training.train`.  Raises UserError for a checkpoint that is damaged or belongs to
    something else, and Unfinished if time is up.
    """
    from icl.checkpoint import BadCheckpoint
    from icl.toys.training import train

    saved, late = time.monotonic(), False

    def due(_: int) -> bool:
        nonlocal saved
        if time.monotonic() - saved < SECONDS_BETWEEN_CHECKPOINTS and not late:
            return False
        saved = time.monotonic()
        return True

    label = f"training {len(toys.specs)} toys, {name}"
    try:
        with run.locked(), one_thread(), progress(label, recipe.steps) as at:
            log = StepLog(run, f"train {name}")
            reports = train(
                toys,
                recipe,
                learning_rates=learning_rates,
                folder=run / f"training-{name}",
                save_when=due,
                warn=warn,
            )
            for report in reports:
                if late:
                    raise Unfinished(f"{label}: {report.step - recipe.log_every} of {recipe.steps} steps are done")
                losses = [float(report.losses[toys.locate[i]]) for i in range(len(toys.specs))]
                log.add(report.step, losses=losses)
                at(report.step, f"mean loss {sum(losses) / len(losses):.3f}")
                late = run.slot.seconds_left < 0
    except BadCheckpoint as error:
        raise UserError(str(error)) from error


def held_out_signal(toys: Stack[Any, Any], prompts: int, chunk: int) -> list[float]:
    """The signal explained by every toy, in the order of its spec, on as many chunks as make at least `prompts`."""
    import torch

    from icl.toys.stack import EVAL_BATCH, explained_signal

    chunks = -(-prompts // chunk)
    explained = torch.zeros((), dtype=torch.float64)
    with one_thread(), progress("held-out prompts", chunks) as at:
        at(0)
        for i in range(chunks):
            explained = explained + explained_signal(toys, chunk, start=i * chunk // EVAL_BATCH) / chunks
            at(i + 1)
    return [float(explained[toys.locate[i]]) for i in range(len(toys.specs))]


def population_weights(toys: StackedToys, i: int) -> Weights:
    """Toy i of a stack in the terms of `theory.toy.population`, in float64."""
    from theory.toy.population import Weights

    return Weights(**{name: x.double().numpy() for name, x in toys.weights(i).items()})


def readouts_only(points: Sequence[Point], seeds: int, start: Start) -> Json:
    """For every point: what the initial A, B and K explain, exactly, if only the readouts W are fitted."""
    from icl.toys.stacked import StackedToys
    from theory.prompts.moments import PromptMoments
    from theory.toy.population import PopulationLoss

    specs = _specs(points, seeds, start)
    toys = StackedToys(specs)
    explained = []
    for i, spec in enumerate(specs):
        loss = PopulationLoss(PromptMoments(spec.task.d, spec.task.n, spec.task.sigma), spec.heads)
        explained.append(loss.zero_loss - loss.value(loss.best_readout(population_weights(toys, i))))
    return _by_point(points, seeds, explained)


def _specs(points: Sequence[Point], seeds: int, start: Start) -> list[ToySpec]:
    from icl.prompts import RegressionTask
    from icl.toys.stacked import Gaussian, Orthogonal, ToySpec

    init = Orthogonal() if start == "orthogonal" else Gaussian()
    return [
        ToySpec(RegressionTask(*p.size.floats), TOYS[p.toy], p.rank, seed, init)
        for p in points
        for seed in range(seeds)
    ]


def _by_point(points: Sequence[Point], seeds: int, values: Sequence[float]) -> Json:
    """Values in the order of `_specs`, as one list of seeds a point."""
    return {point.key: list(values[i * seeds : (i + 1) * seeds]) for i, point in enumerate(points)}
