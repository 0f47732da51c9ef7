"""Several variants in one plan.  Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from theory.errors import BadInput
from theory.plans.plan import ABSENT, HeadPlan, Plan, checked, plan

T = TypeVar("T")

_WHOLE = {
    "depth": "depth rule",
    "dynamic": "kind of value",
    "feed_forward": "feed-forward",
    "output_projection": "output",
}
_PER_HEAD = {"query": "query map", "keys": "key map", "values": "value map", "beside": "terms beside the attention"}


class Clash(BadInput):
    """Two variants change the same thing."""


def combine(*plans: Plan) -> Plan:
    """One plan with what each of `plans` changes against vanilla.  A head that one of them leaves out is left out.

    Raises Clash if two change the same map or rule differently, ValueError if the whole makes no sense.
    """
    shape = plans[0].shape
    if any(p.shape != shape for p in plans):
        raise Clash(f"plans for {len({p.shape for p in plans})} different shapes do not combine")
    base = plan(shape)
    cells = [cell for cell in shape.cells() if all(p.head(*cell).live for p in plans)]
    whole = {
        name: _changed(what, [getattr(p, name) for p in plans], getattr(base, name)) for name, what in _WHOLE.items()
    }
    columns = {
        name: _changed(what, [_column(p, name, cells) for p in plans], _column(base, name, cells))
        for name, what in _PER_HEAD.items()
    }
    live = {cell: HeadPlan(*parts) for cell, *parts in zip(cells, *columns.values(), strict=True)}
    rows = range(1, shape.layers + 1)
    table = tuple(tuple(live.get((n, h), ABSENT) for h in range(1, shape.heads + 1)) for n in rows)
    return checked(replace(base, table=table, **whole))


def _column(plan: Plan, name: str, cells: Sequence[tuple[int, int]]) -> tuple[object, ...]:
    return tuple(getattr(plan.head(*cell), name) for cell in cells)


def _changed(what: str, values: Sequence[T], base: T) -> T:
    """The one value that differs from `base`, or `base`."""
    changes = [value for value in values if value != base]
    if any(value != changes[0] for value in changes):
        raise Clash(f"two of these variants change the {what}; say in a plan of your own what the mixture should be")
    return changes[0] if changes else base
