"""Many records that are much alike, as what they have in common and what is left of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.store.folders import Json


def packed(records: Sequence[Json]) -> tuple[Json, list[Json]]:
    """Return what all records have, however deep in objects within them, and the rest of each.

    Lists are not looked into.
    """
    common = _common(records) if records else {}
    return common, [_less(record, common) for record in records]


def unpacked(common: Json, rest: Sequence[Json]) -> list[Json]:
    """Return the records, but for the order of their fields."""
    return [_merged(common, own) for own in rest]


def _common(records: Sequence[Json]) -> Json:
    shared: Json = {}
    for name, first in records[0].items():
        values = [record[name] for record in records if name in record]
        if len(values) < len(records):
            continue
        if all(isinstance(value, dict) for value in values):
            shared[name] = _common(values)
        elif all(_same(value, first) for value in values):
            shared[name] = first
    return shared


def _same(a: Any, b: Any) -> bool:
    """Return whether two values are written alike.

    1, 1.0 and True are equal and are written differently; lists are compared by what would be written of them.
    """
    return type(a) is type(b) and repr(a) == repr(b)


def _less(record: Json, common: Json) -> Json:
    left = {}
    for name, value in record.items():
        if name not in common:
            left[name] = value
        elif isinstance(value, dict) and (rest := _less(value, common[name])):
            left[name] = rest
    return left


def _merged(common: Json, own: Json) -> Json:
    merged = {**common, **own}
    for name in common.keys() & own.keys():
        merged[name] = _merged(common[name], own[name])
    return merged
