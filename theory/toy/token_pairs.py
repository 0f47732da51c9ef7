"""Entries that MHA can explain from layer 1's tokens, exactly, and a descent in the tokens.

Setting of `theory.toy.positions`, where every pair is written into its tokens in the same way: C_k (x_t ; y_t), with
C_k: m x 2d, k = 1 for x_t's token, k = 2 for y_t's.  With enough heads in layer 1 the C_k are free, and all that enough
heads of layer 2 make of them is a linear map of G = sum_k C_k S C_k^T, S the second moments of the pairs.

By (1) to (3) of `theory.toy.positions` the best such map explains rho times the sum of squared cosines between the span
of G's entries and the entries of S_yx, which are orthogonal.  That takes the second moments of S alone, which are exact
(`theory.prompts.moments`), and so is its gradient in the C_k: `most_entries` descends in them.  In orthonormal bases it
stays accurate where an infimum at infinity makes the entries of G almost dependent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from theory.errors import check_sizes
from theory.prompts.moments import Array, PromptMoments


def best_entries(d: int, n: int, sigma: float, tokens: Array) -> float:
    """Return the entries of W*, in units of rho, that the best linear map of G explains; tokens: C_k, (K, m, 2d)."""
    return _objective(d, n, sigma)(tokens)[0]


def most_entries(
    d: int, n: int, sigma: float, width: int, *, starts: int = 8, seed: int = 0, kinds: int = 2, steps: int = 2000
) -> tuple[float, Array]:
    """Return the most that descents from Gaussian tokens find, with `kinds` tokens per pair, and these tokens."""
    rng, objective, shape = np.random.default_rng([seed, d, width]), _objective(d, n, sigma), (kinds, width, 2 * d)

    def loss(flat: Array) -> tuple[float, Array]:
        value, gradient = objective(flat.reshape(shape))
        return -value, -gradient.ravel()

    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 30, "ftol": 1e-12, "gtol": 1e-9}
    ends = [
        minimize(loss, rng.standard_normal(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
        for _ in range(starts)
    ]
    best = min(ends, key=lambda end: float(end.fun))
    return -float(best.fun), best.x.reshape(shape)


def _objective(d: int, n: int, sigma: float) -> Callable[[Array], tuple[float, Array]]:
    """Return a function from the C_k to the entries explained and their gradient."""
    check_sizes(d, n, sigma)
    size = 2 * d
    left, right = np.triu_indices(size)
    moments = PromptMoments(d, n, sigma)
    units = np.eye(size * size).reshape(size, size, size, size)
    second = moments.sandwich(units)  # [j, k, i, l] = E[S_ij S_kl]
    gram = second.transpose(2, 0, 1, 3)[left[:, None], right[:, None], left, right]
    factor = np.linalg.cholesky(gram)
    twice = np.where(left == right, 1.0, 2.0)  # a form sum_ij M_ij S_ij in terms of i <= j
    wanted = np.zeros((len(left), d * d))
    for column, (i, j) in enumerate(np.ndindex(d, d)):
        wanted[(left == j) & (right == d + i), column] = 1
    targets = factor.T @ wanted
    targets /= np.linalg.norm(targets, axis=0)

    def value_and_gradient(tokens: Array) -> tuple[float, Array]:
        a, b = np.triu_indices(tokens.shape[1])
        products = np.einsum("kri,krj->rij", tokens[:, a], tokens[:, b])
        forms = (products + products.mT)[:, left, right] * (twice / 2)
        whitened = factor.T @ forms.T
        basis, triangle = np.linalg.qr(whitened)
        inside = basis.T @ targets
        rest = targets - basis @ inside
        weights = np.linalg.lstsq(triangle, inside, rcond=None)[0]
        of_forms = 2 * (factor @ (rest @ weights.T)).T * (twice / 2)  # (r, s)
        of_products = np.zeros_like(products)
        of_products[:, left, right] += of_forms
        of_products[:, right, left] += of_forms
        gradient = np.zeros_like(tokens)
        for r, (row, column) in enumerate(zip(a, b, strict=True)):
            gradient[:, row] += tokens[:, column] @ of_products[r]
            gradient[:, column] += tokens[:, row] @ of_products[r]
        return float((inside**2).sum()), gradient

    return value_and_gradient
