"""Cross-layer attention and its block form, computed from the tokens of prompts, in the linear toy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from experiments.resformer.blocks.points import (
    BLOCK,
    CROSS,
    TOYS,
    WAYS,
    Config,
    distance_key,
    moved_keys,
    own_keys,
    points,
)
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import measured, results
from experiments.toys.runs import Point, population_weights
from experiments.toys.training import Training, held_out_batches, held_out_signal, train_stack
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from experiments.resformer.blocks.points import Keys
    from icl.prompts import Prompts
    from icl.toys.stacked import StackedToys, ToySpec

BATCH = 8192  # prompts at a time
OF_DISTANCES, OF_TRAINED = 1_000_000, 2_000_000  # steps of the stream, so that no two measurements share prompts


@dataclass(frozen=True)
class Moved:
    """Layer 1's keys of one size moved to one distance in every way, on the prompts of one seed."""

    size: Setting
    distance: float
    prompts: int
    seed: int

    @property
    def steps(self) -> int:
        return 1

    def measured(self, desk: Desk) -> Json:  # noqa: ARG002 - it takes a moment
        """For each way the mean square of the difference of the attentions as a share of the block form's.

        Of the half that reads layer 1's values; squares of Frobenius norms of the matrices that a query is multiplied
        with, which are means over queries.
        """
        from icl.prompts import HELD_OUT_STREAM, Generator, RegressionTask

        task, own = RegressionTask(*self.size.floats), own_keys(self.size)
        theirs = {way: own.plus(moved_keys(self.size, way, self.distance)) for way in WAYS}
        # Other distances see other prompts.
        numbers = Generator(HELD_OUT_STREAM, self.seed, OF_DISTANCES + round(1000 * self.distance))
        off, form = dict.fromkeys(WAYS, 0.0), 0.0
        for _ in range(-(-self.prompts // BATCH)):
            prompts = task.sample(BATCH, numbers)
            block = _read_by(prompts, own)
            form += float(block.square().sum())
            for way, keys in theirs.items():
                off[way] += float((_read_by(prompts, keys) - block).square().sum())
        return {way: square / form for way, square in off.items()}


def _read_by(prompts: Prompts, keys: Keys) -> Tensor:
    """sum over the context's tokens of value key^T, values raw: (batch, d, d)."""
    import torch

    of_x, x, y = (torch.from_numpy(matrix).to(prompts.x.dtype) for matrix in (keys.of_x, keys.x, keys.y))
    values = torch.cat([prompts.x[..., :-1], prompts.y[..., :-1]], dim=-1)
    made = torch.cat([of_x @ prompts.x[..., :-1], x @ prompts.x[..., :-1] + y @ prompts.y[..., :-1]], dim=-1)
    return values @ made.mT


@dataclass(frozen=True)
class Trained:
    """Toys of one plan: all ranks but 0, at which there is nothing to train, and all seeds."""

    points: tuple[Point, ...]
    seeds: int
    training: Training

    @property
    def steps(self) -> int:
        return self.training.steps + held_out_batches(self.training.held_out)

    def measured(self, desk: Desk) -> Json:
        """For every point, a number a seed: what the toy explains; and of true cross-layer attention (Eqn. (2)), what
        is explained with its block form in its place, untrained, and their squared difference over theory's."""
        from icl.prompts import RegressionTask
        from icl.toys.stacked import StackedToys, ToySpec
        from icl.toys.training import toy_recipe

        training = self.training
        specs = [
            ToySpec(RegressionTask(*point.size.floats), TOYS[point.toy], point.rank, seed)
            for point in self.points
            for seed in range(self.seeds)
        ]
        toys = StackedToys(specs)
        losses = train_stack(toys, toy_recipe(training.steps, training.batch, training.learning_rate), desk)
        values = {"explained": held_out_signal(toys, training.held_out, desk, after=training.steps)}
        if self.points[0].toy == CROSS:
            values["swapped"] = [_swapped(toys, i) for i in range(len(specs))]
            values["distance"] = [_distance_over_theory(toys, i) for i in range(len(specs))]
        return {"losses": losses, **{kind: self._by_point(of_all) for kind, of_all in values.items()}}

    def _by_point(self, values: list[float]) -> Json:
        return {p.key: values[i * self.seeds : (i + 1) * self.seeds] for i, p in enumerate(self.points)}


def measured_all(config: Config, seeds: int, run: RunFolder) -> Json:
    """`Moved` and `Trained` of a configuration, seed by seed."""
    trained = {
        toy: Trained(tuple(p for p in points(config) if p.toy == toy and p.rank), seeds, config.training)
        for toy in TOYS
    }
    moved = {
        f"{size.key}/{distance:g}/seed{seed}": Moved(size, distance, config.prompts, seed)
        for size in config.keys
        for distance in config.distances
        for seed in range(seeds)
    }
    items: dict[str, Trained | Moved] = {**trained, **moved}  # the longest first
    found = results("linear", items, measured, run, label="linear attention", size=attrgetter("steps"))
    return {
        "keys": {
            distance_key(size.key, way, distance): [
                found[f"{size.key}/{distance:g}/seed{seed}"][way] for seed in range(seeds)
            ]
            for size in config.keys
            for way in WAYS
            for distance in config.distances
        },
        "trained": {
            "explained": {**found[CROSS]["explained"], **found[BLOCK]["explained"]},
            "swapped": found[CROSS]["swapped"],
            "distance": found[CROSS]["distance"],
        },
    }


def _swapped(toys: StackedToys, i: int) -> float:
    """What a trained toy explains, exactly, if layer 1's values are read by layer 2's keys in place of their own."""
    from theory.prompts.moments import PromptMoments
    from theory.toy.population import PopulationLoss

    weights = population_weights(toys, i)
    loss = PopulationLoss(PromptMoments(*_setting(toys.specs[i]).floats), TOYS[BLOCK])
    return float(loss.zero_loss - loss.value(replace(weights, k=weights.k[:1])))


def _distance_over_theory(toys: StackedToys, i: int) -> float:
    """The mean square of cross-layer attention less its block form on prompts, over the closed form at the weights."""
    import torch

    from icl.prompts import HELD_OUT_STREAM, Generator
    from theory.resformer.in_context import block_distance

    spec, weights = toys.specs[i], population_weights(toys, i)
    size, rank = _setting(spec), spec.rank
    a, b, (own, theirs), readout = weights.a, weights.b, weights.k @ weights.a, weights.w[1]
    made = own.T[:, :rank] @ a, own.T[:, rank:] @ b  # layer 2's keys of u = (A x ; B y), by x and by y
    closed = block_distance(*size.floats, readout, -made[0], theirs.T - made[1], theirs.T - own.T)
    prompts = spec.task.sample(BATCH, Generator(HELD_OUT_STREAM, spec.seed, OF_TRAINED + rank), torch.float64)
    w, by_theirs, by_own, compress_x, compress_y = (torch.from_numpy(m) for m in (readout, theirs, own, a, b))
    x, y = prompts.x[..., :-1], prompts.y[..., :-1]
    copied = torch.cat([x, torch.cat([compress_x @ x, compress_y @ y], dim=-2)], dim=-1)
    raw = torch.cat([x, y], dim=-1)
    off = w @ raw @ (raw.mT @ by_theirs - copied.mT @ by_own)
    return float(off.square().sum()) / BATCH / float(closed)


def _setting(spec: ToySpec) -> Setting:
    return Setting(spec.task.d, spec.task.n, spec.task.sigma)
