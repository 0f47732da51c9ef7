"""Quantities that all results on the prompts share: the loss of predicting zero, shares of the signal, estimates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from theory.plans.setting import Number, Setting

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Estimate", "Number", "Setting", "identity", "signal_share", "zero_loss"]


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error (0 if exact) and how it was obtained."""

    value: float
    stderr: float
    method: str


def signal_share(d: int, n: int, sigma: Number) -> Any:
    """Return `Setting.signal_share`: rho = n / (n + d + 1 + sigma^2)."""
    return Setting(d, n, sigma).signal_share


def zero_loss(d: int, n: int, sigma: Number) -> Any:
    """Return `Setting.zero_loss`: d^2 + d sigma^2."""
    return Setting(d, n, sigma).zero_loss


def identity(d: int, like: Any) -> NDArray[Any]:
    """Return the identity in float64, or in exact numbers if `like` is a Fraction."""
    import numpy as np

    return np.eye(d, dtype=object if isinstance(like, Fraction) else np.float64)
