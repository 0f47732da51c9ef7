"""The loss gap of SkipV1Former for inputs, priors and noise that are not normal.

Setting.  That of `theory.skipv1.gap` at W0 = 0, with any law of x such that E x x^T = I and C = E[|x|^2 x x^T] is
finite; W* and the noise are independent of x, their joint law is that of (-W*, -noise), and their entries are
uncorrelated, of variances 1 and sigma^2.  c_1 <= ... <= c_d are the eigenvalues of C, and rho_j = n / (n - 1 + c_j +
sigma^2).

Theorem.  For every 0 <= a <= d, whatever the number of heads,
    inf L_mha(a)    = d^2 + d sigma^2 - (d - a) sum_{j <= a} rho_j        approached by one ordinary head,
    inf L_skipv1(a) = d^2 + d sigma^2 - d sum_{j <= a} rho_j              approached by one skip head,
the latter attained by one head of either kind where C is a multiple of I, and at a = d.
If the entries of x are independent, of mean 0 and excess kurtosis kappa_j, then C = diag(d + 2 + kappa_j).  So for
equal ones both infima, and the gaps, are those of `theory.skipv1.gap` with rho = n / (n + d + 1 + kappa + sigma^2).
Its non-attainment is another matter: for W* with a density MHA attains its infimum for no 0 < a < d, unless the entries
are signs (kappa = -2) and a = d - 1 >= 2; then it does, with d - 1 heads.

Proof, by the steps of `theory.skipv1.gap`.
(1) Parity holds: it needs the sign flip alone.
(2) Isotropy.  E S_xx^2 = n (n - 1) I + n C, so the rows of S_yx are uncorrelated with covariance
    V = n (n - 1 + sigma^2) I + n C, and E[(S_yx)_ij W*_kl] = n [i=k][j=l] as before.  Where C = c I all entries are
    uncorrelated, of variance n / lambda with lambda = rho / n, and (3) and (4) hold as they stand.
(3), (4) Else B S_yx A^T, with orthonormal rows of B and columns Q of A^T, explains n^2 tr (Q^T V Q)^{-1} for each row
    of B: by interlacing at most the sum of the a largest eigenvalues rho_j of n^2 V^{-1}.  B has d - a rows; for skip
    heads it is the identity.
(5) SkipV1Former's weights cancel the even part for every S, so they need no change but the step: lambda, or one for
    each direction that A reads (`non_gaussian_skipv1_weights`).  At a = d, A = I, K^1 = K^2 = n V^{-1}, W^2 = I and
    W^1 = -I / 2 do for any C; at a < d see step (8) of `theory.skipv1.general`.
(6) MHA's weights, with those steps, leave beta^{-2} E ||S_21 diag(rho_j / n)||^2, S_21 the lower-left block of S_xx:
    its entries have E (S_21)_ij^2 = n E x_i^2 x_j^2, which is n for independent entries, as before.
(7) Non-attainment needs (i) for all symmetric S and (ii) for all symmetric Z, from P_even = 0.  Let W* have a density;
    then (ii) follows, as W S W^T over an open set of W spans the symmetric matrices for every S >= 0 but 0.  But (i)
    follows only for S in the span X of all x x^T that occur.  If X is all symmetric matrices, MHA attains its infimum
    for no 0 < a < d, as before (step (10) of `theory.skipv1.general`).
    *Independent entries.*  X is everything if and only if at most one entry is a sign (+-1 with equal probability).
    For let x^T M x = 0 for all x that occur.  An entry may take three values or more; then 1, x_i and x_i^2 are
    independent functions.  Or two, p and -1/p; then x_i^2 = 1 + (p - 1/p) x_i, without a second term for signs alone.
    So M_ij = 0 for i != j, M_ii = 0 for all entries but signs, and of those only sum M_ii = 0 is known.
    *Signs.*  X is the matrices with a constant diagonal, and for 0 < a < d MHA attains its infimum if and only if
    a = d - 1 >= 2, with d - 1 heads.
    If d - a >= 2, the witness S of step (7) can be taken from X.  For A_1 singular, and for A_2 = 0, it is in X, with
    diagonal zero.  Else S_12 = A_1^{-1} A_2 T, S_22 = -(T + T^T) does for any T, and if T has a zero diagonal S is in
    X; A_2 has a column k != 0, and T with a single entry, in row k and another column, makes S_12 != 0.
    If d = 2, a = 1: by (ii) Phi(diag(0, 1)) = 0; by (i) for S = I, then, Phi(diag(1, 0)) = 0; and by (i) for
    S = (0 1 ; 1 0) Phi(S) = 0, against injectivity.
    If a = d - 1 >= 2, let A = (D 1), D = diag(1, -1, ..., -1), its last column all ones.  Of G = S + diag(A S A^T, 0)
    with S in X of diagonal c and last row (s_1, ..., s_a, c),
        G_11 = 3 c + 2 s_1,     G_jj = 3 c - 2 s_j,     G_1j = s_1 - s_j + c                        (1 < j <= a),
    as S_1j cancels in G_1j.  So 4 c = G_11 + G_22 - 2 G_12 and all s_j are linear functions of the upper left block,
    which is even.  Above the corner the last column of G is s + (B S_yx A^T)^T; heads that read rows 1 to a can take s
    away, and P is odd (`signs_mha_weights`).

Which x is best?  c_1 + ... + c_d = E |x|^4 >= (E |x|^2)^2 = d^2, so kappa >= -2 where C = (d + 2 + kappa) I, with
equality if and only if |x|^2 = d always: for signs, or on that sphere.  Then rho = n / (n + d - 1 + sigma^2), and no
law of x at all explains more at a = d:
    sum_j rho_j <= d n / (n + d - 1 + sigma^2).
For let h = n - 1 + sigma^2, write x = sqrt(r) u with |u| = 1, and let E' be E reweighted by r / d.  Then
E' u u^T = I / d, E' 1/r <= 1/d and C = d E'[r u u^T], so h I + C = E' p p^T with p = sqrt(d (h + r)) u.  With
q = sqrt(d / (h + r)) u, E' p q^T = I, whence E' q q^T >= (h I + C)^{-1} (Schur complement), and
tr (h I + C)^{-1} <= d E' v / (1 + h v), v = 1/r, which by concavity (Jensen) is at most d / (d + h).
At a < d only the a least c_j count, and unequal ones can do better.  There is no worst law: rho falls to zero as kappa
grows.                                                                                                          QED
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from theory.errors import BadInput, InvalidSize, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number, zero_loss
from theory.skipv1.gap import Gaps, gaps
from theory.toy.population import Weights


def fourth_moments(kurtosis: Sequence[Number]) -> tuple[Any, ...]:
    """Return c_j = d + 2 + kappa_j, the eigenvalues of E[|x|^2 x x^T] for independent entries.

    Raises BadInput below -2, and for what is not finite.
    """
    if not all(-2 <= k < inf for k in kurtosis):
        raise BadInput("an excess kurtosis is finite, and at least -2")
    return tuple(len(kurtosis) + 2 + k for k in kurtosis)


def signal_shares(fourth: Sequence[Number], n: int, sigma: Number) -> tuple[Any, ...]:
    """Return rho_j = n / (n - 1 + c_j + sigma^2), the explained share of an entry of W*, in the order of c_j = fourth.

    Raises InvalidSize, and BadInput where no x with E x x^T = I has such moments.
    """
    d = len(fourth)
    check_sizes(d, n, sigma)
    if not all(c > 0 for c in fourth) or sum(fourth) < d**2 * (1 - 4 * d * np.finfo(np.float64).eps):
        raise BadInput(f"the eigenvalues of E[|x|^2 x x^T] are positive, and their sum, E |x|^4, is at least {d**2}")
    return tuple(n / (n - 1 + c + sigma**2) for c in fourth)


def non_gaussian_mha_explained(fourth: Sequence[Number], n: int, sigma: Number, rank: int) -> Any:
    """Return (d - a) sum_{j <= a} rho_j, by which the best two-layer MHA beats predicting zero.

    Raises as `signal_shares`.
    """
    check_sizes(len(fourth), n, sigma, rank)
    return (len(fourth) - rank) * _sum_of_largest(signal_shares(fourth, n, sigma), rank)


def non_gaussian_skipv1_explained(fourth: Sequence[Number], n: int, sigma: Number, rank: int) -> Any:
    """Return d sum_{j <= a} rho_j, by which the best SkipV1Former beats predicting zero.

    Raises as `signal_shares`.
    """
    check_sizes(len(fourth), n, sigma, rank)
    return len(fourth) * _sum_of_largest(signal_shares(fourth, n, sigma), rank)


def _sum_of_largest(shares: Sequence[Any], rank: int) -> Any:
    return sum(sorted(shares, reverse=True)[:rank])


def largest_explained(d: int, n: int, sigma: Number) -> Any:
    """Return d^2 n / (n + d - 1 + sigma^2), the most that SkipV1Former explains over all laws of x.

    It is attained for |x|^2 = d.
    """
    check_sizes(d, n, sigma)
    return d**2 * (n / (n + d - 1 + sigma**2))


def non_gaussian_loss_gap(fourth: Sequence[Number], n: int, sigma: Number, rank: int) -> Gaps:
    """Return the theorem's five numbers, exact if sigma and the moments are.  Raises as `signal_shares`."""
    d = len(fourth)
    return gaps(
        zero_loss(d, n, sigma),
        mha=non_gaussian_mha_explained(fourth, n, sigma, rank),
        skipv1=non_gaussian_skipv1_explained(fourth, n, sigma, rank),
        best_mha=max(non_gaussian_mha_explained(fourth, n, sigma, a) for a in range(d + 1)),
        best_skipv1=non_gaussian_skipv1_explained(fourth, n, sigma, d),
    )


def non_gaussian_skipv1_weights(kurtosis: Sequence[Number], n: int, sigma: Number, rank: int) -> Weights:
    """Return weights of the heads `theory.plans.heads.SKIPV1` that attain min L_skipv1(rank).  Step (5).

    Entries of x are independent.  A reads the first ones: at a rank between 0 and d they must be those of least
    kurtosis.  Raises BadInput if they are not, and as `signal_shares`.
    """
    steps, eye = _steps(kurtosis, n, sigma, rank)
    keep, key = eye[:rank], eye[:, :rank] * steps
    cancel = -eye / (1 + keep.T @ keep).diagonal()
    return Weights(a=keep, b=0 * eye[rank:], w=np.stack([cancel, eye]), k=np.stack([key, key]))


def non_gaussian_mha_weights(kurtosis: Sequence[Number], n: int, sigma: Number, rank: int, beta: Number) -> Weights:
    """Return one ordinary head with loss inf L_mha(rank) + `non_gaussian_mha_excess`, beta being the size of B.

    Step (6).  Raises as `non_gaussian_skipv1_weights`.
    """
    steps, eye = _steps(kurtosis, n, sigma, rank)
    lower = eye[:, rank:] @ eye[rank:]
    return Weights(a=eye[:rank], b=beta * eye[rank:], w=(lower / beta)[None], k=(eye[:, :rank] * steps)[None])


def non_gaussian_mha_excess(kurtosis: Sequence[Number], n: int, sigma: Number, rank: int, beta: Number) -> Any:
    """Return n (d - a) sum_{j <= a} (rho_j / n)^2 / beta^2.

    By this much `non_gaussian_mha_weights` stays above the infimum.
    """
    steps, eye = _steps(kurtosis, n, sigma, rank)
    return n * (len(eye) - rank) * (steps**2).sum() / beta**2


def signs_mha_weights(d: int, n: int, sigma: Number) -> Weights:
    """Return d - 1 ordinary heads that attain MHA's infimum at rank d - 1 >= 2 where the entries of x are signs.

    Step (7).  Head i reads row i of G, and its column l adds to entry l of B S_yx A^T.  Raises InvalidSize for d < 3.
    """
    check_sizes(d, n, sigma)
    if d < 3:
        raise InvalidSize(f"for signs MHA attains its infimum from d = 3 on, got {d}")
    rank = d - 1
    steps, eye = _steps((-2,) * d, n, sigma, rank)
    flips, at = 2 * eye[0, :rank] - 1, np.arange(rank)
    k = 0 * np.broadcast_to(eye[:, :rank], (rank, d, rank))
    k[at, rank, at] += 1  # s_l + (B S_yx A^T)_l, less s_l = flips_l (G_ll - 3 c) / 2, 4 c = G_11 + G_22 - 2 G_12
    k[at, at, at] -= flips / 2
    k[0, 0] += 3 * flips / 8
    k[1, 1] += 3 * flips / 8
    k[0, 1] -= 3 * flips / 4
    inverse = eye[:rank, :rank] - eye[0, 0] / d  # of A A^T, the identity plus a matrix of ones
    return Weights(
        a=np.concatenate([eye[:rank, :rank] * flips, 1 + 0 * flips[:, None]], axis=1),
        b=eye[rank:],
        w=np.stack([steps[0] * np.outer(eye[rank], eye[i]) for i in range(rank)]),
        k=k @ inverse,
    )


def _steps(kurtosis: Sequence[Number], n: int, sigma: Number, rank: int) -> tuple[Array, Array]:
    """Return rho_j / n of the first entries (rank,), and the identity (d, d) in the same numbers."""
    d = len(kurtosis)
    check_sizes(d, n, sigma, rank)
    if 0 < rank < d and max(kurtosis[:rank]) > min(kurtosis[rank:]):
        raise BadInput(f"the first {rank} entries must be those of least kurtosis")
    shares = np.array(signal_shares(fourth_moments(kurtosis), n, sigma))
    eye = np.eye(d, dtype=shares.dtype)
    return shares[:rank] / n, eye * Fraction(1) if eye.dtype.hasobject else eye
