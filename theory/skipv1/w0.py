"""SkipV1Former's loss gap around any W0, with enough heads: true, and by a constant that does not depend on W0.

Setting of `theory.skipv1.gap`, with W* ~ N(W0, I_{d^2}).  Write D = W* - W0, eta_t = D x_t + noise_t, S = sum x x^T,
Z = sum eta x^T, Y = sum eta eta^T; lambda, rho as there; Pi for the projection on the row space of A and s_1 >= s_2 >=
... for the singular values of W0.  All P = sum_h W^h G^h K^h A satisfy P = P Pi.

*Enough heads* means that sum_h W^h G^h K^h A may be P = F(G) A with F any linear map from d x d to d x a matrices.
F maps entry (p, q) to entry (i, l); as a matrix from (q, l) to (i, p) it has rank at most d a, so it is a sum of that
many products: d a heads of a kind are enough of it.

Theorem 1 (the gap).  Let SkipV1Former have enough heads of both kinds, d a each, and MHA any number.  For every W0, n,
sigma and every rank a,   inf L_skipv1(a) <= inf L_mha(a) - rho a^2,   and between the optima over a the gap is at
least rho, whatever W0.  With 2 d^2 heads, half of them skip heads, this holds at all ranks at once.  (Fewer do where no
singular value of W0 is much larger than another: `theory.skipv1.w0_composition`.)
Proof.
(1) Flipping the sign of (D, noise) keeps the law of the prompt; S and Y are even, Z and D odd.  So
        E||P - W*||^2 = E||P_odd - D||^2 + E||P_even - W0||^2,
    and P_odd = T(Z) is linear in Z, whose entries are uncorrelated with variance v = n/lambda and E[Z_ij D_kl] =
    n [i=k][j=l] as at W0 = 0:     E||T(Z) - D||^2 = d^2 (1 - rho) + v ||T - lambda I||^2.
(2) In an ordinary head, u = (A x ; B W0 x + B eta), so MHA sees Z through B Z (A^T, W0^T B^T) only.  Let A have rank
    a.  Split T by its argument, T(Z) = T_1(Z Pi) + T_2(Z (I - Pi)); then ||T - lambda I||^2 =
    ||T_1 - lambda I||^2 + ||T_2 - lambda I||^2, and T_1(Z Pi) depends on B Z Pi.  It vanishes where the columns of Z Pi
    lie in the kernel of B, a space of dimension at least a^2, so ||T_1 - lambda I||^2 >= lambda^2 a^2.
(3) Take weights of MHA with A of rank a, and with A and B *generic*, that is, outside the zeros of a polynomial, as (4)
    needs.  They come as near to the infimum as any, since the loss is continuous.  Keep P and add Delta(Z A^T), Delta
    linear, so chosen that T_1 becomes Z Pi -> lambda Z Pi: possible, as Z Pi is a function of Z A^T and the rows of the
    change are in those of A.  As A = A Pi, neither T_2 nor the even part changes, and the loss falls by
    v ||T_1 - lambda I||^2 >= rho a^2, as v lambda^2 = rho.
(4) SkipV1Former can add it.  The first a columns of the skip head's G are S_1 + (W0 S + Z) A^T, S_1 those of S.  So
    Delta of them is Delta(Z A^T) and a linear map of S, which can be taken off again, because every entry of S is a
    linear function of the two G's: (lower d - a rows of G_ordinary) - B G_skip = ([0 I] - B) S, and the upper left
    block of G_ordinary is S_11 + A S A^T.  If both are zero for some S, then S = U s U^T with U a basis of the kernel
    of [0 I] - B and F s F^T + K s K^T = 0, F = [I 0] U, K = A U.  For A = [I 0], B = [0 2I] this says 2 s = 0; so it
    forces s = 0 for all A and B outside the zeros of a polynomial that is not zero.
(5) Between the optima: MHA's best rank can be taken to be at least 1 (W = 0 gives at rank 1 what rank 0 gives).    QED

Theorem 2 (floors).  For k >= 0 let
    tau_k = 2 / (2 + n d + k n sigma^4 / (d (n + d + 1) + 2 d sigma^2 + sigma^4)),
    E_k(a) = sum_{j > a} s_j^2 + tau_k sum_{j <= a} s_j^2.
With any number of heads,
    L_mha(a)    >= d sigma^2 + d^2 - rho a (d - a) + E_{d-a}(a),
    L_skipv1(a) >= d sigma^2 + d^2 - rho a d       + E_{d-a}(a).
With enough heads SkipV1Former attains d sigma^2 + d^2 - rho a d + E_k(a), k = min(d - a, d - (rank W0 - a)_+): its
floor if sigma = 0, or a = 0, or rank W0 <= 2a (so if 2a >= d); else its infimum is above its floor.
If W0 = diag(s_1, ..., s_d), as for W0 = c I, MHA with enough heads comes as near as one likes to
d sigma^2 + d^2 - rho a (d - a) + E_k(a), the same k.  Then the gap at equal rank is just rho a^2, if sigma = 0 or
rank W0 <= 2a.
Proof.  The odd part: T maps into the matrices with rows in those of A and depends, in MHA, on Q_B Z only, Q_B the
projection on the row space of B.  So <T, I> is <T, J> for J: Z -> Q_B Z Pi, in SkipV1Former Z -> Z Pi, a projection of
rank r = a (d - a) at most, or a d; and ||T - lambda I||^2 >= lambda^2 (d^2 - r), by Cauchy.
    The even part is a linear function of S and of Y seen through B (as B Y B^T in MHA, Y B^T in SkipV1Former), with
rows in those of A: E||P_even - W0||^2 = ||W0 (I - Pi)||^2 + E||P_even - W0 Pi||^2.  The law of (S, Y) does not change
under S -> O S O^T (turn x, and D back), nor under Y -> Q Y Q^T (turn D and the noise), and the second term is convex in
the map; averaging over all O, and all Q that commute with Q_B, leaves tr(S) C_1 + tr(Q_B Y) C_2 with constant C_1 and
C_2, of which only the parts along W0 Pi help: (alpha tr S + beta tr(Q_B Y)) W0 Pi.  So the second term is at
least ||W0 Pi||^2 min E(alpha s_1 + beta s_2 - 1)^2 with s_1 = tr S, s_2 = tr(Q_B Y), k = rank B.
Given X, the rows of eta seen through Q_B are k independent N(0, X^T X + sigma^2 I), so s_2 - k s_1 has mean
k n sigma^2 whatever X, and is uncorrelated with s_1:
    E s_1 = n d,  var s_1 = 2 n d,      var(s_2 - k s_1) = 2 k [n d (n + d + 1) + 2 sigma^2 n d + n sigma^4].
Two uncorrelated statistics with means m_i and variances v_i estimate 1 with error 1/(1 + sum m_i^2/v_i) = tau_k.  And
||W0 (I - Pi)||^2 + tau ||W0 Pi||^2 is least, as tau <= 1, where Pi takes the a largest singular values.  As tau_k falls
with k and k <= d - a, the floors follow.
    Attained: row spaces of A and B being given, scale B down until F of (4) is invertible; then all but finitely many
scales of A make all entries of S, and so of Z A^T, available: P_odd = lambda Z Pi and alpha tr(S) W0 Pi can be had.
tr(Q_B Y) comes from y y^T B^T with the odd companion 2 tr(Q_B W0 Z^T), of which what lies in Z Pi can be taken off; the
rest vanishes if Q_B W0 (I - Pi) = 0.  With Pi on the first a right singular vectors that says: Q_B is orthogonal to the
left singular vectors a + 1, ..., rank W0, which leaves room for rank B = k as stated.
    Not attained: let sigma > 0, a > 0 and rank W0 > 2a.  All P of SkipV1Former are such that, for some Pi of rank a and
some Q of rank at most d - a, the rows lie in Pi, the part in Y is M(Y) with M(Y) = 0 where Y Q = 0, and P_odd minus
M(W0 Z^T + Z W0^T) vanishes where Z Pi = 0.  The set of all such P obeys the floor, and it is closed, since Pi and Q
range over a compact one; so an infimum equal to the floor would be the loss of one of them.  Then all of the above
holds with equality: W0 (I - Pi) has rank (rank W0) - a, Q has rank d - a, M(Y) = beta tr(Q Y) W0 Pi with beta != 0 (the
loss is strictly convex in the map) and P_odd = lambda Z Pi.  Hence tr(Q W0 Z^T) vanishes where Z Pi = 0, which says
Q W0 (I - Pi) = 0, and for that there is no room.
    MHA: let A = alpha (I 0) and let row i = 1, ..., d - a of B be
        beta e_{a+i} if a + i > rank W0,    else beta e_i if i <= a,    else -e_{a+i} / (alpha s_{a+i});
the first two kinds, indices j, are k rows.  Then G_11 = (1 + alpha^2) S_11, and rows of G_21 with the first a columns
Z_j', S_j' of those of Z, S are alpha beta (Z_j' + s_j S_j') + S_{a+i}', where s_j = 0 or S_j' is in S_11, and, of the
third kind, -Z_{a+i}' / s_{a+i}, S cancelled.  So as alpha beta grows Q_B Z Pi can be had.  The trace of the last block
is that of S_22 and beta^2 sum_j (s_j^2 S_jj + 2 s_j Z_jj + Y_jj), the first two known, and terms of order alpha^{-2}.
So tr S + beta^2 sum_j Y_jj can be had in the limit, with the best beta.  (If sigma = 0, Y is of no use: leave the
second kind out and let beta fall with alpha.)                                                                      QED

For other W0 the frame counts, as A x stands in the first a places whatever A: at d = 2 minimisation with enough heads
(`theory.toy.enough_heads`) still ends on MHA's floor, at d = 3 on it or up to 1 % above; what the infimum is there is
open. Where rank W0 > 2a and sigma > 0 the infima lie between E_{d-a} and E_k: at d = 3, n = 4, sigma = 1.5, W0 = 3 I,
a = 1 both models' strictly, with a gap of rho a^2 as far as minimisation can tell.

Theorem 3 (two heads, W0 small or n large).  With A = I, one ordinary and one skip head give P = mu S_yx for any mu, so
    min L_skipv1 <= d sigma^2 + (1 - rho)(d^2 + w^2),        w = ||W0||_F;
so they beat MHA with any number of heads if (1 - rho) w^2 < rho (d^2 - floor(d^2/4)), which is
    w^2 < n (d^2 - floor(d^2/4)) / (d + 1 + sigma^2):  for small W0, and for every fixed W0 once n is large.
As n grows, min L_skipv1 -> d sigma^2 and inf L_mha -> d sigma^2 + min_a [d^2 - a (d - a) + sum_{j > a} s_j^2], both
from above.
Proof.  The skip head gives mu (S + S_yx), the ordinary one W (S + S): W = -mu/2 I.  E||mu S_yx - W*||^2 =
(d^2 + w^2)(1 - 2 mu n + mu^2 n (n + d + 1)) + mu^2 sigma^2 n d^2, at mu = lambda at most (d^2 + w^2)(1 - rho).  MHA's
floor is at least d sigma^2 + d^2 - rho floor(d^2/4).  The limit: the floors are at least their own limits, as rho < 1
and tau_k > 0.  As S_xx/n -> I and S_yx/n -> W* in mean square, one ordinary head with K = (K_1 ; 0) reads the constant
I + A A^T above and B W* A^T below, from which it makes (W0 + Q_B D) Pi in the limit.                               QED
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from theory.errors import BadInput, InvalidSize, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number, signal_share, zero_loss


def constant_share(d: int, n: int, sigma: Number, visible: int) -> Any:
    """Return tau_k of Theorem 2, the share of ||W0||^2 that is lost at best if Y is seen through k = `visible` rows.

    Exact if sigma is a Fraction.
    """
    check_sizes(d, n, sigma, visible)
    return 2 / (2 + n * d + visible * n * sigma**4 / spread(d, n, sigma))


def mha_floor(d: int, n: int, sigma: Number, squares: Sequence[Number], rank: int) -> Any:
    """Return Theorem 2's lower bound on MHA's loss at `rank`, any number of heads.

    squares: the d squared singular values of W0.  Raises InvalidSize.
    """
    return _floor(d, n, sigma, squares=squares, rank=rank, rows=d - rank, visible=d - rank)


def skipv1_floor(d: int, n: int, sigma: Number, squares: Sequence[Number], rank: int) -> Any:
    """Return Theorem 2's lower bound on SkipV1Former's loss at `rank`, any number of heads.

    Raises InvalidSize.
    """
    return _floor(d, n, sigma, squares=squares, rank=rank, rows=d, visible=d - rank)


def skipv1_enough_heads_loss(d: int, n: int, sigma: Number, squares: Sequence[Number], rank: int) -> Any:
    """Return the loss that SkipV1Former attains with enough heads by Theorem 2; its floor wherever they are equal.

    squares: the d squared singular values of W0; W0's rank, which counts here, is read off them: see `_rank`.
    """
    return _floor(d, n, sigma, squares=squares, rank=rank, rows=d, visible=_visible_rows(d, squares, rank))


def mha_enough_heads_loss(d: int, n: int, sigma: Number, squares: Sequence[Number], rank: int) -> Any:
    """Return the loss that MHA approaches with enough heads by Theorem 2.

    W0 = diag(s_1, ..., s_d), s_1 >= s_2 >= ...
    """
    return _floor(d, n, sigma, squares=squares, rank=rank, rows=d - rank, visible=_visible_rows(d, squares, rank))


def mha_compressions(
    d: int, n: int, sigma: float, singular: Sequence[float], rank: int, alpha: float
) -> tuple[Array, Array]:
    """Return A (rank, d) and B (d - rank, d) at which ordinary heads approach `mha_enough_heads_loss` as alpha grows.

    Theorem 2, last step.  singular: s_1 >= s_2 >= ..., the diagonal of W0.
    """
    check_sizes(d, n, sigma, rank)
    squares, eye = [s**2 for s in singular], np.eye(d)
    of_w0, visible = _rank(squares), _visible_rows(d, squares, rank)
    beta = (sigma**2 / (spread(d, n, sigma) - visible * sigma**2)) ** 0.5 if sigma else alpha ** (-1 / 3)
    b = beta * eye[rank:]
    for i in range(max(of_w0 - rank, 0)):
        b[i] = beta * eye[i] if sigma and i < rank else -eye[rank + i] / (alpha * singular[rank + i])
    return alpha * eye[:rank], b


def two_heads_loss(d: int, n: int, sigma: Number, power: Number) -> Any:
    """Return Theorem 3's d sigma^2 + min over mu of E||mu S_yx - W*||^2, from one ordinary and one skip head.

    power: w^2.
    """
    check_sizes(d, n, sigma)
    signal = d**2 + power
    return d * sigma**2 + signal * (1 - signal * n / (signal * (n + d + 1) + sigma**2 * d**2))


def small_power(d: int, n: int, sigma: Number) -> Any:
    """Return Theorem 3's w^2 below which SkipV1Former with two heads beats MHA with any number of them."""
    check_sizes(d, n, sigma)
    return n * (d**2 - d**2 // 4) / (d + 1 + sigma**2)


def spread(d: int, n: int, sigma: Number) -> Any:
    """Return var(s_2 - k s_1) / (2 k n) of Theorem 2."""
    return d * (n + d + 1) + 2 * d * sigma**2 + sigma**4


def _visible_rows(d: int, squares: Sequence[Number], rank: int) -> int:
    return min(d - rank, d - max(_rank(squares) - rank, 0))


def _rank(squares: Sequence[Number]) -> int:
    """Return how many of the squared singular values of W0 are not zero.

    Floats count as zero up to d times the largest's rounding.  That is the error of an eigenvalue of W0 W0^T, and more
    than that of a singular value squared.  To take so small a singular value for zero moves the infimum by as little,
    as it is continuous in W0; to count it would not.
    """
    floats = [type(x) for x in squares if isinstance(x, float | np.floating)]
    rounding = len(squares) * max(np.finfo(kind).eps for kind in floats) * max(squares) if floats else 0
    return sum(bool(x > rounding) for x in squares)


def _floor(d: int, n: int, sigma: Number, squares: Sequence[Number], rank: int, rows: int, visible: int) -> Any:
    check_sizes(d, n, sigma, rank)
    if len(squares) != d:
        raise InvalidSize(f"W0 has d = {d} squared singular values, got {len(squares)}")
    if not all(-inf < s < inf for s in squares):  # rounding may leave one below zero
        raise BadInput("the squared singular values of W0 are finite")
    ordered = sorted(squares, reverse=True)
    top, tail = sum(ordered[:rank]), sum(ordered[rank:])
    explained = signal_share(d, n, sigma) * rank * rows
    return zero_loss(d, n, sigma) - explained + tail + constant_share(d, n, sigma, visible) * top
