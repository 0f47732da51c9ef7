"""The worth of a lower loss in compute, by fitted power laws or by single losses, with the uncertainty of rounding.

A law L = A C^-a reaches a loss L at C = (A / L)^(1/a).  So the base law needs rho C to reach what another, B C^-b,
reaches at C:
    rho = (A / B)^(1/a) C^(b/a - 1),        of which a share 1 - 1 / rho is saved,
and by losses alone, at equal compute, rho = (L_base / L_other)^(1/a): only the base law's slope is needed.  For numbers
that are printed to so many decimals, log rho is monotone in each of A, B, a and b with the others fixed (it is linear
in log A, log B, b and 1/a), so its extremes over a box are at corners.

Losses at equal compute need not have been fitted; a law is fitted to losses, so the two estimates of rho differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import isfinite

from theory.errors import BadInput

Interval = tuple[float, float]


@dataclass(frozen=True)
class PowerLaw:
    """The law L = factor * C^-exponent, both positive."""

    factor: float
    exponent: float

    def __post_init__(self) -> None:
        if not (isfinite(self.factor) and isfinite(self.exponent) and min(self.factor, self.exponent) > 0):
            raise BadInput(f"a falling power law has a positive factor and exponent, got {self}")

    def loss(self, compute: float) -> float:
        return float(self.factor * compute**-self.exponent)

    def compute(self, loss: float) -> float:
        return float((self.factor / loss) ** (1 / self.exponent))


def worth(base: PowerLaw, other: PowerLaw, compute: float) -> float:
    """Return rho, how many times `compute` the base law needs to reach the other law's loss at `compute`."""
    return base.compute(other.loss(compute)) / compute


def worth_of_losses(base_loss: float, other_loss: float, exponent: float) -> float:
    """Return rho from two losses at equal compute and the slope of the base's law."""
    return float((base_loss / other_loss) ** (1 / exponent))


def recovered(base: float, block: float, full: float) -> float:
    """Return the share of full's gain over base that block has.  Raises BadInput where there is no gain."""
    if not full < base:
        raise BadInput(f"there is no gain from {base} to {full}")
    return (base - block) / (base - full)


def over_rounding(value: Callable[..., float], numbers: Sequence[float], halves: Sequence[float]) -> Interval:
    """Return the least and largest value of a function over a box, `halves` to each side of `numbers`.

    The function is monotone in each number.  halves: half a unit of each number's last printed decimal.  Raises
    BadInput if there are not as many.
    """
    if len(numbers) != len(halves):
        raise BadInput(f"{len(numbers)} numbers need as many half units, got {len(halves)}")
    corners = product(*((x - half, x + half) for x, half in zip(numbers, halves, strict=True)))
    values = [value(*corner) for corner in corners]
    return min(values), max(values)
