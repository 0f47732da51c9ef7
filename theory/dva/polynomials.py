"""Polynomials of one standard normal number, as lists of coefficients from the constant on."""

from __future__ import annotations

from math import prod

from theory.plans.setting import Number

Polynomial = list[Number]


def normal(power: int) -> int:
    """Return E xi^power of a standard normal number: (power - 1)!! if even."""
    return prod(range(power - 1, 0, -2)) if power % 2 == 0 else 0


def product(one: Polynomial, other: Polynomial) -> Polynomial:
    found: Polynomial = [0] * (len(one) + len(other) - 1)
    for i, x in enumerate(one):
        for j, y in enumerate(other):
            found[i + j] += x * y
    return found


def mean(polynomial: Polynomial) -> Number:
    return sum((c * normal(power) for power, c in enumerate(polynomial)), start=0 * polynomial[0])
