"""SkipV1Former's loss gap around any W0, with two heads: true, once a term C x_{n+1} is added to the prediction.

Setting of `theory.skipv1.w0`, but y_{n+1} is predicted by (P + C) x_{n+1} with a free d x d matrix C: a residual path
from the query to the output, or a bias of the readout.  The paper's toy (SkipV1Former, Eqns. (2) and (3)) has no such
path, and all that refutes its Theorem 2 (`theory.skipv1.w0_heads`) is heads that have to build the constant W0 out of
the prompt.  As there: D = W* - W0, Z = sum eta x^T, S = sum x x^T, lambda = rho/n, Pi the projection on the row space
of A, so that P = P Pi.

Theorem.  Let C be free.  For every W0, n, sigma >= 0 and rank a
    (1)  min L_skipv1(a) = d sigma^2 + d^2 - rho a d, attained with one ordinary and one skip head;
    (2)  inf L_mha(a)    = d sigma^2 + d^2 - rho a (d - a), approached with one head, and attained with one if the
         last d - a columns of W0 are independent, so around every invertible W0.
More heads of these kinds change neither.  So the gap at equal rank is rho a^2, and between the optima over a it is
rho (d^2 - floor(d^2/4)), for every W0: what `theory.skipv1.gap` says of W0 = 0.
Proof.
(i) The best C is E[W* - P], which leaves L = d sigma^2 + E||P' - D||^2 with P' = P - E P.  Flipping the sign of (D,
    noise) keeps the law of the prompt; P' = T(Z) + R with R even, so that R is uncorrelated with T(Z) and D.  The
    entries of Z are uncorrelated with variance n/lambda, and E[Z_ij D_kl] = n [i=k][j=l].  Hence
        L >= d sigma^2 + d^2 + (n/lambda)||T||^2 - 2 n tr T,    equality if R = 0.
    If T = U T V with projections U, V of the space of d x d matrices, then tr T = <U V, T> and the right side is at
    least d sigma^2 + d^2 - rho ||U V||^2, in Frobenius norm, by Cauchy.
(ii) SkipV1Former: U is M -> M Pi, of rank at most a d, and V the identity.
(iii) MHA: U as before.  An ordinary head sees Z through U_A = A S A^T, B Z A^T and, in B y y^T B^T, through
    B (Z W0^T + W0 Z^T) B^T.  So V projects on K_1 + K_2, where K_1 holds the matrices B^T M A and K_2 those
    B^T M B W0, M symmetric.  All of K_2 has its columns in those of B^T; split it by Pi: B^T M B W0 Pi is in K_1, and
    what is left vanishes under U.  So U V = V U is the projection on K_1, and ||U V||^2 = dim K_1 <= a (d - a).
(iv) Attained, A = (I 0) here and below, beta = 1.  With B = 0 the skip head has S_xx K A + S_yx A^T K' A, K = (K' ; 0),
    which at K' = I is (S + Z + W0 S) Pi, and the ordinary head has diag(2, .., 2, 1, .., 1) S Pi: with the readouts
    lambda I and -lambda (I + W0) diag(1/2, .., 1/2, 1, .., 1) their sum is lambda Z Pi.
(v) MHA, one head with K = (I ; 0): in terms of the first a columns S_1, Z_1 of S and Z it has, above, 2 S_11, and below
    S_21 + B (Z_1 + W0 S_1).  Let W_2 be the last d - a columns of W0, of rank r, with singular triples (s_i, p_i, q_i).
    B = sum_i q_i b_i^T with b_i = -p_i/s_i for i <= r, and for i > r b_i = beta p_i, the p_i an orthonormal basis of
    what is orthogonal to p_1, .., p_r.  Then B W_2 = -sum_(i <= r) q_i q_i^T, so that the lower rows, seen along q_i,
    are b_i^T (Z_1 + W0_1 S_11) for i <= r, W0_1 the first a columns, and q_i^T S_21 + beta p_i^T (Z_1 + W0_1 S_11) for
    the others.  Divided by beta there, and S_11 taken off by the upper rows, they are p_i^T Z_1 but for
    q_i^T S_21/beta.  So readouts lambda sum_i p_i (scaled q_i)^T leave lambda Q Z Pi, Q a projection of rank d - a,
    which attains (iii), and an excess that is O(1/beta^2) and absent if r = d - a.                               QED

What is used of x: its entries are independent with mean 0, variance 1 and one kurtosis, which changes rho as in
`theory.skipv1.non_gaussian`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from theory.errors import InvalidSize, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number, identity, signal_share, zero_loss
from theory.skipv1 import gap_weights
from theory.skipv1.gap import mha_explained, skipv1_explained
from theory.toy.population import Weights


def skipv1_minimum(d: int, n: int, sigma: Number, rank: int) -> Any:
    """Return Theorem (1)'s minimum, in squared units of y summed over its d entries, whatever W0.

    Exact if sigma is a Fraction.  Raises InvalidSize.
    """
    return zero_loss(d, n, sigma) - skipv1_explained(d, n, sigma, rank)


def mha_infimum(d: int, n: int, sigma: Number, rank: int) -> Any:
    """Return Theorem (2)'s infimum, in the same units."""
    return zero_loss(d, n, sigma) - mha_explained(d, n, sigma, rank)


def skipv1_weights(d: int, n: int, sigma: Number, rank: int, w0: Array) -> Weights:
    """Return weights of `theory.plans.heads.SKIPV1` that attain `skipv1_minimum` around W0 (d, d).  Step (iv).

    Raises InvalidSize.
    """
    _check(d, n, sigma, rank=rank, w0=w0)
    centred = gap_weights.skipv1_weights(d, n, sigma, rank)
    ordinary, skip = centred.w
    w = np.stack([(identity(d, sigma) + w0) @ ordinary, skip])
    return Weights(centred.a, centred.b, w, centred.k)


def mha_weights(d: int, n: int, sigma: Number, rank: int, w0: Array, beta: float = 1.0) -> Weights:
    """Return weights of one ordinary head that approach `mha_infimum` around W0 (d, d) as beta grows.

    Step (v), in float64.  They attain it where the last d - rank columns of W0 are independent.  Raises InvalidSize.
    """
    _check(d, n, sigma, rank=rank, w0=w0)
    left, singular, right = np.linalg.svd(np.asarray(w0, dtype=np.float64)[:, rank:])
    small = singular.max(initial=0.0) * d * np.finfo(np.float64).eps
    sizes = np.array([-1 / s if s > small else beta for s in singular])
    seen = left[:, : d - rank]
    b = right.T @ (sizes[:, None] * seen.T)
    lower = float(signal_share(d, n, sigma) / n) * (seen / sizes) @ right
    upper = -lower @ b @ np.asarray(w0, dtype=np.float64)[:, :rank] / 2
    eye = np.eye(d)
    return Weights(a=eye[:rank], b=b, w=np.concatenate([upper, lower], axis=1)[None], k=eye[None, :, :rank])


def _check(d: int, n: int, sigma: Number, rank: int, w0: Array) -> None:
    check_sizes(d, n, sigma, rank)
    if w0.shape != (d, d):
        raise InvalidSize(f"W0 must be {d} x {d}, got shape {w0.shape}")
