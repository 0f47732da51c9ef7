"""Measure cross-layer attention and its block form in the linear toy, from the tokens of prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from experiments.store.desk import Desk
from experiments.store.folders import Json
from experiments.toys.runs import Point, population_weights
from experiments.toys.training import Training, held_out_batches, held_out_signal, train_stack
from theory.plans.heads import Heads, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from icl.prompts import Prompts
    from icl.toys.stacked import StackedToys, ToySpec

CROSS, BLOCK = "cross-layer", "resformer"
TOYS: dict[str, Heads] = {name: toy_heads(resolve(name, Shape(2, 1))) for name in (CROSS, BLOCK)}
WAYS = {  # how layer 1's keys differ from layer 2's
    "x": "in $x$'s tokens",
    "y": "in the $y$ of $y$'s tokens",
    "x of y": "in the $x$ copied into them",
    "copy": "layer 1's $y$ for the copy",
}
Keys = NDArray[np.float64]  # (3, d, d): maps to keys, of x's tokens, and of both parts of y's tokens
BATCH = 8192  # prompts at a time
OF_DISTANCES, OF_TRAINED = 1_000_000, 2_000_000  # steps of the stream, so that no two measurements share prompts


def root_mean_square(keys: Keys, size: Setting) -> float:
    """Return the root of the mean square of a key, n tokens of x and n of y."""
    squares = [float((matrix**2).sum()) for matrix in keys]
    return float((squares[0] + squares[1] + (size.d + size.sigma**2) * squares[2]) / 2) ** 0.5


def own_keys(size: Setting) -> Keys:
    """Return layer 2's keys, which see x_t and u_t = (A x_t ; B y_t), half of the numbers each."""
    half = np.diag((np.arange(size.d) < size.d / 2).astype(float))
    return np.stack([np.eye(size.d), half, np.eye(size.d) - half])


def moved_keys(size: Setting, way: str, distance: float) -> Keys:
    """Return what layer 1's keys have beside layer 2's, at this share of the latter's root mean square."""
    (_, x, y), eye = own_keys(size), np.eye(size.d)
    zero = 0 * eye
    ways = {"x": (eye, zero, zero), "y": (zero, zero, eye), "x of y": (zero, eye, zero), "copy": (zero, -x, eye - y)}
    apart = np.stack(ways[way])
    return np.asarray(distance * root_mean_square(own_keys(size), size) / root_mean_square(apart, size) * apart)


@dataclass(frozen=True)
class Moved:
    """Layer 1's keys of one size moved to one distance in every way, on the prompts of one seed."""

    size: Setting
    distance: float
    prompts: int
    seed: int

    steps: ClassVar = 1  # it takes a moment

    def measured(self, desk: Desk) -> Json:  # noqa: ARG002
        """Return, for each way, the mean square of the attentions' difference as a share of the block form's.

        It is of the half that reads layer 1's values: squares of Frobenius norms of the matrices that a query is
        multiplied with, which are means over queries.
        """
        from icl.prompts import HELD_OUT_STREAM, Generator, RegressionTask

        task, own = RegressionTask(*self.size.floats), own_keys(self.size)
        theirs = {way: own + moved_keys(self.size, way, self.distance) for way in WAYS}
        # Other distances see other prompts.
        numbers = Generator(HELD_OUT_STREAM, self.seed, OF_DISTANCES + round(1000 * self.distance))
        off, form = dict.fromkeys(WAYS, 0.0), 0.0
        for _ in range(-(-self.prompts // BATCH)):
            prompts = task.sample(BATCH, numbers)
            block = read_by(prompts, own)
            form += float(block.square().sum())
            for way, keys in theirs.items():
                off[way] += float((read_by(prompts, keys) - block).square().sum())
        return {way: square / form for way, square in off.items()}


def read_by(prompts: Prompts, keys: Keys) -> Tensor:
    """Return the sum over the context's tokens of value key^T, values raw: (batch, d, d)."""
    import torch

    of_x, x, y = (torch.from_numpy(matrix).to(prompts.x.dtype) for matrix in keys)
    values = torch.cat([prompts.x[..., :-1], prompts.y[..., :-1]], dim=-1)
    seen = torch.cat([of_x @ prompts.x[..., :-1], x @ prompts.x[..., :-1] + y @ prompts.y[..., :-1]], dim=-1)
    return values @ seen.mT


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
        """Return, for every point and seed, what the toy explains.

        Of true cross-layer attention (Eqn. (2)) also what is explained with its block form in its place, untrained, and
        their squared difference over theory's.
        """
        from icl.prompts import RegressionTask
        from icl.toys.stacked import StackedToys, ToySpec
        from icl.toys.training import toy_recipe

        training = self.training
        specs = [
            ToySpec(RegressionTask(*point.size.floats), TOYS[point.toy], point.rank, seed=seed)
            for point in self.points
            for seed in range(self.seeds)
        ]
        toys = StackedToys(specs)
        losses = train_stack(toys, toy_recipe(training.steps, training.batch, training.learning_rate), desk)
        values = {"explained": held_out_signal(toys, training.held_out, desk, after=training.steps)}
        if self.points[0].toy == CROSS:
            values["swapped"] = [swapped(toys, i) for i in range(len(specs))]
            values["distance"] = [distance_over_theory(toys, i) for i in range(len(specs))]

        def by_point(numbers: list[float]) -> Json:
            return {p.key: numbers[i * self.seeds : (i + 1) * self.seeds] for i, p in enumerate(self.points)}

        return {"losses": losses, **{kind: by_point(numbers) for kind, numbers in values.items()}}


def swapped(toys: StackedToys, i: int) -> float:
    """Return what a trained toy explains, exactly, if layer 2's keys read layer 1's values in place of their own."""
    from theory.prompts.moments import PromptMoments
    from theory.toy.population import PopulationLoss

    weights = population_weights(toys, i)
    loss = PopulationLoss(PromptMoments(*setting(toys.specs[i]).floats), TOYS[BLOCK])
    return float(loss.zero_loss - loss.value(replace(weights, k=weights.k[:1])))


def distance_over_theory(toys: StackedToys, i: int) -> float:
    """Return the mean square of cross-layer attention minus its block form on prompts, over the closed form."""
    import torch

    from icl.prompts import HELD_OUT_STREAM, Generator
    from theory.resformer.in_context import block_distance

    spec, weights = toys.specs[i], population_weights(toys, i)
    size, rank = setting(spec), spec.rank
    a, b, (own, theirs), readout = weights.a, weights.b, weights.k @ weights.a, weights.w[1]
    by_x, by_y = own.T[:, :rank] @ a, own.T[:, rank:] @ b  # layer 2's keys of u = (A x ; B y), by x and by y
    closed = block_distance(*size.floats, readout, -by_x, theirs.T - by_y, theirs.T - own.T)
    prompts = spec.task.sample(BATCH, Generator(HELD_OUT_STREAM, spec.seed, OF_TRAINED + rank), torch.float64)
    w, by_theirs, by_own, compress_x, compress_y = (torch.from_numpy(m) for m in (readout, theirs, own, a, b))
    x, y = prompts.x[..., :-1], prompts.y[..., :-1]
    copied = torch.cat([x, torch.cat([compress_x @ x, compress_y @ y], dim=-2)], dim=-1)
    raw = torch.cat([x, y], dim=-1)
    off = w @ raw @ (raw.mT @ by_theirs - copied.mT @ by_own)
    return float(off.square().sum()) / BATCH / float(closed)


def setting(spec: ToySpec) -> Setting:
    return Setting(spec.task.d, spec.task.n, spec.task.sigma)
