"""Several variants in one plan.  Standard library only.

A learned weight belongs to the plan that names it.  Where two plans that change different parts of a model happen to
use one name, each keeps a parameter of its own, called after the parts that it weighs: own_2 of the keys becomes
keys_own_2, that of the values values_own_2, whatever the order of the plans.  A weight with `shared=True` keeps its
name, so that plans which all say so have one parameter together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from theory.errors import BadInput
from theory.plans.mix import Learned, Mix, Term
from theory.plans.plan import ABSENT, HeadPlan, Plan, built, checked, vanilla

T = TypeVar("T")
Part = Mix | tuple[Mix, ...]

_WHOLE = {
    "depth": "depth rule",
    "dynamic": "kind of value",
    "feed_forward": "feed-forward",
    "output_projection": "output",
}
_PER_HEAD = {"query": "query map", "keys": "key map", "values": "value map", "beside": "terms beside the attention"}


class Clash(BadInput):
    """An error: two variants change the same thing."""


def combine(*plans: Plan) -> Plan:
    """Return one plan with the changes of all `plans` against vanilla.

    A head that one of them leaves out is left out.  Learned weights that they name alike stay apart, unless they are
    shared.  Raises Clash if two change the same map or rule differently, ValueError if the whole makes no sense.
    """
    shape = plans[0].shape
    if any(p.shape != shape for p in plans):
        raise Clash(f"plans for {len({p.shape for p in plans})} different shapes do not combine")
    if len(plans) == 1 and all(head.live or head == ABSENT for row in plans[0].table for head in row):
        return checked(plans[0])
    base = vanilla(shape)
    cells = [cell for cell in shape.cells() if all(p.head(*cell).live for p in plans)]
    whole = {
        name: _changed(what, [getattr(p, name) for p in plans], getattr(base, name)) for name, what in _WHOLE.items()
    }
    every = {name: [_column(p, name, cells) for p in plans] for name in _PER_HEAD}
    columns = {name: _changed(what, every[name], _column(base, name, cells)) for name, what in _PER_HEAD.items()}
    if sum(_has_gates(p) for p in plans) > 1 and len({p.table for p in plans if _has_gates(p)}) > 1:
        raise Clash("two of these variants weigh sources by gates; say in a plan of your own what they have in common")
    for name, new_names in _own_names(every).items():
        columns[name] = tuple(_renamed(part, new_names) for part in columns[name])
    live = {cell: HeadPlan(*parts) for cell, *parts in zip(cells, *columns.values(), strict=True)}
    rows = range(1, shape.layers + 1)
    table = tuple(tuple(live.get((n, h), ABSENT) for h in range(1, shape.heads + 1)) for n in rows)
    return checked(replace(base, table=table, **whole))


def _has_gates(plan: Plan) -> bool:
    return any(kind == "g" for kind, _ in built(plan))


def _column(plan: Plan, name: str, cells: Sequence[tuple[int, int]]) -> tuple[Part, ...]:
    return tuple(getattr(plan.head(*cell), name) for cell in cells)


def _mixes(part: Mix | tuple[Mix, ...]) -> tuple[Mix, ...]:
    return (part,) if isinstance(part, Mix) else part


def _learned(column: Sequence[Part]) -> Iterator[Learned]:
    weights = (term.weight for part in column for mix in _mixes(part) for term in mix.terms)
    return (weight for weight in weights if isinstance(weight, Learned))


def _own_names(columns: Mapping[str, Sequence[Sequence[Part]]]) -> dict[str, dict[str, str]]:
    """Return new names of the learned weights that several plans name alike, by kind of part and old name.

    A name stands for one weight in all kinds of parts in which one plan has it.  Plans that change one kind of part
    change it alike, so what it weighs in them is one weight, too.

    Args:
        columns: By kind of part (query, keys, values, beside), every plan's parts.
    """
    weights = [{part: set(_learned(own[i])) for part, own in columns.items()} for i in range(len(columns["query"]))]
    taken = {weight.name for by_part in weights for own in by_part.values() for weight in own}
    shared = {weight.name for by_part in weights for own in by_part.values() for weight in own if weight.shared}
    groups: dict[str, list[set[str]]] = {}
    for by_part in weights:
        for name in {weight.name for own in by_part.values() for weight in own if not weight.shared}:
            group = {part for part, own in by_part.items() if any(weight.name == name for weight in own)}
            others = groups.get(name, [])
            joined = group.union(*(other for other in others if other & group))
            groups[name] = [*(other for other in others if not other & group), joined]
    new_names: dict[str, dict[str, str]] = {}
    for name in sorted(groups):
        if len(groups[name]) == 1 and name not in shared:
            continue
        for group in sorted(groups[name], key=sorted):
            new = "_".join([*(part for part in columns if part in group), name])
            while new in taken:
                new += "_"
            taken.add(new)
            for part in group:
                new_names.setdefault(part, {})[name] = new
    return new_names


def _renamed(part: Part, new_names: Mapping[str, str]) -> Part:
    def term(old: Term) -> Term:
        weight = old.weight
        if isinstance(weight, Learned) and not weight.shared and weight.name in new_names:
            return replace(old, weight=replace(weight, name=new_names[weight.name]))
        return old

    mixes = tuple(Mix(tuple(map(term, mix.terms))) for mix in _mixes(part))
    return mixes[0] if isinstance(part, Mix) else mixes


def _changed(what: str, values: Sequence[T], base: T) -> T:
    """Return the one value that differs from `base`, or `base`."""
    changes = [value for value in values if value != base]
    if any(value != changes[0] for value in changes):
        raise Clash(f"two of these variants change the {what}; say in a plan of your own what the mixture should be")
    return changes[0] if changes else base
