"""SkipV1Former's loss gap around W0 = c I, and the number of heads it needs: Hurwitz's problem again.

Setting and notation of `theory.skipv1.w0`; tau_k is its `constant_share`.  H heads, h >= 1 of them skip heads.  2^k is
the least power of two from d on, delta = 2n / ((nd + 2)(n(d - 1) + 2)) as in Lemma 1 of `theory.toy.composition`.

Theorem 7 (too few).  Let 2 H - h < 2^k.  Then for every n and sigma, around W0 = c I,
    inf L_skipv1 >= d sigma^2 + d^2 - rho d^2 + c^2 (d tau_0 + delta),
    MHA attains     d sigma^2 + d^2 + c^2 d tau_0,   with the number of heads that `composition_count` says.
So SkipV1Former loses to MHA with enough heads, by as much as one likes, once c^2 > rho d^2 / delta.  If half of the
heads are skip heads, that is so for all H < 2/3 2^k, and 2^k >= d.
Proof.
(1) At a = d the even part of SkipV1Former's P is a sum of 2 H - h products L S N (Theorem 4, (2), of
    `theory.skipv1.w0_heads`), to which Lemma 1 applies; the odd part leaves d^2 (1 - rho) at least.
(2) At a < d Theorem 2 of `theory.skipv1.w0` says L >= d sigma^2 + d^2 - rho a d + c^2 (d - a + a tau_{d-a}), and
        d - a + a tau_{d-a} - d tau_0 = (d - a)(1 - tau_0) - a (tau_0 - tau_{d-a}) >= delta.
    For with j = d - a and e = n sigma^4 / (d (n + d + 1) + 2 d sigma^2 + sigma^4) < n,
        1 - tau_0 = nd / (nd + 2),       tau_0 - tau_j = 2 j e / ((nd + 2)(nd + 2 + j e)) <= 2 j n / (nd + 2)^2,
    so the left side is at least j n / (nd + 2) [d - 2a / (nd + 2)] >= n / (nd + 2) (d^2 + 2) / (d + 2), as a <= d - 1
    and n >= 1; and delta <= n / (nd + 2) 2 / (d + 1), which is no more.
(3) MHA at a = d, A = I, with K^r = L_r^T and W^r = c / (2 (nd + 2)) L_r of Lemma 2: P = c tr(S) I / (nd + 2).       QED

Theorem 8 (enough).  Let sigma = 0, or let W0 have singular values s_1 >= ... >= s_d with s_1^2 <= (1 + nd/2) s_d^2, as
W0 = c I has.  One skip head and the ordinary heads of `skipv1_weights`, in all 2^k + 1 for d <= 9, and for every
d >= 2 less than d^2 / log2(d) + 2d + 2, attain at a = d
    L = d sigma^2 + d^2 - rho d^2 + tau_0 ||W0||^2,
which is SkipV1Former's floor at a = d, and below the loss of MHA with any number of heads, at any rank, by at least
rho (d^2 - floor(d^2/4)).  Further skip heads are of no use, and no harm.
Proof.
(1) A = I.  The skip head with W = lambda I and K = I is lambda (S + W0 S + Z).  One ordinary head, -lambda (I + W0) S,
    leaves lambda Z; the others are tr(S) W0 / (nd + 2) = sum_r W0 L_r S L_r^T / (nd + 2).  If L_1 = I, the former is
    one with the first of the latter.  E||tr(S) W0 / (nd + 2) - W0||^2 = tau_0 ||W0||^2, E||lambda Z - D||^2 =
    d^2 (1 - rho).
(2) MHA's floor at rank a, Theorem 2 of `theory.skipv1.w0`, is d sigma^2 + d^2 - rho a (d - a) + E_{d-a}(a), and
    E_{d-a}(a) >= tau_0 ||W0||^2: it says (1 - tau_0) sum_{i > a} s_i^2 >= (tau_0 - tau_{d-a}) sum_{i <= a} s_i^2.  For
    sigma = 0 the right side is zero, as it is for a = 0; for a = d both are.  Else, with j = d - a as above, it is
    enough that nd j s_d^2 >= 2 j e a s_1^2 / (nd + 2 + j e), and e < n, a < d give
    nd (nd + 2 + j e) / (2 e a) > nd (nd + 2) / (2 n d) = 1 + nd/2.                                                QED

So if p products are needed to read a trace, and p' to read it as nearly as one likes, then around W0 = c I for large
c 2 H - h >= p' is necessary, and p + 2 heads suffice; 2^k <= p' <= p, and all three are equal for d <= 9.  Beyond, the
bounds on p are a factor of about d / log d apart: see Lemma 3 there.  For W0 with s_1 much larger than s_d and
sigma > 0 no fewer heads than the 2 d^2 of Theorem 1 are proved to do.

Theorem 9 (d = 3 and 4: three heads).  Let alpha = 1/(nd + 2).  One ordinary and two skip heads have, around c I,
    L = d sigma^2 + d^2 + c^2 d tau_0 - 2 n tr T + n/lambda ||T||^2
with a linear map T of d x d matrices that tends, as c grows, to one with
    d = 4:  tr T = 16 alpha,      ||T||^2 = 32 alpha^2;
    d = 3:  tr T = 9 q alpha,     ||T||^2 = (8 + 4 q + q^2) alpha^2,     q = 49/50.
So for sigma^2 < 3 (n - 1), at d = 3 for sigma^2 <= 3 n - 2, L is for all large c below the loss of MHA with any number
of heads at any rank, by an amount that does not fall with c.  By Theorem 7 two heads are too few; so three are the
least number, and 2 H - h = 2^k is enough.
Proof.  Let L_1, ..., L_4 read a trace, sum_r L_r S L_r^T = tr(S) I, L_1 and L_2 be invertible, A = L_1^{-1} L_2 and
M = A^{-T} + c.  The ordinary head with W = alpha c L_1 and K A = L_1^T is alpha c (L_1 S L_1^T + L_2 S L_2^T).  The
skip head with W = L_r and K A = A^{-T} N_r is L_r (S M + Z) N_r, and N_r = alpha c M^{-1} L_r^T for r = 3, 4 makes the
trace complete and leaves T(Z) = alpha c sum_r L_r Z M^{-1} L_r^T, which tends to alpha sum_r L_r Z L_r^T.  The norm
gives E||T(Z) - D||^2 = d^2 - 2 n tr T + n/lambda ||T||^2.
    d = 4: V, V U, I, U of `theory.toy.few_terms`.  A = U, M^{-1} = (c - U)/(c^2 + 1), tr U = 0, so that with
t = c^2/(c^2 + 1) exactly tr T = 16 alpha t and ||T||^2 = 32 alpha^2 t: a gain if alpha < lambda.
    d = 3: x -> the imaginary part of u x, for imaginary quaternions x and the u = p, p i, p j, p k of the unit
quaternion p = (1 + i + 7 j - 7 k)/10.  These L_u = Re u + [Im u]_x read a trace, as the u x of orthonormal u are
orthonormal; they are invertible for Re u != 0; tr L_u = 3 Re u and tr L_u^T L_v = 2 <u, v> + Re u Re v.  With q the sum
of (Re u)^2 over the last two that gives T.  A gain if (n + 4 + sigma^2) / (3 n + 2) < 18 q / (8 + 4 q + q^2), which is
more than 1.36.
    At lower ranks MHA's floor exceeds d sigma^2 + d^2 + c^2 d tau_0 by a multiple of c^2, less rho a (d - a): (2) of
Theorem 7.                                                                                                         QED
With two ordinary heads and one skip head, five products, descents at d = 3 end higher: a skip head more can be of use.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from theory.errors import InvalidSize, at_least, check_sizes
from theory.plans.heads import ORDINARY, SKIP, Heads
from theory.prompts.moments import Array
from theory.prompts.setting import Number, signal_share
from theory.skipv1.w0 import mha_floor, skipv1_floor
from theory.toy.composition import (
    composition,
    composition_count,
    composition_excess,
    identity_comes_first,
    least_products,
)
from theory.toy.few_terms import quaternions
from theory.toy.population import Weights


def is_too_few(d: int, heads: int, skips: int) -> bool:
    """Return whether, by Theorem 7, `heads` heads with `skips` skip heads lose around W0 = c I for large c."""
    at_least("skips", skips, 0)
    at_least("heads", heads, max(1, skips))
    return 2 * heads - skips < least_products(d)


def losing_square(d: int, n: int, sigma: Number) -> Any:
    """Return rho d^2 / delta of Theorem 7: with too few heads SkipV1Former loses around c I for every larger c^2.

    Exact if sigma is a Fraction.
    """
    check_sizes(d, n, sigma)
    return signal_share(d, n, sigma) * d**2 / composition_excess(d, n)


def mha_weights(d: int, n: int, c: Number) -> Weights:
    """Return weights of `composition_count` ordinary heads whose loss around c I is Theorem 7's.

    Exact if c is a Fraction.
    """
    check_sizes(d, n, 0)
    left = composition(d)
    eye = np.eye(d, dtype=int)
    return _weights(eye, c / (2 * Fraction(n * d + 2)) * left.astype(object), np.swapaxes(left, 1, 2), c)


def sufficient_heads(d: int) -> Heads:
    """Return the heads of `skipv1_weights`: ordinary ones and a skip head."""
    return (ORDINARY,) * (composition_count(d) + (not identity_comes_first(d))) + (SKIP,)


def skipv1_weights(n: int, sigma: Number, w0: Array) -> Weights:
    """Return weights of `sufficient_heads` at a = d around W0 (d, d) with Theorem 8's loss.

    Exact if sigma and W0 are.
    """
    d = len(w0)
    check_sizes(d, n, sigma)
    if w0.shape != (d, d):
        raise InvalidSize(f"W0 is a square matrix, got shape {w0.shape}")
    step, eye, left = signal_share(d, n, sigma) / n, np.eye(d, dtype=int), composition(d)
    if not identity_comes_first(d):
        left = np.concatenate([0 * eye[None], left])
    readouts = (w0 @ left.astype(object)) / (2 * Fraction(n * d + 2))
    readouts[0] = readouts[0] - step * (eye + w0) / 2
    keys = np.concatenate([eye[None], np.swapaxes(left[1:], 1, 2), eye[None]])
    return _weights(eye, np.concatenate([readouts, step * eye[None].astype(object)]), keys, step * w0[0, 0])


def three_heads_weights(d: int, n: int, c: Number) -> Weights:
    """Return weights of one ordinary and two skip heads at d = a = 3 or 4 around c I.  Theorem 9.

    Exact at d = 4 if c is a Fraction.  Raises InvalidSize for other d.
    """
    check_sizes(d, n, 0)
    first, second, *skips = _pair_and_two(d)
    if d == 4:
        a, scale = (first.T @ second).astype(object), c / Fraction(4 * n + 2)
        back, key = a.T, scale / (c**2 + 1) * (c * np.eye(4, dtype=int) - a)  # A^{-1} and alpha c M^{-1}
    else:
        a, scale = np.linalg.inv(first) @ second, float(c) / (3 * n + 2)
        back = np.linalg.inv(a)
        key = scale * np.linalg.inv(back.T + float(c) * np.eye(3))
    keys = np.stack([first.T @ back, *(back.T @ key @ x.T @ back for x in skips)])
    return _weights(a, np.stack([scale * first, *skips]), keys, c if d == 4 else 1.0)


def three_heads_gain(d: int, n: int, sigma: Number) -> Any:
    """Return how much `three_heads_weights` are below MHA's loss at a = d, as c tends to infinity.

    d = 3 or 4, else InvalidSize; exact if sigma is a Fraction.
    """
    check_sizes(d, n, sigma)
    alpha, q = Fraction(1, n * d + 2), Fraction(49, 50)
    trace, square = (9 * q, 8 + 4 * q + q**2) if _three_or_four(d) == 3 else (Fraction(16), Fraction(32))
    return 2 * n * alpha * trace - n**2 / signal_share(d, n, sigma) * alpha**2 * square


def _pair_and_two(d: int) -> Array:
    """Return Theorem 9's L_1, ..., L_4: (4, d, d)."""
    if _three_or_four(d) == 4:
        return quaternions(4)[[2, 3, 0, 1]]
    units = quaternions(4)  # x -> u x for u = 1, i, j, -k
    basis = (units[0] + units[1] + 7 * units[2] + 7 * units[3]) / 10 @ units
    return np.array(basis[:, 1:, 1:])


def _three_or_four(d: int) -> int:
    if d not in (3, 4):
        raise InvalidSize(f"three heads are worked out for d = 3 and 4, got d = {d}")
    return d


def lead(d: int, n: int, sigma: Number, squares: Sequence[Number]) -> Any:
    """Return how much `skipv1_weights` are below the lowest of MHA's floors over all ranks, with any number of heads.

    squares: the d squared singular values of W0.  Theorem 8 bounds it from below where it applies.
    """
    return min(mha_floor(d, n, sigma, squares=squares, rank=a) for a in range(d + 1)) - skipv1_floor(
        d, n, sigma, squares=squares, rank=d
    )


def _weights(a: Array, w: Array, k: Array, like: Any) -> Weights:
    """Return weights at a = d; in Fractions if `like` is one, else in float64."""
    dtype = object if isinstance(like, Fraction) else float
    a, w, k = ((Fraction(1) * x.astype(object)).astype(dtype) for x in (a, w, k))
    return Weights(a=a, b=a[:0], w=w, k=k)
