"""What is trained on the ladder: rungs, tasks, variants and widths, and the keys that results stand under."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

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
REORDERED = "svformer"  # held against vanilla where the ingredients come in other orders


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is trained at a profile.

    Attributes:
        widths: of the embedding, as factors of d, rounded up.  At the first of them ingredients and the order of the
            variants are judged.
        wider: more widths, for vanilla alone.
        between: variants that are trained at the widths after the first; by default all.
        recipe: for all `lengths`, in steps, every one twice the one before.
        held_out_prompts: on which trials of rates and restarts are scored.
        gain: standard deviation of the initial matrices, times the square root of the width: the same on all rungs.
        scored_prompts: on which models are compared.
        restarts: of every seed.
        orders: in which ingredients are added as well, at width d.
        doublings: of the last length, at most, of all models of a rung where one has not converged by it.
        only: keys of the rungs that are climbed; by default all.
        own: variants of a user's own, beside.

    Raises:
        ValueError: for widths, rungs and orders that nothing could be said of.
    """

    tasks: tuple[Setting, ...]
    widths: tuple[float, ...]
    wider: tuple[float, ...]
    variants: tuple[str, ...]
    recipe: Recipe
    lengths: tuple[int, ...]
    held_out_prompts: int
    tuning: Tuning
    gain: float
    scored_prompts: int = 2**17
    between: tuple[str, ...] = ()
    restarts: Restarts = NONE
    orders: tuple[tuple[str, ...], ...] = ()
    doublings: int = 0
    only: tuple[str, ...] = ()
    own: tuple[Asked, ...] = ()

    def __post_init__(self) -> None:
        if self.orders and self.widths[0] != 1:
            raise ValueError("in other orders ingredients are added at width d: the first width is 1")
        if self.orders and REORDERED not in self.variants:
            raise ValueError(f"where ingredients come in other orders {REORDERED} is held against vanilla")
        if unknown := set(self.only) - {rung.key for rung in ladder()}:
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
    """Return how results name a point."""
    return f"{rung}/{task}/{variant}/{width}"


def parts(name: str) -> tuple[str, str, str, int]:
    """Return rung, task, variant and width of a `key`.  A variant of a user's own may have folders in its name."""
    rung, task, rest = name.split("/", 2)
    variant, _, width = rest.rpartition("/")
    return rung, task, variant, int(width)


def widths(task: Setting, factors: Sequence[float]) -> list[int]:
    return list(dict.fromkeys(ceil(factor * task.d - 1e-9) for factor in factors))


def climbed(config: Config) -> list[Rung]:
    """Return the rungs of the ladder that are trained."""
    return [rung for rung in ladder() if not config.only or rung.key in config.only]


def rungs(config: Config) -> list[Rung]:
    """Return the rungs of the ladder, then those of the other orders, each once."""
    every = [*climbed(config), *(rung for order in config.orders for rung in in_order(order))]
    return list({rung.key: rung for rung in every}.values())


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
                yield from (Point(rung, task, v, m) for v in _variants(config, first=not i))
            yield from (Point(rung, task, BASELINE, m) for m in widths(task, config.wider) if m not in compared)


def _variants(config: Config, *, first: bool) -> tuple[str, ...]:
    """Return what is trained at the first of the widths that are compared, or at others."""
    if first or not config.between:
        return (*config.variants, *(variant.name for variant in config.own), TWIN)
    return (BASELINE, *config.between, TWIN)


def model(point: Point, config: Config) -> tuple[Architecture, str | Plan]:
    """Return the sizes of a point's model, and what `Arm` takes for its variant."""
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
    """Return the training of a point, with `rate` in place of the recipe's."""
    sizes, variant = model(point, config)
    label = BASELINE if point.variant == TWIN else point.variant
    return Arm(
        architecture=sizes,
        variant=variant,
        source=source(point.task, config),
        recipe=replace(config.recipe.of_length(steps), learning_rate=rate or config.recipe.learning_rate),
        seed=seed,
        std=config.gain * point.width**-0.5,
        twin=point.variant == TWIN,
        label="" if variant == label else label,
    )


def source(task: Setting, config: Config) -> PromptSource:
    """Return the prompts on which models are compared; the last answer alone is scored."""
    return PromptSource(*task.floats, config.scored_prompts, scored="last")


def of_trials(compared: PromptSource, config: Config) -> PromptSource:
    """Return the same prompts, as many of them held out as trials are scored on."""
    return replace(compared, held_out_prompts=config.held_out_prompts)


def tried(arm: Arm, config: Config) -> Arm:
    """Return the training, scored as a trial."""
    assert isinstance(arm.source, PromptSource)
    return replace(arm, source=of_trials(arm.source, config))
