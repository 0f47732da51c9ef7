"""What is trained, on which law of prompts, and what it is tested on; the keys that results stand under."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from experiments.across.ladder.rungs import Rung, ladder
from experiments.training.arms import Arm, PromptSource
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.comparing import Asked
from experiments.training.restarts import NONE, Restarts
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.law import PLAIN, Law
from theory.plans.plan import Plan
from theory.plans.setting import Setting

ITSELF = "as trained"  # the test on what a model was trained on


@dataclass(frozen=True, kw_only=True)
class Shift:
    """Prompts to be tested on.  pairs, sigma: by default those of training."""

    name: str
    pairs: int | None = None
    sigma: float | None = None
    law: Law = PLAIN


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A law of prompts that models are trained on, and what else they are tested on.

    sigma   the noise in training; by default the configuration's
    rotary  rotary positions, which longer prompts than those of training can be read with, in place of biases
    rungs, widths  those of the configuration that it is trained on, by default all; widths that are none of its own
    """

    name: str
    law: Law = PLAIN
    tests: tuple[Shift, ...] = ()
    sigma: float | None = None
    rotary: bool = False
    rungs: tuple[str, ...] = ()
    widths: tuple[float, ...] = ()

    @property
    def every(self) -> tuple[Shift, ...]:
        return (Shift(name=ITSELF, law=self.law), *self.tests)


@dataclass(frozen=True, kw_only=True)
class Config:
    """widths     of the embedding, as factors of d, rounded up, from 1 on
    rungs      of the ladder, by name: those that have a residual stream
    lengths    in steps, every one twice the one before; the warm-up is that of the shortest
    doublings  of the last length, at most, of all models of a rung and a law where one has not converged by it
    gain       deviation of the initial matrices, times the square root of the width
    own        variants of a user's own, beside
    """

    task: Setting
    trained: tuple[Trained, ...]
    rungs: tuple[str, ...]
    widths: tuple[float, ...]
    variants: tuple[str, ...]
    recipe: Recipe
    lengths: tuple[int, ...]
    held_out_prompts: int
    tuning: Tuning
    gain: float
    restarts: Restarts = NONE
    doublings: int = 0
    own: tuple[Asked, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all variants."""
        return (*self.variants, *(variant.name for variant in self.own))


@dataclass(frozen=True)
class Point:
    """One model, but for its seed, its learning rate and its steps."""

    rung: Rung
    trained: Trained
    variant: str
    width: int

    @property
    def key(self) -> str:
        return key(self.rung.key, self.trained.name, self.variant, self.width)

    @property
    def tuned_as(self) -> Point:
        """The twin has vanilla's rate."""
        return replace(self, variant=BASELINE) if self.variant == TWIN else self


def key(rung: str, trained: str, variant: str, width: int) -> str:
    """How results name a point."""
    return f"{rung}/{trained}/{variant}/{width}"


def rungs(config: Config, trained: Trained | None = None) -> list[Rung]:
    """All, or those that a law is trained on."""
    asked = (trained.rungs if trained else ()) or config.rungs
    return [rung for rung in ladder() if rung.key in config.rungs and rung.key in asked]


def widths(config: Config, trained: Trained) -> list[int]:
    factors = trained.widths or config.widths
    return list(dict.fromkeys(ceil(factor * config.task.d - 1e-9) for factor in factors))


def points(config: Config) -> list[Point]:
    return list(_points(config))


def _points(config: Config) -> Iterator[Point]:
    for rung, trained, width in places(config):
        yield from (Point(rung, trained, variant, width) for variant in (*config.names, TWIN))


def places(config: Config) -> list[tuple[Rung, Trained, int]]:
    return [
        (r, t, m) for r in rungs(config) for t in config.trained if r in rungs(config, t) for m in widths(config, t)
    ]


def sizes(rung: Rung, trained: Trained, width: int, config: Config) -> Architecture:
    found = rung.architecture(config.task, width)
    return replace(found, positions="rope") if trained.rotary else found


def task_of(trained: Trained, config: Config) -> Setting:
    """The sizes and the noise of what is trained on."""
    return config.task if trained.sigma is None else replace(config.task, sigma=trained.sigma)


def source(trained: Trained, test: Shift, config: Config) -> PromptSource:
    d, n, sigma = task_of(trained, config).floats
    noise = sigma if test.sigma is None else test.sigma
    return PromptSource(d, test.pairs or n, noise, config.held_out_prompts, scored="last", law=test.law)


def arm(point: Point, config: Config, seed: int, steps: int, rate: float | None = None) -> Arm:
    """The training of a point, tested wherever its law is; a rate: in place of the recipe's."""
    architecture, named = sizes(point.rung, point.trained, point.width, config), point.variant
    own = {variant.name: variant for variant in config.own}
    made: str | Plan
    if named in own:
        architecture, made = own[named].on(architecture)
    else:
        made = BASELINE if named == TWIN else named
    label = BASELINE if named == TWIN else named
    return Arm(
        architecture=architecture,
        variant=made,
        source=source(point.trained, point.trained.every[0], config),
        recipe=replace(config.recipe.of_length(steps), learning_rate=rate or config.recipe.learning_rate),
        seed=seed,
        std=config.gain * point.width**-0.5,
        twin=named == TWIN,
        label="" if made == label else label,
        elsewhere=tuple(source(point.trained, test, config) for test in point.trained.tests),
    )
