"""Errors for users and the checks behind them: each bad size has one message, which every entry point uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from math import isfinite
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from theory import machine

LARGEST = 10**9  # of d, n and sigma: beyond, float64 no longer tells the gaps from the losses


class BadInput(ValueError):
    """A request that makes no sense.  The message is one line meant for a user."""


class InvalidSize(BadInput):
    """A size, rank or noise level that no task can have."""


def check_sizes(d: object, n: object, sigma: object, rank: object = None) -> None:
    """Raise InvalidSize unless d >= 1 and n >= 1 are whole, sigma >= 0 is finite and 0 <= rank <= d is whole."""
    for name, value in (("d", d), ("n", n)):
        if not _whole(value) or not 1 <= value <= LARGEST:  # type: ignore[operator]
            raise InvalidSize(f"{name} must be a whole number from 1 to {LARGEST:.0e}, got {_short(value)}")
    if isinstance(sigma, bool) or not isinstance(sigma, Real) or not 0 <= float(sigma) <= LARGEST:
        raise InvalidSize(f"sigma must be a number from 0 to {LARGEST:.0e}, got {_short(sigma)}")
    if rank is not None and (not _whole(rank) or not 0 <= rank <= d):  # type: ignore[operator]
        raise InvalidSize(f"rank must be a whole number from 0 to d = {d}, got {_short(rank)}")


def at_least(name: str, value: object, least: int) -> None:
    """Raise InvalidSize unless `value` is an int, not a bool, and at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidSize(f"{name} must be a whole number from {least}, got {value!r}")


def check_memory(what: str, numbers: float) -> None:
    """Raise InvalidSize if `what` holds more numbers in float64 than this machine has memory for."""
    needed, there = 8 * numbers, machine.memory()
    if needed > there:
        raise InvalidSize(
            f"{what} needs about {needed / 1e9:,.3g} GB of memory, and this machine has {there / 1e9:.3g}"
        )


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _short(value: object) -> str:
    """Return a value as messages show it, so that the text '3' differs from the number 3."""
    return f"the text {_cut(value)!r}" if isinstance(value, str) else _cut(value)


def _cut(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:20] + "..."


@lru_cache(maxsize=1024)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def field_problems(instance: object) -> Iterator[str]:
    """Yield what is wrong with the plain fields of a dataclass: a wrong type, or a value outside a `Literal`."""
    hints = _hints(type(instance))  # type: ignore[arg-type]  # mypy takes a class for its instance's hash
    for field in fields(instance):  # type: ignore[arg-type]
        value, hint = getattr(instance, field.name), hints[field.name]
        if get_origin(hint) is Literal and value not in get_args(hint):
            yield f"{field.name} must be one of {', '.join(map(str, get_args(hint)))}, got {_cut(value)}"
        elif hint is int and not _whole(value):
            yield f"{field.name} must be a whole number, got {_short(value)}"
        elif hint is bool and not isinstance(value, bool):
            yield f"{field.name} must be true or false, got {_short(value)}"
        elif hint is float and (isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value)):
            yield f"{field.name} must be a finite number, got {_short(value)}"
