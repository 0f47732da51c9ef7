"""Exact means for Lemmas 3 and 4 of appendix A.1, without any formula of Gaussian moments.

Given X, the rows of Y - W0 X are independent with covariance X^T X + sigma^2 I, so that the mean of a product of two
linear functions of Y is a finite sum.  Of X the lemmas use only that E S and E S^2 are multiples of the identity,
S = X X^T, and that holds when X runs through all signed permutations of the rows of one whole-number matrix.  Over such
an X everything in Lemmas 3 and 4 is exact arithmetic, with the t_1, t_2 and lambda that belong to it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import sympy

from theory.prompts.moments import Array

SIGMA2 = Fraction(1, 4)


def inverse(matrix: Array) -> Array:
    """The inverse of a regular matrix of exact numbers, in fractions: (d, d) -> (d, d)."""
    inverse = sympy.Matrix(matrix.shape[0], matrix.shape[0], [sympy.Rational(v) for v in matrix.ravel()]).inv()
    return np.array([Fraction(int(v.p), int(v.q)) for v in inverse], dtype=object).reshape(matrix.shape)


class Orbit:
    """Exact means over X, the signed permutations of the rows of one matrix, and over Y given X; d = 2.

    w0    W0 = w0 I
    x     the matrix, (d, n); by default one with n = 3
    """

    def __init__(self, w0: int, x: Array | None = None) -> None:
        base = np.array([[1, 2, 0], [0, 1, -3]], dtype=object) if x is None else x
        d, n = base.shape
        signs = [np.diag(s).astype(object) for s in product((1, -1), repeat=d)]
        self.xs = [s @ base[list(order)] for s in signs for order in permutations(range(d))]
        units = np.eye(d * n, dtype=object).reshape(d, n, d, n)
        covariance = base.T @ base + SIGMA2 * np.eye(n, dtype=object)  # the same for every X
        self.pairs = [
            (units[r, t], units[r, u], covariance[t, u]) for r in range(d) for t in range(n) for u in range(n)
        ]
        self.w0 = w0
        self.ridges = [x.T @ inverse(x @ x.T + SIGMA2 * np.eye(d, dtype=object)) for x in self.xs]

    def mean(self, bilinear: Callable[[Array, Array, Array, Array], Any]) -> Any:
        """E of bilinear(Y, Y, X, R), which is linear in each of the first two; W_D = Y R."""
        total: Any = 0
        for x, ridge in zip(self.xs, self.ridges, strict=True):
            centre = self.w0 * x
            total = total + bilinear(centre, centre, x, ridge)
            for first, second, weight in self.pairs:
                if weight:
                    total = total + weight * bilinear(first, second, x, ridge)
        return total / Fraction(len(self.xs))

    def step(self, i: int) -> Fraction:
        """lambda_i as Lemmas 3 and 4 define it."""
        hit = self.mean(lambda y, z, x, r: (y @ r)[i] @ (x @ z.T)[:, i])
        return hit / self.mean(lambda y, z, x, r: (y @ x.T)[i] @ (x @ z.T)[:, i])
