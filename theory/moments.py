"""Exact moments of a regression prompt: what the population loss of the toy is made of.

A prompt holds n pairs z_t = (x_t ; y_t) in R^{2d} with y = W* x + noise, x ~ N(0, I), noise ~ N(0, sigma^2 I),
W* = W0 + D and D with independent standard normal entries.  Everything a linear-attention layer can see of the
context is the second-moment matrix

    S = sum_t z_t z_t^T = [[S_xx, S_xy], [S_yx, S_yy]],

and its loss needs three expectations only (`PromptMoments`):

    sandwich(M)       E[S M S]          M: (2d, 2d)
    target_left(Q)    E[W* Q S]         Q: (d, 2d)
    target_right(Q)   E[S Q W*]         Q: (2d, d)

Derivation
----------
*Given W\\**, z is Gaussian with covariance Sigma = F F^T + sigma^2 J, where F = (I ; W*) is 2d x d and
J = diag(0, I) projects on the y half, so S is a Wishart matrix.  Pairing the four factors of
E[z_s z_s^T M z_t z_t^T] (Isserlis) gives

    E[S M S | W*] = n^2 Sigma M Sigma + n Sigma M^T Sigma + n tr(M Sigma) Sigma,         E[S | W*] = n Sigma.

*Over W\\**, F = F0 + E D is Gaussian with mean F0 = (I ; W0) and Cov(F_ia, F_jb) = J_ij [a = b].  With G0 = F0 F0^T
and Q = E[F F^T] = G0 + d J, the pairings of two and of four factors F that are left after Q is split off are

    E[F F^T M F F^T]     = Q M Q   + J M^T G0 + G0 M^T J + d J M^T J + tr(M J) Q + tr(M G0) J
    E[tr(M F F^T) F F^T] = tr(MQ)Q + J N G0 + G0 N J + d J N J,                          N = M + M^T
    E[F Q F F^T]         = F0 Q G0 + J Q^T F0^T + tr(Q F0) J + d F0 Q J                  (Q here: d x 2d)
    E[F F^T Y F]         = G0 Y F0 + d J Y F0 + J Y^T F0 + tr(J Y) F0                    (Y: 2d x 2d).

Each is a polynomial identity in n, sigma and W0.  The code below is written once and runs on float64 and on arrays of
polynomials alike, so that the tests can hold every entry of it, as a polynomial, against the pairing engine of
`theory.isserlis`, which knows none of these formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.sizes import check_sizes

Array = NDArray[Any]  # float64; object arrays of exact numbers or polynomials pass through the formulas as well


def wishart_sandwich(m: Array, covariance: Array, n: Any) -> Array:
    """E[S M S] for S = sum of n outer products of N(0, covariance) vectors.

    Shapes: m and covariance (..., k, k); the result has m's shape.  Valid for every square m, symmetric or not.
    """
    trace = _trace(m, covariance)
    m_t = np.swapaxes(m, -1, -2)
    return covariance @ m @ covariance * n**2 + (covariance @ m_t @ covariance + trace * covariance) * n


def signal_variance(d: int, n: float, sigma: float) -> float:
    """Variance of every entry of S_yx at W0 = 0: n (n + d + 1 + sigma^2); the entries are uncorrelated.

    Rows of S_yx = D S_xx + noise X^T are independent given X with covariance S_xx^2 + sigma^2 S_xx, and
    E S_xx^2 = n(n+d+1) I.  Source: SkipV1Former, appendix A, Lemma 3 (its t_1, which the paper leaves open).
    """
    return n * (n + d + 1 + sigma**2)


class PromptMoments:
    """Second-order moments of S and W* for one task (d, n, sigma, W0); no sampling.

    w0 has shape (d, d) and defaults to zero.  All methods accept leading batch dimensions.
    """

    def __init__(self, d: int, n: Any, sigma: Any, w0: Array | None = None) -> None:
        exact = w0 is not None and np.asarray(w0).dtype == object
        if not exact:
            check_sizes(d, n, sigma)
        self.w0 = np.zeros((d, d)) if w0 is None else np.asarray(w0, dtype=object if exact else np.float64)
        if self.w0.shape != (d, d):
            raise ValueError(f"W0 must be {d} x {d}, got shape {self.w0.shape}")
        self.d, self.n, self.sigma, self._sigma2 = d, n, sigma, sigma * sigma
        zero, eye = np.zeros((d, d), dtype=self.w0.dtype), np.eye(d, dtype=self.w0.dtype)
        self._f0 = np.concatenate([eye, self.w0])
        self._g0 = self._f0 @ self._f0.T
        self._j = np.block([[zero, zero], [zero, eye]])

    @property
    def prior_power(self) -> Any:
        """E ||W*||_F^2 = d^2 + ||W0||_F^2."""
        return self.d**2 + (self.w0 * self.w0).sum()

    def sandwich(self, m: Array) -> Array:
        """E[S M S], shape of m: (..., 2d, 2d)."""
        d, n, s2, j, g0 = self.d, self.n, self._sigma2, self._j, self._g0
        q = g0 + d * j
        m_t = np.swapaxes(m, -1, -2)
        trace_j, trace_g = _trace(m, j), _trace(m, g0)
        trace_q = trace_g + d * trace_j
        both = m * n**2 + m_t * n  # E[Sigma M Sigma] is linear in M, so one pass serves M and M^T
        both_t = m_t * n**2 + m * n
        quartic = (
            q @ both @ q
            + j @ both_t @ g0
            + g0 @ both_t @ j
            + d * (j @ both_t @ j)
            + (trace_j * q + trace_g * j) * (n**2 + n)
        )
        noise = (j @ both @ q + q @ both @ j) * s2 + (j @ both @ j) * s2**2
        symmetric = m + m_t
        traced = trace_q * q + j @ symmetric @ g0 + g0 @ symmetric @ j + d * (j @ symmetric @ j)
        traced_noise = (trace_q * j + trace_j * q) * s2 + trace_j * j * s2**2
        return quartic + noise + (traced + traced_noise) * n

    def target_left(self, q: Array) -> Array:
        """E[W* Q S], Q: (..., d, 2d) -> (..., d, 2d)."""
        d, f0, g0, j = self.d, self._f0, self._g0, self._j
        full = f0 @ q @ g0 + j @ np.swapaxes(q, -1, -2) @ f0.T + _trace(q, f0) * j + f0 @ q @ j * (d + self._sigma2)
        return full[..., d:, :] * self.n  # W* = (0 I) F

    def target_right(self, q: Array) -> Array:
        """E[S Q W*], Q: (..., 2d, d) -> (..., 2d, d)."""
        d, f0, g0, j = self.d, self._f0, self._g0, self._j
        y = np.concatenate([np.zeros_like(q), q], axis=-1)
        full = g0 @ y @ f0 + j @ y @ f0 * (d + self._sigma2) + j @ np.swapaxes(y, -1, -2) @ f0 + _trace(j, y) * f0
        return full * self.n


def _trace(a: Array, b: Array) -> Array:
    """tr(A B), broadcast over leading dimensions, kept as (..., 1, 1)."""
    return (a * np.swapaxes(b, -1, -2)).sum(axis=(-1, -2), keepdims=True)
