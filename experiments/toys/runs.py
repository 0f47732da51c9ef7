"""Points of the toy experiments, each a task, an architecture and a rank, and their exact minima."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from theory.plans.heads import TOYS, Heads
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from icl.toys.stacked import StackedToys
    from theory.toy.population import Weights


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
    """Return the name of a point in results, from the key of its size."""
    return f"{size}/{toy}/a{rank}"


def every_rank(sizes: Sequence[Setting]) -> list[Point]:
    """Return every architecture at every rank of every size."""
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
    """Return, for every point, the signal explained at the exact minimum, and the certificate's other numbers."""
    items = {item.point.key: item for item in todo}
    label, starts = "exact minimisation", attrgetter("starts")
    minima = results("exact", items, minimum, run=run, label=label, size=starts, field="point")
    return {key: {"kind": "exact", "point": key, **result} for key, result in minima.items()}


def minimum(item: Minimisation, desk: Desk) -> Json:
    """Return the signal explained at the exact minimum, and the certificate's other numbers."""
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


def population_weights(toys: StackedToys, i: int) -> Weights:
    """Return toy i of a stack in the terms of `theory.toy.population`, in float64."""
    from theory.toy.population import Weights

    return Weights(**{name: x.double().numpy() for name, x in toys.weights(i).items()})
