"""What is trained on the ladder: rungs, tasks, variants and widths, and the keys that results stand under."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from experiments.across.ladder.rungs import OF_OUR_OWN, Rung, in_order, ladder, plan_of
from experiments.training.arms import Arm, PromptSource
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.comparing import Asked
from experiments.training.restarts import NONE, Restarts
from experiments.training.tuning import Tuning
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan
from theory.plans.setting import Setting

VARIANTS = (
    BASELINE,
    "skipv1",
    "resformer",
    "svformer",
    "skipv0",
    "cla-v",
    "shared-keys",
    "attnres",
    *OF_OUR_OWN,
)
FEW_LAYERS = 2
REORDERED = "svformer"  # held against vanilla where the ingredients come in other orders


@dataclass(frozen=True, kw_only=True)
class Config:
    """widths    of the embedding, as factors of d, rounded up; at the first of them ingredients and the order of the
              variants are judged; `wider`: more widths, for vanilla alone
    between     variants that are trained at the widths after the first, in two layers; by default all, on all rungs
    depths      in layers, of rung 7; the last is that of 8a and 8b too; none of these where there is none
    deep        lengths, of rungs with more than two layers; by default those of the others
    restarts    of every seed; deep_restarts: on rungs with more than two layers, by default the same
    orders      in which ingredients are added as well, at width d
    recipe      of rungs 2 to 7; full: of 8a and 8b; each for all `lengths`, in steps, every one twice the one before
    doublings   of the last length, at most, of all models of a rung where one has not converged by it
    held_out_prompts    on which trials of rates and restarts are scored; scored_prompts: what is compared
    gain        deviation of the initial matrices, times the square root of the width: the same on all rungs
    only        keys of the rungs that are climbed; by default all
    own         variants of a user's own, beside

    Raises ValueError for widths, depths and orders that nothing could be said of.
    """

    tasks: tuple[Setting, ...]
    widths: tuple[float, ...]
    wider: tuple[float, ...]
    variants: tuple[str, ...]
    depths: tuple[int, ...]
    recipe: Recipe
    full: Recipe
    lengths: tuple[int, ...]
    held_out_prompts: int
    tuning: Tuning
    gain: float
    scored_prompts: int = 2**17
    between: tuple[str, ...] = ()
    restarts: Restarts = NONE
    orders: tuple[tuple[str, ...], ...] = ()
    doublings: int = 0
    deep: tuple[int, ...] = ()
    deep_restarts: Restarts | None = None
    only: tuple[str, ...] = ()
    own: tuple[Asked, ...] = ()

    def __post_init__(self) -> None:
        if any(depth <= FEW_LAYERS for depth in self.depths):
            raise ValueError(f"rung 7 has more layers than the {FEW_LAYERS} of those before it")
        if self.orders and self.widths[0] != 1:
            raise ValueError("in other orders ingredients are added at width d: the first width is 1")
        if self.orders and REORDERED not in self.variants:
            raise ValueError(f"where ingredients come in other orders {REORDERED} is held against vanilla")
        if unknown := set(self.only) - {rung.key for rung in ladder(self.depths)}:
            raise ValueError(f"there is no rung {', '.join(sorted(unknown))} on this ladder")


@dataclass(frozen=True)
class Point:
    """One model, but for its seed, its learning rate and its steps."""

    rung: Rung
    task: Setting
    variant: str
    width: int

    @property
    def key(self) -> str:
        return key(self.rung.key, self.task.key, self.variant, self.width)

    @property
    def tuned_as(self) -> Point:
        """The twin has vanilla's rate."""
        return replace(self, variant=BASELINE) if self.variant == TWIN else self


def key(rung: str, task: str, variant: str, width: int | str) -> str:
    """How results name a point."""
    return f"{rung}/{task}/{variant}/{width}"


def parts(name: str) -> tuple[str, str, str, int]:
    """Of `key`.  A variant of a user's own may have folders in its name."""
    rung, task, rest = name.split("/", 2)
    variant, _, width = rest.rpartition("/")
    return rung, task, variant, int(width)


def widths(task: Setting, factors: Sequence[float]) -> list[int]:
    return list(dict.fromkeys(ceil(factor * task.d - 1e-9) for factor in factors))


def climbed(config: Config) -> list[Rung]:
    """Of the ladder."""
    return [rung for rung in ladder(config.depths) if not config.only or rung.key in config.only]


def rungs(config: Config) -> list[Rung]:
    """Of the ladder, then of the other orders, each once."""
    every = [*climbed(config), *(rung for order in config.orders for rung in in_order(order))]
    return list({rung.key: rung for rung in every}.values())


def lengths(rung: Rung, config: Config) -> tuple[int, ...]:
    """Of a rung's trainings, in steps."""
    return config.deep if config.deep and rung.layers > FEW_LAYERS else config.lengths


def restarts(rung: Rung, config: Config) -> Restarts:
    return config.deep_restarts if config.deep_restarts and rung.layers > FEW_LAYERS else config.restarts


def points(config: Config) -> list[Point]:
    return list(_points(config))


def _points(config: Config) -> Iterator[Point]:
    on_ladder = {rung.key for rung in climbed(config)}
    for task in config.tasks:
        compared = widths(task, config.widths)
        for rung in rungs(config):
            if rung.key not in on_ladder:
                yield from (Point(rung, task, v, task.d) for v in (BASELINE, REORDERED, TWIN))
                continue
            for i, m in enumerate(compared):
                yield from (Point(rung, task, v, m) for v in _variants(rung, config, first=not i))
            yield from (Point(rung, task, BASELINE, m) for m in widths(task, config.wider) if m not in compared)


def _variants(rung: Rung, config: Config, *, first: bool) -> tuple[str, ...]:
    """At the first of the widths that are compared, or at others."""
    if first or not config.between:
        return (*config.variants, *(variant.name for variant in config.own), TWIN)
    return (BASELINE, *config.between, TWIN) if rung.layers <= FEW_LAYERS else (BASELINE,)


def model(point: Point, config: Config) -> tuple[Architecture, str | Plan]:
    """The sizes of a point's model, and what `Arm` takes for its variant."""
    sizes = point.rung.architecture(point.task, point.width)
    own = {variant.name: variant for variant in config.own}
    if point.variant in own:
        sizes, named = own[point.variant].on(sizes)
    else:
        named = BASELINE if point.variant == TWIN else point.variant
    made = plan_of(named, sizes.shape) if isinstance(named, str) else named
    plan = point.rung.plan(made)
    return sizes, named if plan is made and isinstance(named, str) and named not in OF_OUR_OWN else plan


def arm(point: Point, config: Config, seed: int, steps: int, rate: float | None = None) -> Arm:
    """The training of a point; a rate: in place of the recipe's."""
    sizes, variant = model(point, config)
    recipe = config.full if point.rung.preset else config.recipe
    label = BASELINE if point.variant == TWIN else point.variant
    return Arm(
        architecture=sizes,
        variant=variant,
        source=source(point.task, config, "all" if point.rung.preset else "last"),
        recipe=replace(recipe.of_length(steps), learning_rate=rate or recipe.learning_rate),
        seed=seed,
        std=config.gain * point.width**-0.5,
        twin=point.variant == TWIN,
        label="" if variant == label else label,
    )


def source(task: Setting, config: Config, scored: Literal["all", "last"]) -> PromptSource:
    return PromptSource(*task.floats, config.scored_prompts, scored=scored)


def of_trials(compared: PromptSource, config: Config) -> PromptSource:
    """The same prompts, as many of them held out as trials are scored on."""
    return replace(compared, held_out_prompts=config.held_out_prompts)


def tried(arm: Arm, config: Config) -> Arm:
    """The training, scored as a trial."""
    assert isinstance(arm.source, PromptSource)
    return replace(arm, source=of_trials(arm.source, config))
