"""Exact moments of W = X X^T, the second moment of n inputs x ~ N(0, Sigma): powers, inverses, and other laws of x.

X: d x n, its columns independent; W is a Wishart matrix.  p_k = tr Sigma^k.  Expectations are matrices or numbers; all
functions but those that say otherwise take float64 and exact numbers alike.

Powers.  For any matrix-valued function g of X, integration by parts (Stein) says
    E tr(X g) = E sum_{ac,b} Sigma_ac d g_ba / d X_cb.
Take g = X^T W^{k-1} M t with M a fixed d x d matrix and t a product of traces t_m = tr W^m.  The derivative of X^T
gives n tr(W^{k-1} M Sigma); that of the i-th W = X X^T of W^{k-1} gives tr(W^{k-1} M Sigma) by its X, and
tr(W^i) tr(W^{k-1-i} M Sigma) by its X^T; that of t_m, 2 m (W^{m-1} X)_cb, gives 2 m tr(W^{k-1+m} M Sigma).  As this
holds for every M,
    E[W^k t] = Sigma E[(n + k - 1) W^{k-1} t + sum_{i=1}^{k-1} W^{k-1-i} t_i t + sum_{t_m in t} 2 m W^{k-1+m} t / t_m],
so that E[W^k t] is a polynomial in Sigma whose coefficients are polynomials in n and the p_k; and E t follows from the
trace of the first of its factors.  For instance
    E W^2 = n (n + 1) Sigma^2 + n p_1 Sigma,
    E W^3 = n (n^2 + 3n + 4) Sigma^3 + 2n (n + 1) p_1 Sigma^2 + n ((n + 1) p_2 + p_1^2) Sigma.
At Sigma = I the traces are those of `theory.prompts.regression.trace_moments`.

Inverses.  Let V = W^{-1}, Omega = Sigma^{-1}, r = n - d - 1.  E V exists if and only if r > 0, the mean of two V's if
and only if r > 2.  The same integration by parts with Omega X in front loses Sigma: E tr(Omega X g) =
E sum_ab d g_ba / d X_ab, and X X^T V = I.  As dV = -V (dX X^T + X dX^T) V, the derivative of X^T V A, contracted, is
n tr(VA) - tr(VA) - tr(VW) tr(VA) = r tr(VA), so that, with g = X^T V A, X^T V A tr(VB) and X^T V A V B in turn,
    tr(Omega A)                = r E tr(VA),
    tr(Omega A) E tr(VB)       = r T - E tr(VAVB) - E tr(V A^T V B),                 T = E[tr(VA) tr(VB)],
    tr(B Omega A E V)          = r E tr(VAVB) - E tr(V A^T V B) - T.
The last one for A and for A^T are, with the middle one, three equations for three numbers.  Their solution, as B is any
matrix, is
    E V = Omega / r,
    E[V M V] = [(r - 1) Omega M Omega + Omega M^T Omega + tr(M Omega) Omega] / ((r + 1) r (r - 2)).

Other laws.  If x = R xi and the entries of xi are independent with mean 0, variance 1 and excess kurtosis kappa_i, then
E[x x^T M x x^T] has beside the pairings only fourth cumulants, kappa_i for four equal indices.  So, with Sigma = R R^T,
    E[W M W] = n^2 Sigma M Sigma + n [Sigma M^T Sigma + tr(M Sigma) Sigma + R diag(kappa_i (R^T M R)_ii) R^T].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from theory.errors import BadInput, InvalidSize, at_least
from theory.prompts.moments import Array

LARGEST_POWER = 12  # of all factors together: the recursion passes through a number of partitions that soon explodes


def wishart_sandwich(m: Array, covariance: Array, n: Any) -> Array:
    """Return E[W M W] for x ~ N(0, covariance).

    Shapes: m and covariance (..., k, k); the result has m's shape.  Valid for every square m, symmetric or not.
    """
    trace = (m * np.swapaxes(covariance, -1, -2)).sum(axis=(-1, -2), keepdims=True)
    m_t = np.swapaxes(m, -1, -2)
    return covariance @ m @ covariance * n**2 + (covariance @ m_t @ covariance + trace * covariance) * n


def independent_sandwich(m: Array, root: Array, kurtosis: Array, n: Any) -> Array:
    """Return E[W M W] for x = root @ xi, the entries of xi independent, standardised and of the given excess kurtosis.

    Shapes: m (..., d, d), root (d, k), kurtosis (k,); the result has m's shape.
    """
    fourth = np.einsum("ji,...jk,ki->...i", root, m, root) * kurtosis
    return wishart_sandwich(m, root @ root.T, n) + (root * fourth[..., None, :]) @ root.T * n


def power_sums(covariance: Array, top: int) -> list[Any]:
    """Return p_1, ..., p_top, the traces of the powers of Sigma."""
    powers = [covariance]
    for _ in range(top - 1):
        powers.append(powers[-1] @ covariance)
    return [power.trace() for power in powers[:top]]


def mean_traces(powers: Sequence[int], sums: Sequence[Any], n: Any) -> Any:
    """Return E of the product of tr W^m over m in `powers`, a polynomial in n and p_1, p_2, ... = `sums`.

    sums may be numbers, or symbols; at least as many as the powers add up to.  Raises InvalidSize for powers below 1
    or above LARGEST_POWER in all, BadInput for too few sums.
    """
    if not powers:
        return 1
    first, *rest = powers
    coefficients = _coefficients(first, tuple(rest), sums, n)
    return sum(c * p for c, p in zip(coefficients[1:], sums, strict=False))


def mean_power(power: int, covariance: Array, n: Any, times: Sequence[int] = ()) -> Array:
    """Return E[W^power], times the product of tr W^m over m in `times` within the mean: (d, d).

    Raises as `mean_traces`.
    """
    sums = power_sums(covariance, power + sum(times))
    total = 0 * covariance
    for coefficient in reversed(_coefficients(power, tuple(times), sums, n)[1:]):  # Horner's rule
        total = covariance @ total + covariance * coefficient
    return total


def _coefficients(power: int, times: tuple[int, ...], sums: Sequence[Any], n: Any) -> tuple[Any, ...]:
    """Return c_0, c_1, ... with E[W^power prod tr W^m] = sum_b c_b Sigma^b."""
    for m in (power, *times):
        at_least("a power", m, 1)
    degree = power + sum(times)
    if degree > LARGEST_POWER:
        raise InvalidSize(f"the powers must add up to at most {LARGEST_POWER}, got {degree}")
    if len(sums) < degree:
        raise BadInput(f"powers that add up to {degree} need p_1 to p_{degree}, got {len(sums)} sums")

    @cache
    def mean(k: int, parts: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the coefficients of Sigma^0, ..., Sigma^degree; `parts` in ascending order."""
        if k == 0 and not parts:
            return (1, *[0] * degree)
        if k == 0:
            *rest, largest = parts
            of_largest = mean(largest, tuple(rest))
            return (sum(c * p for c, p in zip(of_largest[1:], sums, strict=False)), *[0] * degree)
        terms = [(n + k - 1, mean(k - 1, parts))]
        terms += [(1, mean(k - 1 - i, tuple(sorted((i, *parts))))) for i in range(1, k)]
        terms += [(2 * m, mean(k - 1 + m, parts[:at] + parts[at + 1 :])) for at, m in enumerate(parts)]
        return (0, *(sum(factor * of[b] for factor, of in terms) for b in range(degree)))

    return mean(power, tuple(sorted(times)))


def mean_inverse(precision: Array, n: int) -> Array:
    """Return E[W^-1] = precision / (n - d - 1), precision = Sigma^-1, (d, d).

    Raises InvalidSize unless n > d + 1.
    """
    return precision / _freedom(precision, n, 1)


def inverse_sandwich(m: Array, precision: Array, n: int) -> Array:
    """Return E[W^-1 M W^-1], m and precision = Sigma^-1 (d, d); E[W^-2] at M = I.

    Raises InvalidSize unless n > d + 3.
    """
    r = _freedom(precision, n, 3)
    around = precision @ (m * (r - 1) + m.T) @ precision
    return (around + (m * precision.T).sum() * precision) / ((r + 1) * r * (r - 2))


def _freedom(precision: Array, n: int, beyond: int) -> int:
    """Return n - d - 1, if n > d + beyond."""
    d = len(precision)
    at_least("n", n, 1)
    if n <= d + beyond:
        what = "W^-1 has a mean" if beyond == 1 else "the square of W^-1 has a mean"
        raise InvalidSize(f"{what} only for n > d + {beyond} = {d + beyond}, got n = {n}")
    return n - d - 1
