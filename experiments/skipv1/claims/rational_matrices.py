"""Matrices of Fractions, for checks in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from theory.prompts.moments import Array
from theory.toy.tokens import whole


def identity(d: int) -> Array:
    """I: (d, d)."""
    return np.eye(d, dtype=int).astype(object) * Fraction(1)


def whole_matrix(rng: np.random.Generator, *shape: int) -> Array:
    """Whole numbers from -4 to 4."""
    return whole(rng, *shape) * Fraction(1)


def exactly(array: Array) -> Array:
    """The same numbers, which float64 holds, as Fractions."""
    return np.array([Fraction(float(x)) for x in np.ravel(array)], dtype=object).reshape(np.shape(array))
