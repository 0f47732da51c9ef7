"""Laws of inputs with few values, whose moments are exact sums, and their joint values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from theory.prompts.moments import Array

Law = dict[Fraction, Fraction]  # {value: probability}
SIGNS: Law = {Fraction(v): Fraction(1, 2) for v in (-1, 1)}
SPIKED: Law = {Fraction(0): Fraction(3, 4), **{Fraction(v): Fraction(1, 8) for v in (-2, 2)}}
SKEW: Law = {Fraction(2): Fraction(1, 5), Fraction(-1, 2): Fraction(4, 5)}


def excess(law: Law) -> Fraction:
    """Return the excess kurtosis of a standardised law."""
    return sum((p * v**4 for v, p in law.items()), Fraction(-3))


def normal(_law: Law) -> Fraction:
    """Return a normal law's excess kurtosis, 0, whatever the law is."""
    return Fraction(0)


def joint_values(laws: Sequence[Law]) -> Iterator[tuple[Array, Fraction]]:
    """Yield all joint values of independent numbers, with their probabilities."""
    for choice in product(*(law.items() for law in laws)):
        probability = Fraction(1)
        for _, p in choice:
            probability *= p
        yield np.array([v for v, _ in choice], dtype=object), probability


def unit(shape: tuple[int, int], i: int, j: int) -> Array:
    """Return the matrix with a one at (i, j) and zeros elsewhere, in exact numbers."""
    m = np.zeros(shape, dtype=object)
    m[i, j] = 1
    return m
