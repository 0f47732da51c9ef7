"""Exact arithmetic for the ledger's checks: losses in fractions, random rational weights, P as a linear map."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from theory.plans.heads import Heads, shares
from theory.prompts.moments import PromptMoments
from theory.toy.population import PopulationLoss, Weights

RATIONAL_TASKS = [(1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 4, Fraction(2, 3)), (4, 2, Fraction(1))]


def loss_at_entries(d: int, n: int, sigma: Fraction, entries: Fraction | int) -> Fraction:
    """Return d^2 + d sigma^2 - rho entries: the loss where this many entries of W* are explained, in units of rho.

    The formula is written out here, so that the checks do not take it from the code that they check.
    """
    return d**2 + d * sigma**2 - Fraction(n) / (n + d + 1 + sigma**2) * entries


def exact_loss(heads: Heads, d: int, n: int, sigma: Fraction, w0: Any = None) -> PopulationLoss:
    """Return the population loss in rational arithmetic."""
    zero = np.full((d, d), Fraction(0), dtype=object)
    return PopulationLoss(PromptMoments(d, n, sigma, zero if w0 is None else w0), heads)


def random_weights(rng: np.random.Generator, heads: int, a: int, d: int) -> Weights:
    shapes = ((a, d), (d - a, d), (heads, d, d), (heads, d, a))
    return Weights(*(rng.integers(-3, 4, shape).astype(object) + Fraction(0) for shape in shapes))


def prompt_map(w: Weights, heads: Heads) -> Any:
    """Return c with P_ij = sum_pq c[i, j, p, q] S_pq, S the 2d x 2d second moment of (x ; y): (d, d, 2d, 2d)."""
    d = w.a.shape[1]
    eye = np.eye(d, dtype=w.a.dtype)
    i_x, i_y = np.concatenate([eye, 0 * eye], 1), np.concatenate([0 * eye, eye], 1)
    u = np.concatenate([w.a @ i_x, w.b @ i_y])
    total = 0
    readouts, keys = (shares(heads, label)[1] for label in ("readout", "key"))
    for head, readout, key in zip(heads, readouts, keys, strict=True):
        terms = (
            ((head.copied + head.raw) * i_x, (head.key_copied + head.key_raw) * i_x),
            (head.copied * u + head.raw * i_y, head.key_copied * u + head.key_raw * i_y),
        )
        for left, right in terms:
            total = total + np.einsum("ip,qj->ijpq", w.w[readout] @ left, right.T @ w.k[key] @ w.a)
    return total


def odd_map(w: Weights, heads: Heads) -> Any:
    """Return T of the proof's step (2), P_odd = T(S_yx), as a (d^2, d^2) matrix on row-major vec."""
    c, d = prompt_map(w, heads), w.a.shape[1]
    return (c[:, :, d:, :d] + c[:, :, :d, d:].swapaxes(2, 3)).reshape(d * d, d * d)


def rational(polynomial: Any, values: Any) -> Fraction:
    """Return a ring element at rational values, given in the order of its first generators."""
    total = Fraction(0)
    for exponents, coefficient in polynomial.terms():
        term = Fraction(int(coefficient))
        for (_, value), power in zip(values, exponents, strict=False):
            term *= Fraction(value) ** power
        total += term
    return total
