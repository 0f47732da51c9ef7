"""MHA whose first layer writes each pair into its two tokens generically, which suffices from a width of sqrt(3) d on.

Setting and notation of `theory.toy.least_width`.  x_t's token is P_1 x_t + eta Q_1 y_t and y_t's P_2 x_t + eta Q_2 y_t,
all four m x d, so that
    G = E(S_xx) + eta O(S_yx) + eta^2 F(S_yy),        E(S) = sum_k P_k S P_k^T,
    O(Z) = sum_k Q_k Z P_k^T + its transpose,         F(S) = sum_k Q_k S Q_k^T.

Theorem.  If all d (d+1) / 2 images of E and all d^2 of O are independent, MHA of width m approaches rho d^2 as eta goes
to 0, for every n and sigma, with at most m d heads in layer 2 and four in layer 1.  There are such P and Q, in whole
numbers, at the least m with
    m (m+1) / 2 >= d (3 d + 1) / 2,                   about sqrt(3) d,
for every d from 1 to 16 (`independent_tokens`).  That is less than 2d - 1 from d = 7 on.
Proof.  There is a linear T with T O = id and T E = 0.  (1 / eta) T G = S_yx + eta T F(S_yy), and lambda times that
explains rho d^2 - eta^2 lambda^2 E ||T F(S_yy)||^2, as S_yy is even and so uncorrelated with W* and S_yx.  A linear
map of G to d x d matrices is a sum over its m columns and d columns of the image, a head each.  For the P and Q: the
images' entries make a matrix of whole numbers; its rank modulo a prime, which is no more than its rank, is
d (3 d + 1) / 2.                                                                                                  QED

Less width does not suffice for such tokens: G has too few entries.  For all d it is a
conjecture.  Images of E that coincide help a little: with P_1 + i P_2 complex linear on c pairs of x's entries they
span c^2 + 2 c r + r (r+1) / 2 dimensions, r = d - 2c, at the price of fewer products with O; at the best c that is
about 1.71 d for large d by this count, which we have not proved.
"""

from __future__ import annotations

import numpy as np

from theory.errors import at_least
from theory.prompts.moments import Array

PRIME = 2**31 - 1
LARGEST_CHECKED = 16


def generic_width(d: int) -> int:
    """Return the least m with m (m+1) / 2 >= d (3 d + 1) / 2."""
    at_least("d", d, 1)
    width = d
    while width * (width + 1) < d * (3 * d + 1):
        width += 1
    return width


def whole_tokens(d: int, width: int, seed: int = 0) -> Array:
    """Return random P_k and Q_k in whole numbers, P_k before Q_k, as both tokens are functions of (x, y).

    Returns:
        Whole numbers, (2, width, 2d).
    """
    return np.random.default_rng([seed, d, width]).integers(-99, 100, (2, width, 2 * d))


def independent_tokens(tokens: Array) -> bool:
    """Return True only if the images of E and O are independent, by exact arithmetic modulo a prime.

    False says nothing.

    Args:
        tokens: Whole numbers, (2, width, 2d).
    """
    d = tokens.shape[-1] // 2
    p, q = tokens[..., :d], tokens[..., d:]
    left, right = np.triu_indices(d)
    rows, columns = np.triu_indices(tokens.shape[1])
    products = {name: np.einsum("kai,kbj->ijab", one, p) for name, one in (("E", p), ("O", q))}
    images = np.concatenate([products["E"][left, right], products["O"].reshape(d * d, *products["O"].shape[2:])])
    images = (images + images.transpose(0, 2, 1))[:, rows, columns]
    return _rank(images) == len(images)


def small_y(tokens: Array, eta: float) -> Array:
    """Return the tokens, in float64, with eta Q_k in place of Q_k."""
    d = tokens.shape[-1] // 2
    return tokens * np.repeat([1.0, eta], d)


def _rank(matrix: Array) -> int:
    """Return the rank modulo PRIME, whose square int64 holds."""
    matrix, rank = matrix % PRIME, 0
    for column in range(matrix.shape[1]):
        candidates = np.nonzero(matrix[rank:, column])[0]
        if not len(candidates):
            continue
        pivot = rank + candidates[0]
        matrix[[rank, pivot]] = matrix[[pivot, rank]]
        matrix[rank] = matrix[rank] * pow(int(matrix[rank, column]), PRIME - 2, PRIME) % PRIME
        below = matrix[rank + 1 :]
        below -= below[:, column : column + 1] * matrix[rank] % PRIME
        below %= PRIME
        rank += 1
        if rank == len(matrix):
            break
    return rank
