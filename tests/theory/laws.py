"""Standardised discrete laws {value: probability}, in exact numbers, and all states of independent ones."""

from fractions import Fraction

import numpy as np

SIGNS = {Fraction(1): Fraction(1, 2), Fraction(-1): Fraction(1, 2)}
FLAT = {Fraction(3, 2): Fraction(2, 9), Fraction(-3, 2): Fraction(2, 9), Fraction(0): Fraction(5, 9)}
SKEW = {Fraction(2): Fraction(1, 5), Fraction(-1, 2): Fraction(4, 5)}
SPIKED = {Fraction(2): Fraction(1, 8), Fraction(-2): Fraction(1, 8), Fraction(0): Fraction(3, 4)}
# The moments of a standard normal number up to order 5.
LIKE_NORMAL = {
    Fraction(0): Fraction(1, 2),
    **{Fraction(v): Fraction(1, 6) for v in (-1, 1)},
    **{Fraction(v): Fraction(1, 12) for v in (-2, 2)},
}
LAWS = (SIGNS, FLAT, SKEW, SPIKED, LIKE_NORMAL)


def moment(law, order):
    return sum(p * v**order for v, p in law.items())


def excess(law):
    """The excess kurtosis of a standardised law."""
    return moment(law, 4) - 3


def grid(laws, dtype=np.float64):
    """All joint states of independent numbers (states, len(laws)) and their probabilities (states,)."""
    values = np.meshgrid(*([np.array(list(law), dtype=dtype) for law in laws]), indexing="ij")
    weights = np.meshgrid(*([np.array(list(law.values()), dtype=dtype) for law in laws]), indexing="ij")
    return np.stack([v.ravel() for v in values], axis=1), np.prod([w.ravel() for w in weights], axis=0)
