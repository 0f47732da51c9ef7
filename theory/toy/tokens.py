"""SkipV1Former's forward pass token by token, in whole numbers: Eqns. (2) and (3) and Assumption 1 of appendix A.1.

The ledger holds every reduced formula against this, exactly.  All arrays have dtype object, so nothing overflows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from theory.plans.heads import Heads
from theory.prompts.moments import Array
from theory.toy.population import Weights


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt with context x and y: (d, n), and query x_{n+1}: (d, 1)."""

    x: Array
    y: Array
    query: Array

    @property
    def tokens(self) -> Array:
        """The tokens E = (x_1, y_1, ..., x_n, y_n, x_{n+1}): (d, 2n + 1)."""
        return np.concatenate([_pairs(self.x, self.y), self.query], axis=1)

    def copied(self, a: Array, b: Array) -> Array:
        """Return TF_1(E) of Assumption 1: (d, 2n + 1)."""
        query = np.concatenate([a @ self.query, 0 * self.query[: len(b)]])
        return np.concatenate([_pairs(self.x, self.labels(a, b)), query], axis=1)

    def labels(self, a: Array, b: Array) -> Array:
        """Return all u_t = (A x_t ; B y_t): (d, n)."""
        return np.concatenate([a @ self.x, b @ self.y])

    def with_(self, **changes: Any) -> Prompt:
        return replace(self, **changes)


def _pairs(x: Array, y: Array) -> Array:
    return np.stack([x, y], axis=2).reshape(len(x), -1)


def whole(rng: np.random.Generator, *shape: int) -> Array:
    """Return whole numbers from -4 to 4."""
    return rng.integers(-4, 5, shape).astype(object)


def draw(rng: np.random.Generator, d: int, n: int) -> Prompt:
    return Prompt(whole(rng, d, n), whole(rng, d, n), whole(rng, d, 1))


def draw_weights(rng: np.random.Generator, a: int, d: int, heads: int = 2) -> Weights:
    return Weights(whole(rng, a, d), whole(rng, d - a, d), whole(rng, heads, d, d), whole(rng, heads, d, a))


def context(e: Array) -> Array:
    """Return the diagonal matrix P of Eqn. (2), which drops the query: (2n + 1, 2n + 1)."""
    keep = np.eye(e.shape[1], dtype=object)
    keep[-1, -1] = 0
    return keep


def full_key(k: Array) -> Array:
    """Return a d x d matrix W_K^T W_Q whose first columns are K."""
    return np.concatenate([k, np.zeros((len(k), len(k) - k.shape[1]), dtype=object)], axis=1)


def output(prompt: Prompt, w: Weights, heads: Heads, mask: Array | None = None) -> Array:
    """Return the last column of H E_out, with W_Q = I, W_K = (K 0)^T and H W_V = W: (d, 1).

    mask    replaces P, where given
    """
    first = prompt.copied(w.a, w.b)
    mask = context(first) if mask is None else mask
    out: Array = sum(
        w.w[h] @ (head.copied * first + head.raw * prompt.tokens) @ mask @ (first.T @ full_key(w.k[h]) @ first)
        for h, head in enumerate(heads)
    )
    return out[:, -1:]
