"""The exact population loss of the assumed-copy toy, for any weights, with its gradient and no sampling.

Under Assumption 1 of SkipV1Former (appendix A.1) the first layer keeps x_t in its own token and puts
u_t = (A x_t ; B y_t) into y_t's token.  The second layer predicts y_{n+1} by P(D) x_{n+1}; a head whose values are
`copied` * TF_1(E) + `raw` * E contributes

    W [ (copied + raw) S_xx + sum_t (copied u_t + raw y_t) u_t^T ] K A          W: d x d, K: d x a.

copied = 1 is the ordinary head of MHA, raw = 1 the skip head of SkipV1Former, and a mix of both is ResFormer's head
with one W for both.  Keys may be such a mix too, key_copied u_t + key_raw y_t; heads may share a W or a K.  With
U = diag(A, B) (d x 2d), I_x = (I 0), I_y = (0 I) and S the 2d x 2d second-moment matrix of the context,

    P = sum_h W^h F^h,      F^h = C_1 S R_1 + C_2 S R_2,
    C_1 = (copied + raw) I_x,           R_1 = (key_copied + key_raw) I_x^T K A,
    C_2 = copied U + raw I_y,           R_2 = (key_copied U + key_raw I_y)^T K A,

so that the loss  E ||(P - W*) Sigma^{1/2}||_F^2 + d sigma^2,  Sigma the covariance of x, is, in W, a quadratic whose
coefficients E[F Sigma F^T] (Hd x Hd) and c = E[W* Sigma F^T] (d x Hd) are the moments of `theory.prompts.moments`.
Nothing larger than (2H)^2 matrices of size 2d x 2d is formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.errors import check_memory
from theory.plans.heads import Head, shares
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.rationals import product

NEGLIGIBLE = 1e-11  # of the largest eigenvalue of F's correlations: below it, rounding outweighs what is there


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of the reduced toy.  a: (a, d), b: (d-a, d), w: (H, d, d), k: (H, d, a); fewer where heads share."""

    a: Array
    b: Array
    w: Array
    k: Array

    @property
    def rank(self) -> int:
        return int(self.a.shape[0])

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        return self.a, self.b, self.w, self.k


@dataclass(frozen=True, eq=False)
class _Terms:
    """The terms that the loss needs of A, B and K, without W, ordered (head 1: 1, 2), (head 2: 1, 2), ...

    keys all key_copied U + key_raw I_y (H, d, 2d), left all C (2H, d, 2d), right all R (2H, 2d, d), target all
    E[W* Sigma R_t^T S] (2H, d, 2d), e_rr all E[S R_s Sigma R_t^T S] (2H, 2H, 2d, 2d).
    """

    keys: Array
    left: Array
    right: Array
    e_rr: Array
    target: Array


class PopulationLoss:
    """The exact loss L(A, B, W^h, K^h) of SkipV1Former Eqns. (5) and (6), for a task and a tuple of heads."""

    def __init__(self, moments: PromptMoments, heads: Sequence[Head]) -> None:
        if not heads:
            raise ValueError("the second layer needs at least one head")
        check_memory(f"the exact loss of {len(heads)} heads at d = {moments.d}", 48 * (len(heads) * moments.d) ** 2)
        self.moments = moments
        self.heads = tuple(heads)
        self._extended: PopulationLoss | None = None
        self.readouts, self._share_w = shares(self.heads, "readout")
        self.keys, self._share_k = shares(self.heads, "key")
        d, self._dtype = moments.d, moments.w0.dtype
        eye, zero = np.eye(d, dtype=self._dtype), np.zeros((d, d), dtype=self._dtype)
        i_x, i_y = np.concatenate([eye, zero], axis=1), np.concatenate([zero, eye], axis=1)
        of_heads = ("copied", "raw", "key_copied", "key_raw")
        numbers = np.array([[getattr(h, name) for name in of_heads] for h in self.heads], dtype=self._dtype)
        copied, raw, key_copied, key_raw = numbers.T[..., None, None]  # (H, 1, 1) each
        self._copied, self._key_copied, self._keys = copied, key_copied, key_copied + key_raw
        self._of_x, self._of_y, self._keys_of_y = (copied + raw) * i_x, raw * i_y, key_raw * i_y
        self._share_terms = np.repeat(self._share_w, 2)  # one readout per term
        self._zero_loss = self._number(moments.zero_loss)

    def _number(self, x: Any) -> Any:
        """Return a float, or the number as it is if the moments are exact.

        See `moments.PromptMoments`.
        """
        return x if self._dtype.hasobject else float(x)

    @property
    def zero_loss(self) -> float:
        """The task's loss of predicting zero, as a float unless the task is exact."""
        return self._zero_loss

    def value(self, weights: Weights) -> float:
        """Return the loss, in squared units of y summed over its d entries."""
        quadratic, c = self._quadratic(self._terms(weights))
        w = _side_by_side(weights.w)
        return self._number(np.sum(product(w, quadratic) * w) - 2 * np.sum(w * c) + self.zero_loss)

    def accurate_value(self, weights: Weights) -> float:
        """Return `value`, computed in the longest floating-point numbers of the machine; not for exact tasks.

        Where weights are large, so are the terms that cancel, and a descent can exploit their rounding.
        """
        if self._extended is None:
            self._extended = PopulationLoss(self.moments.extended(), self.heads)
        return self._extended.value(Weights(*(x.astype(np.longdouble) for x in weights.arrays())))

    def best_readout(self, weights: Weights) -> Weights:
        """Return the same weights with every W^h replaced by the minimiser given A, B and K (a linear solve)."""
        return self._solve(weights, self._terms(weights))

    def value_and_gradient(self, weights: Weights) -> tuple[float, Weights]:
        """Return the loss and its gradient, in the layout of `Weights`."""
        return self._differentiate(weights, self._terms(weights))

    def value_and_gradient_at_best_readout(self, weights: Weights) -> tuple[float, Weights]:
        """Return `value_and_gradient(best_readout(weights))`, for little more than the price of one of the two."""
        terms = self._terms(weights)  # they do not depend on W
        return self._differentiate(self._solve(weights, terms), terms)

    def _solve(self, weights: Weights, terms: _Terms) -> Weights:
        quadratic, c = self._quadratic(terms)
        size, values, vectors = correlations(quadratic)
        inverse = np.divide(1, values, out=np.zeros_like(values), where=values > NEGLIGIBLE * values[-1])
        w = (((c / size) @ vectors) * inverse) @ vectors.T / size
        return Weights(weights.a, weights.b, _stacked(w, self.readouts), weights.k)

    def _differentiate(self, weights: Weights, terms: _Terms) -> tuple[float, Weights]:
        d, heads = self.moments.d, len(self.heads)
        left, right, e_rr, target = terms.left, terms.right, terms.e_rr, terms.target
        w = weights.w[self._share_terms]
        wc = w @ left  # (2H, d, 2d)
        # d loss / d (W C)_t = 2 sum_s W C_s E[S R_s Sigma R_t^T S] - 2 E[W* Sigma R_t^T S]
        read = (wc[:, None] @ e_rr).sum(0)
        by_wc = 2 * (read - target)
        by_w = _gathered((by_wc @ left.mT).reshape(heads, 2, d, d).sum(1), self._share_w)
        by_left = w.mT @ by_wc
        # d loss / d R_t = (2 sum_s E[S (W C)_t^T (W C)_s S] R_s - 2 E[S (W C)_t^T W*]) Sigma
        wc_t = wc.mT
        e_ll = self.moments.sandwich(wc_t[:, None] @ wc[None])
        by_right = 2 * ((e_ll @ right).sum(1) - self.moments.target_right(wc_t))
        by_right = by_right @ self.moments.covariance

        value = float(np.sum((read - 2 * target) * wc) + self.zero_loss)
        ka = (weights.k @ weights.a)[self._share_k]
        by_keys = by_right[1::2]
        by_ka = _gathered(self._keys * by_right[0::2, :d] + terms.keys @ by_keys, self._share_k)
        by_compress = self._copied * by_left[1::2] + self._key_copied * (ka @ by_keys.mT)
        by_compress = by_compress.sum(0)
        by_k = by_ka @ weights.a.T
        by_a = by_compress[: weights.rank, :d] + (weights.k.mT @ by_ka).sum(0)
        return value, Weights(by_a, by_compress[weights.rank :, d:], by_w, by_k)

    def _terms(self, weights: Weights) -> _Terms:
        d, rank = self.moments.d, weights.rank
        shapes = ((rank, d), (d - rank, d), (self.readouts, d, d), (self.keys, d, rank))
        if tuple(x.shape for x in weights.arrays()) != shapes:
            raise ValueError(f"for rank {rank} the weights must have shapes {shapes}")
        compress = np.zeros((d, 2 * d), dtype=self._dtype)
        compress[:rank, :d] = weights.a
        compress[rank:, d:] = weights.b
        ka = product(weights.k, weights.a)[self._share_k]
        keys = self._key_copied * compress + self._keys_of_y
        left = np.empty((2 * len(self.heads), d, 2 * d), dtype=self._dtype)
        left[0::2], left[1::2] = self._of_x, self._copied * compress + self._of_y
        right = np.zeros((2 * len(self.heads), 2 * d, d), dtype=self._dtype)
        right[0::2, :d], right[1::2] = self._keys * ka, product(keys.mT, ka)
        weighted = product(self.moments.covariance, right.mT)
        e_rr = self.moments.sandwich(product(right[:, None], weighted[None]))
        return _Terms(keys, left, right, e_rr=e_rr, target=self.moments.target_left(weighted))

    def _quadratic(self, terms: _Terms) -> tuple[Array, Array]:
        """Return E[F Sigma F^T] (Hd, Hd) and c = E[W* Sigma F^T] (d, Hd)."""
        d, heads, left = self.moments.d, len(self.heads), terms.left
        left_t = left.mT
        blocks = (
            product(product(left[:, None], terms.e_rr), left_t[None]).reshape(heads, 2, heads, 2, d, d).sum(axis=(1, 3))
        )
        blocks = _gathered(_gathered(blocks, self._share_w).swapaxes(0, 1), self._share_w).swapaxes(0, 1)
        quadratic = blocks.transpose(0, 2, 1, 3).reshape(self.readouts * d, -1)
        c = product(terms.target, left_t).reshape(heads, 2, d, d).sum(1)
        return quadratic, _side_by_side(_gathered(c, self._share_w))


def correlations(covariance: Array) -> tuple[Array, Array, Array]:
    """Return standard deviations of a covariance, (k, k), and the eigen-decomposition of its correlations.

    A pseudo-inverse in terms of correlations is not misled by sizes.

    Returns:
        Standard deviations (1 where the variance is zero), the eigenvalues, rising, and the eigenvectors.
    """
    size = np.sqrt(covariance.diagonal())
    size = np.where(size > 0, size, 1)
    return size, *np.linalg.eigh((covariance + covariance.T) / (2 * size * size[:, None]))


def _gathered(of_heads: Array, places: list[int]) -> Array:
    """Sum over the heads that share a matrix: (H, ...) -> (matrices, ...)."""
    if len(set(places)) == len(places):
        return of_heads
    sums = np.zeros((max(places) + 1, *of_heads.shape[1:]), dtype=of_heads.dtype)
    np.add.at(sums, places, of_heads)
    return sums


def _side_by_side(w: Array) -> Array:
    """Put matrices side by side: (H, d, d) -> (d, H d)."""
    heads, d, _ = w.shape
    return w.transpose(1, 0, 2).reshape(d, heads * d)


def _stacked(w: Array, heads: int) -> Array:
    """Stack matrices that stand side by side: (d, H d) -> (H, d, d)."""
    d = w.shape[0]
    return w.reshape(d, heads, d).transpose(1, 0, 2)
