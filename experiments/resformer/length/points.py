"""What is trained and what is compared, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from experiments.store.folders import Json
from experiments.verdicts.crossings import UNKNOWN, Crossing, crossing, smoothed
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.architecture import Architecture

CRITICAL, RATE, CAUSE = "resformer.svformer-length", "resformer.svformer-rate", "resformer.svformer-value-matrix"
ENDS, SIZES = "resformer.fig-14", "resformer.fig-15"

SVFORMER = "svformer"
LENGTH, LEARNING_RATE, WARMUP, LAYERS = AXES = ("length", "rate", "warmup", "layers")
WORDS = {LENGTH: "context length", LEARNING_RATE: "learning rate", WARMUP: "warm-up", LAYERS: "layers"}
EARLY, LATE = 0.25, 0.9  # shares of the steps: before the one a model is early in training, after the other at the end
POSITIONS = "experiments.resformer.length.probe:by_octave"


@dataclass(frozen=True)
class Case:
    """One setting in which SVFormer is held against vanilla: tokens of context, peak rate, warm-up's share, layers."""

    length: int
    rate: float
    warmup: float
    layers: int

    @property
    def key(self) -> str:
        return (
            f"{LENGTH} {self.length}, {LEARNING_RATE} {self.rate:g}, {WARMUP} {self.warmup:g}, {self.layers} {LAYERS}"
        )


@dataclass(frozen=True, kw_only=True)
class Config:
    """One axis is varied at a time; on the others a case is where `architecture` and `recipe` are.

    tokens           of a step, whatever the length of its sequences: `recipe.batch` is not read
    held_out_tokens  the first of the held-out text, whatever the length
    window           steps over which curves are smoothed
    """

    architecture: Architecture
    data: str
    vocab: int
    recipe: Recipe
    tokens: int
    lengths: tuple[int, ...]
    rates: tuple[float, ...]
    warmups: tuple[float, ...]
    layers: tuple[int, ...]
    window: int
    held_out_tokens: int

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if list(values) != sorted(set(values)) or getattr(self.reference, name) not in values:
                raise BadInput(f"{WORDS[name]}: needs rising values, among them the reference, got {values}")
        for length in self.lengths:
            if self.tokens % length or self.held_out_tokens % length:
                raise BadInput(f"sequences of {length} do not divide {self.tokens} and {self.held_out_tokens} tokens")

    @property
    def reference(self) -> Case:
        sizes, recipe = self.architecture, self.recipe
        return Case(sizes.context, recipe.learning_rate, recipe.warmup, sizes.n_layers)

    @property
    def values(self) -> Mapping[str, Sequence[float]]:
        return {LENGTH: self.lengths, LEARNING_RATE: self.rates, WARMUP: self.warmups, LAYERS: self.layers}

    def along(self, axis: str) -> list[Case]:
        """The cases of an axis, by rising value."""
        return [Case(**{**asdict(self.reference), axis: value}) for value in self.values[axis]]

    @property
    def cases(self) -> list[Case]:
        return list(dict.fromkeys(case for axis in AXES for case in self.along(axis)))

    def trained(self, case: Case) -> tuple[Architecture, Recipe]:
        sizes = replace(self.architecture, context=case.length, n_layers=case.layers)
        batch = self.tokens // case.length
        return sizes, replace(self.recipe, batch=batch, learning_rate=case.rate, warmup=case.warmup)


def difference(case: Json, seed: int, arm: str) -> tuple[list[float], list[float]] | None:
    """An arm's training loss less vanilla's on the same batches, at the middles of the steps they are means over.

    None where one of them diverged.
    """
    ours, base = case["curves"][arm][seed], case["curves"]["vanilla"][seed]
    if ours is None or base is None:
        return None
    steps = case["steps"]
    middles = [(a + b + 1) / 2 for a, b in zip([0, *steps], steps, strict=False)]
    return middles, [x - y for x, y in zip(ours, base, strict=True)]


def relative(case: Json, seed: int, arm: str, window: int) -> tuple[list[float], list[float]] | None:
    """The same, smoothed over `window` steps."""
    if (curve := difference(case, seed, arm)) is None:
        return None
    return smoothed(*curve, points_of(case["steps"], window))


def points_of(steps: Sequence[int], window: int) -> int:
    """Points of a curve in a window of so many steps; at least one."""
    return max(1, round(window / (steps[-1] / len(steps))))


def critical_point(case: Json, seed: int, arm: str, window: int) -> Crossing:
    """The step from which the arm's smoothed loss lies above vanilla's until the end (section 4.6)."""
    curve = relative(case, seed, arm, window)
    return UNKNOWN if curve is None else crossing(*curve)


def mean_between(case: Json, seed: int, arm: str, begin: float, end: float) -> float:
    """The mean difference from share `begin` of the steps to share `end`; nan where one of the two diverged."""
    if (curve := difference(case, seed, arm)) is None:
        return math.nan
    last = case["steps"][-1]
    some = [d for t, d in zip(*curve, strict=True) if begin * last < t <= end * last]
    return sum(some) / len(some)


def cumulated(recipe: Recipe, step: float) -> float:
    """The sum of the learning rates of the first steps, up to a point within a step."""
    whole = int(step)
    rest = (step - whole) * recipe.rate(whole) if whole < recipe.steps else 0.0
    return sum(map(recipe.rate, range(min(whole, recipe.steps)))) + rest
