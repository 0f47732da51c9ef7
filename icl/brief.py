"""Short `repr`s of dataclasses that hold tensors: shapes in place of numbers, which their attributes have in full."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor

MOST = 4  # items of a collection that are shown


def shapes(instance: Any) -> str:
    """Return the `repr` of a dataclass with every tensor as its dtype and shape; a `__repr__` for its class."""
    parts = (f"{field.name}={_brief(getattr(instance, field.name))}" for field in fields(instance) if field.repr)
    return f"{type(instance).__name__}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, dict):
        items = [f"{key!r}: {_brief(item)}" for key, item in [*value.items()][:MOST]]
        return f"{{{_joined(items, len(value))}}}"
    if type(value) in (list, tuple):
        items = [_brief(item) for item in value[:MOST]]
        joined = f"{items[0]}," if type(value) is tuple and len(value) == 1 else _joined(items, len(value))
        return f"[{joined}]" if isinstance(value, list) else f"({joined})"
    return repr(value)


def _joined(items: list[str], count: int) -> str:
    return ", ".join([*items, *([f"... {count} in all"] if count > len(items) else [])])
