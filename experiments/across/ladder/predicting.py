"""What the ladder is held against: the toy's numbers, the same for every rung, and the rules that decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.across.gaps import KEPT
from experiments.across.ladder.points import Config, Point, climbed, model, points, rungs, widths
from experiments.across.ladder.reading import CONVERGED, NEARLY, OCTAVES, SETS_IN
from experiments.across.ladder.rungs import plan_of
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.comparing import TOY, names_of_own
from theory.errors import BadInput
from theory.plans.accounting import total_parameters
from theory.plans.plan import DepthAttention, Plan
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from theory.toy.trained_layer import First

RULES = {
    "keeps": f"the interval of a variant's gap to vanilla lies within {KEPT:g} of the toy's gap at that width",
    "bends": "it lies apart from that, and on the side of zero of the toy's gap",
    "breaks": f"it lies apart from that, and allows at most {KEPT:g} on that side; or the toy has no gap, and it lies "
    "apart from none",
    "undecided": "anything else",
    "an ingredient": f"the same of the change of the gap at width d from one rung to the next, paired by seed: keeps, "
    f"within {KEPT:g} of zero; bends, apart from that with the next gap on the side of zero of the one before; breaks, "
    "apart from that otherwise",
    "worth": f"of explaining all but {NEARLY:g} of the signal that the variant explains: its interval, in log2, comes "
    f"within {OCTAVES:g} of the toy's, and half of it is less than the toy's less that much; where the toy's worth is "
    "one, all of it lies within that of zero",
    "converged": f"the last doubling of the steps explains at most {CONVERGED:g} of the signal more or less, by the "
    "ends of its paired 95 % interval; what compares an arm that has not is inconclusive",
    "sets in": f"a single training explains more than {SETS_IN:g} of what vanilla's toy explains at that width",
    "proved to explain nothing": f"it explains at most {NEARLY:g}, or a part of that within its interval",
    "control": "vanilla's twin with other initial weights, of which nothing of the kind may be seen",
}


# What is proved of a trained first layer (`theory.toy.trained_layer`), but of one whose scores are of positions alone:
# with scores of contents beside, as here, the upper bounds may be exceeded.
TRAINED_FIRST: dict[str, First] = {"2": "positions", "3": "residual"}


def longer(doublings: int) -> dict[str, str]:
    """The rule where models have not converged."""
    if not doublings:
        return {}
    often = "once" if doublings == 1 else f"up to {doublings} times"
    return {
        "trained longer": "where a model has not converged, all that it is compared with are trained twice as many "
        f"steps, {often}"
    }


def predicted(config: Config) -> Json:
    return {
        "assumes": "of rung 1 alone: W0 = 0; two layers of linear attention; Assumption 1 with the best division of "
        "the width. That other rungs do likewise is what is asked",
        "source": "theory.toy.width, theory.toy.worth; theory.prompts.regression; proved: theory.toy.trained_layer, of "
        "a causal first layer whose scores are of positions alone; theory.toy.parity",
        "statistic": f"share of E ||W*||^2 explained at the last position of {config.scored_prompts} held-out prompts, "
        "the same for all models; a gap is the mean paired difference to vanilla's, its intervals family-wise over the "
        "variants of a rung and a task: of the seeds, not of these prompts",
        "rule": "; ".join(f"{name}: {rule}" for name, rule in (RULES | longer(config.doublings)).items()),
        "tuning": config.tuning.described("rung, variant and width"),
        "restarts": {rung.key: config.restarts.described() for rung in rungs(config)},
        "rungs": {rung.key: rung.adds for rung in climbed(config)},
        "cells": {rung.key: list(rung.ingredients) for rung in rungs(config)},
        "orders": [list(order) for order in config.orders],
        "lengths": {rung.key: list(config.lengths) for rung in rungs(config)},
        "variants": [v for v in (*config.variants, *(own.name for own in config.own)) if v != BASELINE],
        "tasks": {task.key: _of_task(task, config) for task in config.tasks},
        "parameters": {p.key: _parameters(p, config) for p in points(config) if p.variant != TWIN},
        **names_of_own(config.own),
    }


def _parameters(point: Point, config: Config) -> int:
    sizes, variant = model(point, config)
    return total_parameters(sizes, plan_of(variant, sizes.shape) if isinstance(variant, str) else variant)


def _of_task(task: Setting, config: Config) -> Json:
    from theory.prompts import regression

    plans: dict[str, Plan | None] = {variant: plan_of(variant, TOY) for variant in config.variants}
    plans |= {variant.name: variant.toy for variant in config.own}
    compared, on_ladder = widths(task, config.widths), {rung.key for rung in climbed(config)}
    every = list(dict.fromkeys([*compared, *widths(task, config.wider)]))
    ridge = regression.ridge(*task.floats)
    return {
        "d": task.d,
        "n": task.n,
        "sigma": task.sigma,
        "widths": compared,
        "vanilla_widths": every,
        "zero_loss": float(task.zero_loss),
        "ridge": (float(task.zero_loss) - ridge.value) / task.d**2,
        "ridge_stderr": ridge.stderr / task.d**2,
        "share": {v: {str(m): _explained(plan, task, m) for m in every} for v, plan in plans.items()},
        "worth": {v: {str(m): _worth(plan, task, m) for m in compared} for v, plan in plans.items()},
        "proved": {
            rung: {v: {str(m): _proved(plan, task, m, first) for m in every} for v, plan in plans.items()}
            for rung, first in TRAINED_FIRST.items()
            if rung in on_ladder
        },
        "nothing": [p.key for p in points(config) if p.task == task and p.variant != TWIN and _nothing(p, config)],
    }


def _nothing(point: Point, config: Config) -> bool:
    """Whether it is proved to explain nothing (`theory.toy.parity`)."""
    from theory.toy.parity import keeps_signs

    sizes, variant = model(point, config)
    return keeps_signs(sizes, plan_of(variant, sizes.shape) if isinstance(variant, str) else variant)


def _explained(plan: Plan | None, task: Setting, width: int) -> float | None:
    """The share that the toy explains; None where it has nothing to say."""
    from theory.toy.width import explained_share_at_width

    if plan is None:
        return None
    try:
        return explained_share_at_width(plan, *task.floats, width)
    except BadInput:
        return None


def _worth(plan: Plan | None, task: Setting, width: int) -> float | None:
    from theory.toy.worth import worth_at_width

    if plan is None:
        return None
    try:
        bounds = worth_at_width(plan, task.d, width)
    except BadInput:
        return None
    return bounds.least if bounds.least == bounds.most else None


def _proved(plan: Plan | None, task: Setting, width: int, first: First) -> list[float] | None:
    """The least and the most that it explains at best; None where only the posterior mean is a bound."""
    from theory.toy.trained_layer import share_bounds

    if plan is None or isinstance(plan.depth, DepthAttention):
        return None
    try:
        return list(share_bounds(plan, *task.floats, width, first, causal=True, counted=True))
    except BadInput:
        return None
