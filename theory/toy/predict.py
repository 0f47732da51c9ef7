"""Predictions of the toy for a plan, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from theory.errors import InvalidSize
from theory.plans.deeper import beyond_two_layers
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.toy.value_maps import Optimum, optimum, optimum_by_descent

if TYPE_CHECKING:
    from theory.prompts.moments import Array

MOST_HEADS = 4096  # of a plan by name, which is written out head by head: in two seconds


def predict(
    plan: Plan | str | Callable[[Shape], Plan],
    *,
    d: int,
    n: int,
    sigma: float,
    rank: int | None = None,
    heads: int = 2,
    w0: Array | None = None,
    covariance: Array | None = None,
    kurtosis: Array | None = None,
) -> Optimum:
    """Return the lowest loss that the assumed-copy toy of a two-layer plan can reach, in squared units of y.

    plan         or its name, or a function from a shape to it, at `heads` heads per layer
    d, n, sigma  width of x and y, context pairs, standard deviation of the noise
    rank         a of the compression; by default d // 2, at which ordinary heads explain most where W0 = 0
    w0, covariance, kurtosis    as in `theory.PromptMoments`

    A closed form, or, where there is none, exact minimisation, which takes seconds to a minute and gives an upper bound
    on the infimum.  With any of the last three it is always that; `theory.loss_bounds` has what is proved there of MHA
    and SkipV1Former.  What the variant changes in deeper models alone is in `Optimum.beyond_two_layers`.  Raises
    BadInput for a name or sizes without meaning, NotCovered if the toy does not cover the plan.
    """
    beyond = None
    if not isinstance(plan, Plan):
        shape, variant = two_layers(heads), plan
        plan = resolve(variant, shape) if isinstance(variant, str) else variant(shape)
        beyond = beyond_two_layers(variant, heads)
    rank = d // 2 if rank is None else rank
    law = {"w0": w0, "covariance": covariance, "kurtosis": kurtosis}
    if all(part is None for part in law.values()):
        found = optimum(plan, d, n, sigma=sigma, rank=rank)
    else:
        found = optimum_by_descent(plan, d, n, sigma=sigma, rank=rank, law=law)
    return replace(found, beyond_two_layers=beyond)


def two_layers(heads: int) -> Shape:
    """Return the toy's shape.  Raises InvalidSize."""
    if heads > MOST_HEADS:
        raise InvalidSize(
            f"a plan is written out head by head, up to {MOST_HEADS} a layer, got {heads}; the toy has no use for more "
            "than 2 d^2"
        )
    return Shape(2, heads)
