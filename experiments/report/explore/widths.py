"""The worth of the named variants in width, as a table over d and the width of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from theory.errors import BadInput
from theory.plans.heads import Heads, is_bound, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.toy.worth import Bounds, plan_entries, worth_of_entries

SHAPE = Shape(2, 2)
LARGEST = 12  # of d
WIDEST = 3  # times d
DIGITS = 4

Key = tuple[Heads, bool]


def widths(d: int) -> range:
    """Return the widths of tokens that are tabulated for tasks of d numbers."""
    return range(d, WIDEST * d + 1)


def groups(names: Iterable[str]) -> dict[Key, list[str]]:
    """Return the variants that the toy of two layers covers, put together where they have the same heads there."""
    members: dict[Key, list[str]] = {}
    for name in names:
        try:
            plan = resolve(name, SHAPE)
            heads = tuple(sorted(toy_heads(plan), key=repr))
        except BadInput:
            continue
        members.setdefault((heads, is_bound(plan)), []).append(name)
    return members


def worth_table(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return groups of variants of equal worth: their names, and by d the entries and the worth at each width.

    Entries and worth are pairs, the least and the most that is proved, or one number where both are equal.
    """
    tables: dict[str, dict[str, Any]] = {}
    for members in groups(names).values():
        plan = resolve(members[0], SHAPE)
        rows: dict[int, list[list[float]]] = {}
        for d in range(1, LARGEST + 1):
            rows[d] = []
            for width in widths(d):
                entries = plan_entries(plan, d, width)
                worth = [round(worth_of_entries(d, width, count), DIGITS) for count in entries]
                rows[d].append([_one(entries), _one(Bounds(*worth))])  # type: ignore[list-item]
        tables.setdefault(repr(rows), {"names": [], "rows": rows})["names"] += members
    return list(tables.values())


def _one(bounds: Bounds) -> float | list[float]:
    return bounds.least if bounds.least == bounds.most else list(bounds)
