"""What the toy says of a plan, by name: for people and programs that ask."""

from __future__ import annotations

from collections.abc import Callable

from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.toy.value_maps import Optimum, optimum


def predict(
    plan: Plan | str | Callable[[Shape], Plan],
    *,
    d: int,
    n: int,
    sigma: float,
    rank: int | None = None,
    heads: int = 2,
) -> Optimum:
    """The lowest loss that the assumed-copy toy of a two-layer plan can reach, in squared units of y.

    plan         or its name, or a function from a shape to it, at `heads` heads a layer
    d, n, sigma  width of x and y, context pairs, standard deviation of the noise
    rank         a of the compression; by default d // 2, at which ordinary heads explain most

    A closed form, or, where there is none, exact minimisation, which takes seconds to a minute.  Raises BadInput for a
    name or sizes without meaning, NotCovered if the toy does not cover the plan.
    """
    if not isinstance(plan, Plan):
        shape = Shape(2, heads)
        plan = resolve(plan, shape) if isinstance(plan, str) else plan(shape)
    return optimum(plan, d, n, sigma, d // 2 if rank is None else rank)
