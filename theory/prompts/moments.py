"""Exact moments of a regression prompt, from which the toy's population loss is computed.

A prompt holds n pairs z_t = (x_t ; y_t) in R^{2d} with y = W* x + noise, noise ~ N(0, sigma^2 I), x ~ N(0, Sigma),
W* = W0 + D and Cov(D_ij, D_kl) = Psi_ik Gamma_jl.  By default Sigma, Psi and Gamma are the identity.  Everything a
linear-attention layer can see of the context is the second-moment matrix

    S = sum_t z_t z_t^T = [[S_xx, S_xy], [S_yx, S_yy]],

and its loss needs three expectations only (`PromptMoments`):

    sandwich(M)       E[S M S]          M: (2d, 2d)
    target_left(Q)    E[W* Q S]         Q: (d, 2d)
    target_right(Q)   E[S Q W*]         Q: (2d, d)

Derivation
----------
*Given W\\**, z is Gaussian with covariance C = F Sigma F^T + sigma^2 J, where F = (I ; W*) is 2d x d and
J = diag(0, I) projects on the y half, so S is a Wishart matrix.  Pairing the four factors of
E[z_s z_s^T M z_t z_t^T] (Isserlis) gives, with E[S | W*] = n C,

    E[S M S | W*] = n^2 C M C + n C M^T C + n tr(M C) C.

*Over W\\**, F = F0 + Delta is Gaussian with mean F0 = (I ; W0) and Cov(F_ia, F_jb) = K_ij Gamma_ab, K = diag(0, Psi).
So for A: d x 2d, B: d x d and M: 2d x 2d

    E[Delta A Delta] = K A^T Gamma,   E[Delta B Delta^T] = tr(B Gamma) K,   E[Delta^T M Delta] = tr(M K) Gamma.

With tau = tr(Sigma Gamma), tau_2 = tr(Sigma Gamma Sigma Gamma), F1 = F0 Sigma Gamma, G0 = F0 Sigma F0^T,
G1 = F1 Sigma F0^T and L = G1 + tau_2 K, the mean of C is m = G0 + tau K + sigma^2 J.  A product of two C's is paired
within each C, which gives the means; or one Delta of each, or both, are paired across:

    E[C M C]      = m M m    + K M^T L + G1 M^T K + tr(M K) L + tr(M G1) K
    E[tr(M C) C]  = tr(M m)m + K N L + G1 N K,                                       N = M + M^T
    E[F Q C]      = F0 Q m   + K Q^T F1^T + tr(Q F1) K                               Q: d x 2d
    E[C Y F]      = m Y F0   + K Y^T F1 + tr(K Y) F1                                 Y: 2d x 2d, W* = (0 I) F.

(The first pairs Delta's 1 and 3, 2 and 4; 2 and 3; 1 and 4; of the pairings of all four, tau_2 K M^T K and
tau_2 tr(M K) K went into L.)

*Other inputs.*  If x = R xi, R the symmetric root of Sigma, and the entries of xi are independent with mean 0, variance
1 and excess kurtosis kappa_i (E xi_i^4 - 3; 0 for normal ones), only E[z z^T M z z^T] changes, as only there four
factors are of one sample.  Of the fourth cumulants of xi all but those of four equal indices vanish, so z's are
sum_i kappa_i l_i l_i l_i l_i, with l_i = F R e_i: that adds n sum_i kappa_i E[(l_i^T M l_i) l_i l_i^T].  Here l_i is
Gaussian with mean f_i = F0 R e_i and covariance v_i K, v_i = (R Gamma R)_ii, and pairing as above gives

    E[(l^T M l) l l^T] = (f^T M f) f f^T + v [f f^T N K + K N f f^T + tr(M K) f f^T + (f^T M f) K]
                         + v^2 [K N K + tr(M K) K].

Nothing else of xi's law is needed: third cumulants meet a factor of mean 0.

Each is a polynomial identity in n, sigma, W0 and the covariances.  The code below is written once and runs on float64
and on arrays of exact numbers or polynomials alike, so that the tests can compare every entry of it, as a polynomial,
with the pairing engine of `theory.prompts.isserlis`, which knows none of these formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.errors import LARGEST, BadInput, check_memory, check_sizes
from theory.prompts.rationals import fractions, over_one

Array = NDArray[Any]  # float64; object arrays of exact numbers or polynomials pass through the formulas as well


def signal_variance(d: int, n: float, sigma: float) -> float:
    """Return the variance of every entry of S_yx at W0 = 0 and identity covariances: n (n + d + 1 + sigma^2).

    The entries are uncorrelated.  Rows of S_yx = D S_xx + noise X^T are independent given X with covariance
    S_xx^2 + sigma^2 S_xx, and E S_xx^2 = n(n+d+1) I.  Source: SkipV1Former, appendix A, Lemma 3 (its t_1, which the
    paper leaves open).
    """
    return n * (n + d + 1 + sigma**2)


Formula = Callable[["PromptMoments", Array], Array]
DENSE = 8  # the largest d at which a formula is applied as one matrix


def _linear(formula: Formula) -> Formula:
    """Return a formula that is linear in its matrix as one matrix product over all entries, where d is small.

    Descents need it by the million, and a product costs less than the formula's many small ones.  It rounds a few times
    more.  Exact and longer numbers go through the formula, fractions as whole numbers.
    """

    name = formula.__name__

    @wraps(formula)
    def applied(self: PromptMoments, m: Array) -> Array:
        if m.dtype.hasobject and self._whole is not None and (numbers := over_one(m)) is not None:
            own, scale = self._whole
            return fractions(formula(own, numbers[0]), numbers[1] * scale**2)
        if self.d > DENSE or not m.dtype == self.w0.dtype == np.float64:
            return formula(self, m)
        if name not in self._matrices:
            entries = m.shape[-2] * m.shape[-1]
            images = formula(self, np.eye(entries).reshape(entries, *m.shape[-2:]))
            self._matrices[name] = images.reshape(entries, -1), images.shape[1:]
        matrix, shape = self._matrices[name]
        return (m.reshape(-1, len(matrix)) @ matrix).reshape(*m.shape[:-2], *shape)

    return applied


class PromptMoments:
    """One task, and its second-order moments of S and W*; no sampling.

    w0                           mean of W*, (d, d); by default zero
    covariance                   Sigma, of x, (d, d); by default, as the next two, the identity
    prior_rows, prior_columns    Psi and Gamma: Cov(W*_ij, W*_kl) = Psi_ik Gamma_jl, (d, d) each
    kurtosis                     excess kurtosis, at least -2, of the entries of Sigma^{-1/2} x, which are independent
                                 then, (d,); by default x is normal
    centred                      moments about the means of S and W*.  A loss E||P + C - W*||^2, P linear in S, is least
                                 at C = E[W* - P], and then what these give: the loss with a bias C x_{n+1}

    Exact where one of these is an object array.  All methods accept leading batch dimensions.  Raises InvalidSize for
    impossible sizes, BadInput for what is no covariance or kurtosis.
    """

    def __init__(
        self,
        d: int,
        n: Any,
        sigma: Any,
        w0: Array | None = None,
        *,
        covariance: Array | None = None,
        prior_rows: Array | None = None,
        prior_columns: Array | None = None,
        kurtosis: Array | None = None,
        centred: bool = False,
    ) -> None:
        self.centred = centred
        try:
            given = [np.asarray(x) for x in (w0, covariance, prior_rows, prior_columns, kurtosis) if x is not None]
        except ValueError:
            raise BadInput("W0, covariances and kurtosis are arrays of numbers, with rows of one length") from None
        exact = any(x.dtype == object for x in given)
        if not exact:
            check_sizes(d, n, sigma)
        check_memory(f"a task of d = {d}", 40 * d**2)
        dtype = np.dtype(object) if exact else np.result_type(np.float64, *given)
        self._matrices: dict[str, tuple[Array, tuple[int, ...]]] = {}
        self.w0 = np.zeros((d, d), dtype) if w0 is None else _array(f"W0 must be {d} x {d}", w0, (d, d), dtype)
        self.d, self.n, self.sigma, self._sigma2 = d, n, sigma, sigma * sigma
        self.covariance = _checked("the covariance of x", covariance, d, dtype)
        self.prior_rows = _checked("the prior covariance of rows", prior_rows, d, dtype)
        self.prior_columns = _checked("the prior covariance of columns", prior_columns, d, dtype)
        self.kurtosis = _checked_kurtosis(kurtosis, d, dtype)

        zero, eye = np.zeros((d, d), dtype), np.eye(d, dtype=dtype)
        self._j, self._k = (np.block([[zero, zero], [zero, block]]) for block in (eye, self.prior_rows))
        self._f0 = np.concatenate([eye, self.w0])
        between = self.covariance @ self.prior_columns
        tau, tau_2 = between.trace(), (between * between.T).sum()
        self._f1 = self._f0 @ between
        self._g1 = self._f1 @ self.covariance @ self._f0.T
        self._late = self._g1 + self._k * tau_2
        self._mean = self._f0 @ self.covariance @ self._f0.T + self._k * tau + self._j * self._sigma2
        self._signal = tau * self.prior_rows.trace()
        if self.kurtosis is not None:
            root = eye if covariance is None else _root(self.covariance)
            self._of_xi = self._f0 @ root  # columns f_i
            v = ((root @ self.prior_columns) * root.T).sum(axis=1)
            self._h1 = (self._of_xi * (self.kurtosis * v)) @ self._of_xi.T
            self._h_late = self._h1 + (self.kurtosis * v * v).sum() * self._k

    @cached_property
    def _whole(self) -> tuple[PromptMoments, int] | None:
        """These moments with whole numbers for all matrices, and their common factor.

        Each term of the formulas has two of the matrices as factors.  None if they are no fractions, n is no whole
        number, or there is a kurtosis.
        """
        names = ("_f0", "_f1", "_g1", "_k", "_late", "_mean")
        matrices = [getattr(self, name) for name in names]
        numbers = over_one(np.concatenate([x.ravel() for x in matrices])) if matrices[0].dtype.hasobject else None
        if numbers is None or self.kurtosis is not None or type(self.n) is not int:
            return None
        own, parts = copy(self), np.split(numbers[0], np.cumsum([x.size for x in matrices])[:-1])
        for name, x, part in zip(names, matrices, parts, strict=True):
            setattr(own, name, part.reshape(x.shape))
        return own, numbers[1]

    @property
    def prior_power(self) -> Any:
        """The power of W* x for a query x: E ||W* Sigma^{1/2}||_F^2 = tr(Psi) tr(Gamma Sigma) + tr(W0 Sigma W0^T)."""
        return self._signal + (self.w0 @ self.covariance * self.w0).sum()

    @property
    def zero_loss(self) -> Any:
        """The loss of predicting zero, E ||y||^2 = E ||W* x||^2 + d sigma^2.

        It is d^2 + ||W0||^2 + d sigma^2 at identities.

        In squared units of y summed over its d entries; exact if the task is.  If centred, of predicting W0 x.
        """
        return (self._signal if self.centred else self.prior_power) + self.d * self.sigma**2

    def extended(self) -> PromptMoments:
        """Return the same task in the longest floating-point numbers of the machine; not for exact tasks."""
        long = np.longdouble
        w0, of_x, rows, columns = (
            x.astype(long) for x in (self.w0, self.covariance, self.prior_rows, self.prior_columns)
        )
        return PromptMoments(
            self.d,
            self.n,
            long(self.sigma),
            w0,
            covariance=of_x,
            prior_rows=rows,
            prior_columns=columns,
            kurtosis=None if self.kurtosis is None else self.kurtosis.astype(long),
            centred=self.centred,
        )

    @_linear
    def sandwich(self, m: Array) -> Array:
        """Return E[S M S], shape of m: (..., 2d, 2d)."""
        n, k, g1, late = self.n, self._k, self._g1, self._late
        m_t = np.swapaxes(m, -1, -2)
        both, across = m_t * n, m_t * (n**2 + n) + m * (2 * n)  # E[C M C] is linear in M: one pass for all
        both = both if self.centred else both + m * n**2
        trace_k, trace_g1 = _trace(m, k), _trace(m, g1)
        mean = _around(self._mean, both, self._mean) + _trace(m, self._mean) * self._mean * n
        paired = _around(k, across, late) + _around(g1, across, k) + (trace_k * late + trace_g1 * k) * (n**2 + n)
        if self.kurtosis is None:
            return mean + paired
        f, h1, h_late, symmetric = self._of_xi, self._h1, self._h_late, m + m_t
        power = ((f.T @ m) * f.T).sum(axis=-1)[..., None, :]  # f_i^T M f_i
        fourth = (f * (power * self.kurtosis)) @ f.T + h1 @ symmetric @ k + k @ symmetric @ h_late
        return mean + paired + (fourth + trace_k * h_late + _trace(m, h1) * k) * n

    @_linear
    def target_left(self, q: Array) -> Array:
        """Return E[W* Q S], Q: (..., d, 2d) -> (..., d, 2d)."""
        k, f1 = self._k, self._f1
        full = k @ np.swapaxes(q, -1, -2) @ f1.T + _trace(q, f1) * k
        full = full if self.centred else full + self._f0 @ q @ self._mean
        return full[..., self.d :, :] * self.n  # W* = (0 I) F

    @_linear
    def target_right(self, q: Array) -> Array:
        """Return E[S Q W*], Q: (..., 2d, d) -> (..., 2d, d)."""
        k, f1 = self._k, self._f1
        y = np.concatenate([np.zeros_like(q), q], axis=-1)
        full = k @ np.swapaxes(y, -1, -2) @ f1 + _trace(k, y) * f1
        full = full if self.centred else full + self._mean @ y @ self._f0
        return full * self.n


def _checked(what: str, matrix: Array | None, d: int, dtype: np.dtype[Any]) -> Array:
    """Return a covariance, by default the identity.  Negative eigenvalues are noticed in float64 only."""
    if matrix is None:
        return np.eye(d, dtype=dtype)
    must = f"{what} must be a symmetric {d} x {d} matrix"
    result = _array(must, matrix, (d, d), dtype)
    if not (result == result.T).all():
        raise BadInput(must)
    if dtype == np.float64:
        spectrum = np.linalg.eigvalsh(result)
        if spectrum[0] < -d * np.finfo(np.float64).eps * max(spectrum[-1], 0.0):
            raise BadInput(f"{what} must be finite and have no negative eigenvalue")
    return result


def _checked_kurtosis(kurtosis: Array | None, d: int, dtype: np.dtype[Any]) -> Array | None:
    if kurtosis is None:
        return None
    must = f"the excess kurtosis must be {d} numbers from -2"
    result = _array(must, kurtosis, (d,), dtype)
    if not (result >= -2).all():
        raise BadInput(must)
    return result


def _array(must: str, given: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a user's array with this shape.

    Unless exact, it must be finite and not so large that the losses lose their digits.
    """
    if dtype.kind not in "fO":
        raise BadInput(must)
    result = np.asarray(given, dtype)
    if result.shape != shape:
        raise BadInput(f"{must}, got shape {result.shape}")
    if dtype.kind == "f" and not (np.abs(result) <= LARGEST).all():
        raise BadInput(f"{must}, and finite, no number larger than {LARGEST:.0e}")
    return result


def _root(covariance: Array) -> Array:
    """Return the symmetric root, in float64."""
    if covariance.dtype.hasobject:
        raise BadInput("with a kurtosis, a covariance needs its root, and so floating-point numbers")
    values, vectors = np.linalg.eigh(covariance.astype(np.float64))
    return (vectors * np.sqrt(values.clip(min=0))) @ vectors.T


def _around(left: Array, m: Array, right: Array) -> Array:
    """Return left M right, broadcast over leading dimensions.

    Exact products are slow: those with a zero are left out.
    """
    if not m.dtype.hasobject:
        return left @ m @ right
    rows = np.stack([_combined(m, -2, row) for row in left], axis=-2)
    return np.stack([_combined(rows, -1, column) for column in right.T], axis=-1)


def _combined(m: Array, axis: int, weights: Array) -> Array:
    """Return the weighted sum over one axis, of the entries whose weight is not zero."""
    parts = np.moveaxis(m, axis, 0)
    terms = [part * weight for weight, part in zip(weights, parts, strict=True) if weight]
    return sum(terms[1:], terms[0]) if terms else np.zeros_like(parts[0])


def _trace(a: Array, b: Array) -> Array:
    """Return tr(A B), broadcast over leading dimensions, kept as (..., 1, 1)."""
    return (a * np.swapaxes(b, -1, -2)).sum(axis=(-1, -2), keepdims=True)
