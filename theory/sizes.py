"""What sizes make sense.  One message for each that does not; every entry point uses these."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any


class InvalidSize(ValueError):
    """A size, rank or noise level that no task can have.  The message is one line meant for a user."""


def check_sizes(d: Any, n: Any, sigma: Any, rank: Any = None) -> None:
    """Raise InvalidSize unless d >= 1 and n >= 1 are whole, sigma >= 0 is finite and 0 <= rank <= d is whole."""
    for name, value in (("d", d), ("n", n)):
        if not _whole(value) or value < 1:
            raise InvalidSize(f"{name} must be a whole number of at least 1, got {value}")
    if not isinstance(sigma, Real) or not math.isfinite(sigma) or sigma < 0:
        raise InvalidSize(f"sigma must be a finite number of at least 0, got {sigma}")
    if rank is not None and (not _whole(rank) or not 0 <= rank <= d):
        raise InvalidSize(f"rank must be a whole number from 0 to d = {d}, got {rank}")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
