"""The loss gap of SkipV1Former for any covariance of the inputs and any separable prior, at W0 = 0.

Setting.  The theorem of `theory.skipv1.gap` is extended beyond isotropy: x ~ N(0, Sigma) and W* ~ N(0, .) with
Cov(W*_ij, W*_kl) = Psi_ik Gamma_jl.  All else is as there.
The loss is E ||y_{n+1} - P x_{n+1}||^2 = E ||(P - W*) Sigma^{1/2}||^2 + d sigma^2, and L_0 = tr(Psi) t + d sigma^2
that of predicting zero.  Let G = Sigma^{1/2} Gamma Sigma^{1/2}; psi_1 >= psi_2 >= ... and g_1 >= g_2 >= ... the
eigenvalues of Psi and G; t = tr G; and, for the mode (i, j) of W*, that is output direction i and input direction j,

    m(psi, g) = psi g / ((n + 1) psi g + psi t + sigma^2),     f(psi, g) = n psi g m(psi, g)          (0 at psi g = 0),

m_ij and f_ij their values at (psi_i, g_j).  f increases in psi and in g.  (Isotropy: m = lambda, f = rho.)

Theorem.  For every 0 <= a <= d, whatever the number of heads,
    inf L_mha(a)    = L_0 - sum_{i <= d-a, j <= a} f_ij         which is approached with r_mha ordinary heads,
    inf L_skipv1(a) = L_0 - sum_{i <= d, j <= a} f_ij           which is approached with r_skip skip heads,
where r is the rank of the matrix (m_ij) over the i and j of the sum, but at least one: 1 if sigma = 0, else the
smaller of the numbers of distinct positive psi_i and g_j.  So one head is enough if Psi or G is a multiple of I.
If Sigma is regular, SkipV1Former attains its infimum with r_skip heads of either kind at a = d, and at a < d where the
first a columns of Q^T Sigma^{-1/2} are regular, Q: d x a eigenvectors of the a largest g_j; with fewer than r_skip skip
heads its infimum at a = d is higher.  If Sigma, Psi and Gamma are regular, MHA attains its infimum for no 0 < a < d.

Proof.
(1) Parity.  Step (1) of `theory.skipv1.gap` needs nothing but the sign flip of (W*, noise): the loss is that of P_odd,
    and E ||P_even Sigma^{1/2}||^2 more.  P_odd is a linear function of B S_yx A^T for ordinary heads, of S_yx A^T else.
(2) Whitening.  Let Sigma, Psi and Gamma be regular; (7) has the rest.  With S' = Sigma^{-1/2} S_xx Sigma^{-1/2},
    W' = W* Sigma^{1/2} and Z' = S_yx Sigma^{-1/2} = W' S' + noise X'^T, X' standard normal, E S' = n I and
        H = E[S' G S'] = n (n + 1) G + n t I,
        Cov(W') = Psi (x) G,     Cov(Z') = Psi (x) H + n sigma^2 I (x) I,     Cov(W', Z') = n Psi (x) G,
    and B S_yx A^T = B Z' V with V = Sigma^{1/2} A^T.
(3) What is explained.  The best linear function of B Z' V leaves E ||W'||^2 - e(B, V),
        e(B, V) = n^2 tr[(B Psi^2 B^T (x) V^T G^2 V) (B Psi B^T (x) V^T H V + n sigma^2 B B^T (x) V^T V)^{-1}].
    Only the row space of B and the column space of V matter, and larger spaces explain no less: let V have a
    orthonormal columns, and B, if it is there, d - a independent rows.
(4) One psi.  Let M = psi H + n sigma^2.  For e_psi(V) = n^2 psi^2 tr[V^T G^2 V (V^T M V)^{-1}], let Pi project on the
    columns of M^{1/2} V; then e_psi(V) = n^2 psi^2 tr(Pi M^{-1/2} G^2 M^{-1/2}) is at most the sum of the a largest
    eigenvalues of n^2 psi^2 G M^{-1} G (Ky Fan).  G and M commute, so they are f(psi, g_1), ..., f(psi, g_a); V = Q
    reaches them for every psi at once.
(5) Skip heads: B = I.  In the eigenbasis of Psi, e(I, V) = sum_i e_psi_i(V) <= sum_{i <= d, j <= a} f_ij.
(6) Ordinary heads.  Write B = Q_B^T Psi^{-1/2}; its row space is as before if Q_B has orthonormal columns.  Then
    B Psi B^T = I and B Psi^2 B^T = Q_B^T Psi Q_B = P_B, say, and B B^T = Q_B^T Psi^{-1} Q_B >= P_B^{-1} as matrices
    (the inverse is operator convex).  The trace in e(B, V) does not fall if B B^T is replaced by P_B^{-1}, and with
    q_1 >= q_2 >= ... the eigenvalues of P_B it is then sum_i n^2 q_i tr[V^T G^2 V (V^T H V + n sigma^2 / q_i)^{-1}]
    = sum_{i <= d-a} e_{q_i}(V) <= sum_{i <= d-a, j <= a} f(q_i, g_j).  As P_B is a compression of Psi, q_i <= psi_i
    (Cauchy), and f increases in psi.
(7) Singular covariances.  At given weights the loss is a polynomial in Sigma, Psi and Gamma, and the f_ij are
    continuous, so the bounds pass to the limit.
(8) Reaching the bounds (`general_weights`).  We need
        P_odd = sum_h U diag(w^h) U^T Z' Q diag(k^h) Q^T Sigma^{-1/2},       sum_h w^h_i k^h_j = m_ij, r products,
    U the eigenvectors of the psi_i in the sum.  A skip head gives one product with A = beta Q^T Sigma^{-1/2}, B = 0,
    and leaves an even part of the order 1 / beta; so does an ordinary head, with B = beta U^T.  Where A's first a
    columns can be made I, K^h = A^T T_h makes the even part of a skip head W^h S_xx A^T T_h A, and an ordinary head
    with the same K^h adds W (I + (A ; 0)) S_xx A^T T_h A: W = -W^h (I + (A ; 0))^{-1} cancels it, I + (A ; 0) being
    block triangular with diagonal 2 I and I.  That needs A = R Q^T Sigma^{-1/2} with R the inverse of the first a
    columns of Q^T Sigma^{-1/2}; at a = d any basis of R^d will do, so A = I.
(9) r.  m_ij = g_j / ((n + 1) g_j + t + sigma^2 / psi_i) is a column factor times a Cauchy matrix in
    (n + 1) g_j + t and sigma^2 / psi_i, which is regular for distinct ones; at sigma = 0 it does not depend on i.
    At a = d the best P_odd is one linear map of Z' (Cov(Z') is regular), and h skip heads give the maps that are sums
    of h products: a closed set, on which the loss is coercive, without that map for h < r.  (B has no rows there, so
    ordinary heads have no odd part.)
(10) MHA does not attain it.  Equality needs rank A = a and rank B = d - a, as every f_ij > 0; a vanishing even part;
    and P_odd the best linear function of B Z' V, an injective one since Cov(W', B Z' V) = n Psi B^T (x) G V has full
    column rank.  Step (7) of `theory.skipv1.gap` then derives a contradiction, as there.                            QED

Where r > 1 a single skip head loses something (in a search over spectra at most 0.4 % of the explained signal at d = 2,
and 1.7 % at d = 4), but at a = d it is no worse than `preconditioned.preconditioned`, which it attains.  Of the law of
x the proof uses H only, its commuting with G and the order of its modes: `theory.skipv1.non_gaussian` continues from
there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.errors import BadInput, check_sizes
from theory.prompts.moments import Array, PromptMoments
from theory.skipv1.gap import Gaps, gaps


@dataclass(frozen=True, eq=False)
class Modes:
    """The eigenvalues psi and g, decreasing, with eigenvectors as columns (of Psi, and of G in whitened inputs).

    All are float64.  whiten is Sigma^{-1/2}, on the range of Sigma; multipliers m_ij and explained f_ij, both (d, d),
    outputs first.
    """

    psi: Array
    g: Array
    of_outputs: Array
    of_inputs: Array
    whiten: Array
    multipliers: Array
    explained: Array


def modes(moments: PromptMoments) -> Modes:
    """Return the modes of a task.  Raises BadInput unless W0 = 0 and x is normal."""
    if moments.w0.any():
        raise BadInput("the general theorem is about W0 = 0")
    if moments.kurtosis is not None:
        raise BadInput("the general theorem is about normal inputs; see theory.skipv1.non_gaussian for others")
    covariance, rows, columns = (
        m.astype(np.float64) for m in (moments.covariance, moments.prior_rows, moments.prior_columns)
    )
    values, vectors = np.linalg.eigh(covariance)
    positive = values > len(values) * np.finfo(np.float64).eps * values[-1]
    root = np.sqrt(np.where(positive, values, 0.0))
    whiten = np.divide(1.0, root, out=np.zeros_like(root), where=positive)
    root, whiten = (vectors * root) @ vectors.T, (vectors * whiten) @ vectors.T
    psi, of_outputs = _decreasing(rows)
    g, of_inputs = _decreasing(root @ columns @ root)
    n, noise = float(moments.n), float(moments.sigma) ** 2
    signal = np.outer(psi, g)
    weight = (n + 1) * signal + psi[:, None] * g.sum() + noise
    multipliers = np.divide(signal, weight, out=np.zeros_like(signal), where=signal > 0)
    return Modes(
        psi,
        g,
        of_outputs,
        of_inputs=of_inputs,
        whiten=whiten,
        multipliers=multipliers,
        explained=n * signal * multipliers,
    )


def _decreasing(matrix: Array) -> tuple[Array, Array]:
    """Return the eigenvalues, those below rounding as zero, and eigenvectors of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    least = len(values) * np.finfo(np.float64).eps * values[-1]
    return np.where(values > least, values, 0.0)[::-1], vectors[:, ::-1]


def general_mha_explained(moments: PromptMoments, rank: int) -> float:
    """Return how much loss the best two-layer MHA saves against predicting zero.

    Raises InvalidSize, and as `modes`.
    """
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    return _of_mha(modes(moments), rank)


def general_skipv1_explained(moments: PromptMoments, rank: int) -> float:
    """Return how much loss SkipV1Former with enough heads saves against predicting zero.

    Raises InvalidSize, and as `modes`.
    """
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    return _of_skipv1(modes(moments), rank)


def general_loss_gap(moments: PromptMoments, rank: int) -> Gaps:
    """Return the theorem's five numbers.  Raises InvalidSize for impossible ranks, and as `modes`."""
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    of, d = modes(moments), moments.d
    return gaps(
        float(moments.zero_loss),
        mha=_of_mha(of, rank),
        skipv1=_of_skipv1(of, rank),
        best_mha=max(_of_mha(of, a) for a in range(d + 1)),
        best_skipv1=_of_skipv1(of, d),
    )


def _of_mha(of: Modes, rank: int) -> float:
    return float(of.explained[: len(of.psi) - rank, :rank].sum())


def _of_skipv1(of: Modes, rank: int) -> float:
    return float(of.explained[:, :rank].sum())


def skip_heads_needed(moments: PromptMoments, rank: int) -> int:
    """Return r_skip, the number of skip heads that approach the infimum.

    Eigenvalues that are equal to rounding count as equal.
    """
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    return _products(modes(moments), moments.d, rank, noise=bool(moments.sigma))


def mha_heads_needed(moments: PromptMoments, rank: int) -> int:
    """Return r_mha, the number of ordinary heads that approach the infimum of MHA."""
    check_sizes(moments.d, moments.n, moments.sigma, rank)
    return _products(modes(moments), moments.d - rank, rank, noise=bool(moments.sigma))


def _products(of: Modes, outputs: int, inputs: int, *, noise: bool) -> int:
    distinct = min(_distinct(of.psi[:outputs]), _distinct(of.g[:inputs])) if noise else 1
    return max(1, distinct)


def _distinct(values: Array) -> int:
    """Return how many different positive numbers there are among decreasing ones, to rounding."""
    positive = values[values > 0]
    if not positive.size:
        return 0
    return 1 + int((-np.diff(positive) > 8 * len(values) * np.finfo(np.float64).eps * positive[0]).sum())
