"""Losses of one preconditioned step on the in-context regression task, for any covariance of inputs and prior.

Setting.  A task of `theory.prompts.moments.PromptMoments`: n pairs with y = W* x + noise, x of covariance Sigma,
normal or with independent entries of Sigma^{-1/2} x of some kurtosis; W* of mean W0 and Cov(W*_ij, W*_kl) = Psi_ik
Gamma_jl; noise of variance sigma^2 in each of d outputs.  Estimators P see S_yx = W* S_xx + noise X^T, and their loss
is that of a fresh query, E ||y - P x||^2 = E ||(P - W*) Sigma^{1/2}||^2 + d sigma^2; L_0 at P = 0.  Write Omega =
E[W*^T W*] = tr(Psi) Gamma + W0^T W0 and A = E[S_yx^T S_yx] = E[S_xx Omega S_xx] + n d sigma^2 Sigma; E[S_yx^T W*] =
n Sigma Omega.

after_step       P = S_yx M.  As tr(P Sigma W*^T) has mean n tr(M Sigma Omega Sigma), the loss is
                     L_0 - 2n tr(M Sigma Omega Sigma) + tr(M Sigma M^T A).
one_step         The best M = eta I: eta = n tr(Sigma Omega Sigma) / tr(Sigma A), explained n eta tr(Sigma Omega Sigma).
preconditioned   The best M at all: where the derivative, -2n Sigma Omega Sigma + 2 A M Sigma, is zero, so
                 M = n A^{-1} Sigma Omega, explained n^2 tr(Omega Sigma A^{-1} Sigma Omega Sigma).  For normal x, W0 = 0
                 and g_j the eigenvalues of Sigma^{1/2} Gamma Sigma^{1/2}, t their sum, this is
                     tr(Psi) sum_j n g_j^2 / ((n + 1) g_j + t + d sigma^2 / tr(Psi)):
                 every direction of x is shrunk by its own signal, every output as if it were the mean one.
linear           The best linear map of all d^2 numbers S_yx, W0 = 0.  In the eigenbasis of Psi the rows w_i of W* are
                 uncorrelated, and so are those, z_i, of S_yx: E[z_i z_i^T] = psi_i E[S_xx Gamma S_xx] + n sigma^2 Sigma
                 and E[w_i z_i^T] = n psi_i Gamma Sigma.  So w_i is best read off z_i, which explains
                     n^2 psi_i^2 tr(Sigma Gamma Sigma E[z_i z_i^T]^{-1} Sigma Gamma);
                 for normal x, sum_j f_ij with the f_ij of `theory.skipv1.general`, whose full-rank optimum it is.
                 It is `preconditioned` if Psi is a multiple of I or sigma = 0, and no higher otherwise.
minimum_norm     Least squares.  For normal x, n > d + 1 and a regular Sigma, P = W* + noise X^T S_xx^{-1}, whose excess
                 is d sigma^2 E tr(S_xx^{-1} Sigma) = d sigma^2 d / (n - d - 1) (`theory.prompts.wishart`), whatever
                 Sigma, W0 and the prior are.  With fewer pairs P is biased, by a projection whose mean has no
                 elementary form.

At identity covariances and W0 = 0 the first three are `theory.prompts.regression.one_step`.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from theory.errors import BadInput
from theory.prompts.moments import Array, PromptMoments


def after_step(moments: PromptMoments, preconditioner: Array) -> Any:
    """Return the loss of P = S_yx M, M = preconditioner (d, d); exact if the arrays of the task and M are exact."""
    signal, power, covariance = _signal(moments), _power(moments), moments.covariance
    weighted = preconditioner @ covariance
    linear, quadratic = (preconditioner * signal.T).sum(), (weighted * (power @ preconditioner)).sum()
    return moments.zero_loss - 2 * moments.n * linear + quadratic


def best_step(moments: PromptMoments) -> Any:
    """Return the step size eta of `one_step`, for the gradient of 1/2 sum ||y - P x||^2.

    It is 0 where there is nothing to learn.
    """
    signal = _signal(moments).trace()
    return moments.n * signal / (moments.covariance * _power(moments)).sum() if signal else 0 * signal


def one_step(moments: PromptMoments) -> Any:
    """Return the loss of the best single gradient step from zero, P = eta S_yx; exact if the task is."""
    return moments.zero_loss - moments.n * best_step(moments) * _signal(moments).trace()


def best_preconditioner(moments: PromptMoments) -> Array:
    """Return M = n A^{-1} Sigma Omega, (d, d) in float64; where A is singular, of least norm."""
    return moments.n * _inverse(_power(moments)) @ _float(moments.covariance) @ _float(_mean_square(moments))


def preconditioned(moments: PromptMoments) -> float:
    """Return the loss of P = S_yx M at the best matrix M."""
    explained = moments.n * (best_preconditioner(moments) * _float(_signal(moments)).T).sum()
    return float(moments.zero_loss - explained)


def linear(moments: PromptMoments) -> float:
    """Return the loss of the best linear map of S_yx.  Raises BadInput for a W0 that is not zero."""
    if moments.w0.any():
        raise BadInput("the best linear map of S_yx is worked out for W0 = 0 only")
    of_x, of_rows, of_columns = (_float(m) for m in (moments.covariance, moments.prior_rows, moments.prior_columns))
    target = of_columns @ of_x  # Gamma Sigma
    sandwich, noise = _float(_of_inputs(moments, moments.prior_columns)), float(moments.n * moments.sigma**2) * of_x
    explained = 0.0
    for psi in np.linalg.eigvalsh(of_rows):
        if psi > 0:
            covariance = _inverse(psi * sandwich + noise)
            explained += float(moments.n * psi) ** 2 * float(np.trace(of_x @ target @ covariance @ target.T))
    return float(moments.zero_loss) - explained


def minimum_norm(moments: PromptMoments) -> Any:
    """Return the loss of least squares, d sigma^2 (n - 1) / (n - d - 1), for normal x and n >= d.

    It is infinite at n = d and d + 1; without noise it is zero from n = d on.  Raises BadInput, saying why, for fewer
    pairs, other x, a singular Sigma.
    """
    d, n, sigma = moments.d, moments.n, moments.sigma
    if moments.kurtosis is not None:
        raise BadInput("the mean of S_xx^-1 is known for normal x only")
    if n < d:
        raise BadInput(f"least squares on n = {n} < d = {d} pairs has no known loss at a general covariance")
    if np.linalg.matrix_rank(_float(moments.covariance), hermitian=True) < d:
        raise BadInput("least squares needs a regular covariance of x")
    if not sigma:
        return 0 * sigma
    return d * sigma**2 * (n - 1) / (n - d - 1) if n > d + 1 else inf


def _mean_square(moments: PromptMoments) -> Array:
    """Return Omega = E[W*^T W*]."""
    return moments.prior_columns * moments.prior_rows.trace() + moments.w0.T @ moments.w0


def _signal(moments: PromptMoments) -> Array:
    """Return Sigma Omega Sigma."""
    return moments.covariance @ _mean_square(moments) @ moments.covariance


def _power(moments: PromptMoments) -> Array:
    """Return A = E[S_yx^T S_yx]."""
    noise = moments.n * moments.d * moments.sigma**2
    return _of_inputs(moments, _mean_square(moments)) + moments.covariance * noise


def _of_inputs(moments: PromptMoments, m: Array) -> Array:
    """Return E[S_xx M S_xx], the block of E[S M' S] that sees x alone."""
    d = moments.d
    return moments.sandwich(np.pad(m, (0, d)))[:d, :d]


def _inverse(matrix: Array) -> Array:
    """Return the inverse on the range of a symmetric matrix, in float64."""
    m = _float(matrix)
    return np.linalg.pinv((m + m.T) / 2, rcond=len(m) * np.finfo(np.float64).eps, hermitian=True)


def _float(matrix: Array) -> Array:
    return matrix.astype(np.float64)
