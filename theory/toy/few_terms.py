"""The distance of a sum of R products L S N from a constant matrix, S being a Wishart matrix: rank against trace.

Around W0 != 0 a linear-attention layer has to make the constant W0 out of what it sees, and what it sees is quadratic
in the tokens.  The best it could make of S = sum_{t <= n} x_t x_t^T, x ~ N(0, I_d), is W0 tr(S) / (nd + 2).  But a few
heads give only sums of a few products, Phi(S) = sum_{r <= R} L_r S N_r, and these turn each x x^T into a matrix of rank
at most R.

Lemma 1 (floor).  Let Phi be linear, with rank Phi(x x^T) <= R for every x, R >= 1.  Let w^2 = ||W0||_F^2 > 0 and let
s_R^2 be the sum of the R largest squared singular values of W0.  Then

    E ||Phi(S) - W0||^2 >= w^2 theta / (n + theta),             theta = (1 + 2/d) w^2 / s_R^2 - 1.

Proof.  Let phi = Phi(x x^T) for one x.  As the x_t are independent,
    E ||Phi(S)||^2 = n E ||phi||^2 + n (n - 1) ||E phi||^2,           E <Phi(S), W0> = n t,         t = <E phi, W0>.
(i) ||E phi||^2 >= t^2 / w^2 (Cauchy).  (ii) |<phi, W0>| <= ||phi|| s_R, as phi has rank R at most (von Neumann);
and <phi, W0> = x^T Q x with Q symmetric and tr Q = t, so
    E ||phi||^2 >= E (x^T Q x)^2 / s_R^2 = (t^2 + 2 ||Q||^2) / s_R^2 >= t^2 (1 + 2/d) / s_R^2.
Together,
    E ||Phi(S) - W0||^2 >= w^2 - 2 n t + t^2 [n (n - 1) / w^2 + n (1 + 2/d) / s_R^2]
                         = w^2 - 2 n t + t^2 n (n + theta) / w^2,
which is least at t = w^2 / (n + theta).                                                                          QED

For W0 = c I and R <= d: theta = (d + 2 - R) / R.  With R >= rank W0 it is 2/d, the floor that W0 tr(S) / (nd + 2) has.
For R = 0, Phi = 0 and the error is w^2.

Lemma 2 (families).  For orthogonal O_1, ..., O_R let
    kappa_i = R^-2 sum_{r,s} [(O_r O_s^T)^2 + tr(O_r^T O_s) O_r O_s^T]_ii.
Then the best diagonal N in Phi(S) = N sum_r O_r S O_r^T has E ||Phi(S) - c I||^2 = c^2 sum_i kappa_i / (n + kappa_i).
Proof.  E[S M S] = n^2 M + n M^T + n tr(M) I with M = O_r^T O_s gives, for Phi_0 = sum_r O_r S O_r^T,
    E[Phi_0 Phi_0^T]_ii = n^2 R^2 + n R^2 kappa_i,             E[Phi_0]_ii = n R,
and the rows are independent least-squares problems: N_ii = c / (R (n + kappa_i)).                                QED

Families.
  cyclic         O_r = C^{r-1}, C the cyclic shift of the d coordinates, 2 (R - 1) < d.  All tr(O_r^T O_s) and all
                 diagonals of (O_r O_s^T)^2 vanish for r != s, so kappa_i = (d + 1) / R: near the floor's
                 (d + 2 - R) / R for d >> R.
  quaternions    I, i, j, ji, as left multiplications on each four coordinates; for d divisible by 4.  The off-diagonal
                 O_r O_s^T are antisymmetric with square -I, so kappa_i = (d - 2) / 4: the floor for R = 4, attained.
                 (Of such matrices there are R = d for d = 1, 2, 4, 8 only: Hurwitz, Radon.)
  the rest       d = 4m + q: beside the quaternions, on the last q coordinates, (1) for q = 1, (1, J, 1, J) with J a
                 quarter turn for q = 2, and both for q = 3.

Lemma 3 (odd d).  Let d >= 3 be odd, W0 = c I and Phi(S) = sum_{r <= R} L_r S N_r a sum of R <= d products.  Then
Lemma 1's bound holds with theta = 7 / (3d - 1), which is more than 2/d.
Proof.  phi(x) = Phi(x x^T) = L(x) N(x)^T with d x d matrices L, N linear in x: columns L_r x and N_r^T x, and columns
of zeros if R < d.  On the unit circle of a plane, det L is a form of odd degree, so it vanishes somewhere: p^T L = 0
there for a unit vector p.  So the form f = p^T phi p vanishes somewhere on the circle.  With means over the circle,
f = alpha + r cos(2 t - t_0) has |r| >= |alpha|, hence E f^2 >= 3/2 alpha^2; and phi's other d - 1 rows and columns, of
trace h, have ||.||^2 >= h^2 / (d - 1):
    E ||phi||^2 >= 3/2 (E f)^2 + (E h)^2 / (d - 1) >= (E tr phi)^2 / (2/3 + d - 1).
The same follows on the unit sphere, by Jensen over all planes.  For x ~ N(0, I) and t = E tr phi(x), the means on the
sphere are E ||phi(x)||^2 / (d (d + 2)) and t / d, so E ||phi(x)||^2 >= t^2 (1 + theta) / d: the rest is Lemma 1's. QED

Rank alone, which is all that Lemma 1 asks for, will not do: every d x d matrix has rank R = d at most, and
tr(S) I / (nd + 2), a sum of more than d products, has theta = 2/d.

At d = R = 3, where 7/8 is proved, descent finds theta = 0.988 for n = 1, 1 for n = 2 and 1.02 for large n.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from theory.errors import InvalidSize, at_least
from theory.prompts.moments import Array
from theory.prompts.setting import Number


def term_floor(squares: Sequence[Number], n: int, terms: int) -> Any:
    """Return the floor of Lemma 1: no sum of `terms` products L S N is nearer to W0 in mean square.

    Args:
        squares: The d squared singular values of W0, in any order.
        n: Degrees of freedom of S.
        terms: Products in the sum.

    Returns:
        The floor, exact for Fractions, and zero for W0 = 0.
    """
    at_least("terms", terms, 0)
    at_least("n", n, 1)
    ordered, power = sorted(squares, reverse=True), sum(squares)
    top = sum(ordered[:terms])
    if not top:
        return power
    theta = (1 + Fraction(2, len(ordered))) * power / top - 1
    return power * theta / (n + theta)


def identity_floor(d: int, n: int, terms: int) -> Fraction:
    """Return the larger of Lemma 1 and Lemma 3 for W0 = I, a bound for sums of `terms` products.

    Times c^2 it is the bound for W0 = c I.
    """
    floor: Fraction = term_floor([Fraction(1)] * d, n, terms)
    theta = Fraction(7, 3 * d - 1)
    return max(floor, d * theta / (n + theta)) if d % 2 and d >= 3 and terms <= d else floor


def terms_loss(left: Array, right: Array, n: Any, target: Array) -> Any:
    """Return E ||sum_r L_r S N_r - target||^2 exactly, S a Wishart matrix with n degrees of freedom.

    Args:
        left: L_r, (R, d, d) with R >= 0; Fractions stay exact.
        right: N_r, (R, d, d).
        n: Degrees of freedom.
        target: (d, d).
    """
    mean = (left @ right).sum(axis=0)
    square = n**2 * (mean * mean).sum() - 2 * n * (mean * target).sum() + (target * target).sum()
    for l_r, n_r in zip(left, right, strict=True):
        for l_s, n_s in zip(left, right, strict=True):
            inner, outer = l_r.T @ l_s, n_r @ n_s.T
            square += n * (inner * outer.T).sum() + n * np.trace(inner) * np.trace(outer)
    return square


def spreads(family: Array) -> Array:
    """Return Lemma 2's kappa_i, (d,), for orthogonal matrices O_r, (R, d, d).  The smaller, the nearer to a trace.

    Fractions, unless the family is in float64.
    """
    count, d, _ = family.shape
    total = np.zeros(d, dtype=family.dtype)
    for o_r in family:
        for o_s in family:
            turn = o_r @ o_s.T
            total = total + (turn * turn.T).sum(axis=1) + (o_r * o_s).sum() * turn.diagonal()
    return total / count**2 if family.dtype == float else total.astype(object) * Fraction(1, count**2)


def family_loss(family: Array, n: int, c: Number) -> Any:
    """Return E ||Phi(S) - c I||^2 of Lemma 2, with the best diagonal N."""
    return c**2 * sum(k / (n + k) for k in spreads(family))


def family_scale(family: Array, n: int, c: Number) -> Array:
    """Return the best diagonal N of Lemma 2, as a vector (d,)."""
    return c / (len(family) * (n + spreads(family)))


def cyclic(d: int, count: int) -> Array:
    """Return the powers C^0, ..., C^(count-1) of the cyclic shift, as whole numbers: (count, d, d).

    Raises InvalidSize unless 2 (count - 1) < d, which Lemma 2's value for them needs.
    """
    at_least("count", count, 1)
    if 2 * (count - 1) >= d:
        raise InvalidSize(f"{count} cyclic shifts are spread evenly for d > {2 * (count - 1)} only, got d = {d}")
    return np.array([np.roll(np.eye(d, dtype=int), r, axis=0) for r in range(count)])


I_UNIT = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]])
J_UNIT = np.array([[0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]])
TURN = np.array([[0, -1], [1, 0]])


def quaternions(d: int) -> Array:
    """Return I, U, V and V U on R^d, with U and V made of quaternion units i and j, as whole numbers: (4, d, d).

    The module says what they do to the last d mod 4 coordinates.  Raises InvalidSize for d < 1.
    """
    at_least("d", d, 1)
    blocks = [(I_UNIT, J_UNIT)] * (d // 4) + [(TURN, np.eye(2, dtype=int))] * (d % 4 // 2)
    blocks += [(np.eye(1, dtype=int), np.eye(1, dtype=int))] * (d % 2)
    u, v = (_diagonal([pair[side] for pair in blocks], d) for side in (0, 1))
    return np.array([np.eye(d, dtype=int), u, v, v @ u])


def _diagonal(blocks: list[Array], d: int) -> Array:
    whole, at = np.zeros((d, d), dtype=int), 0
    for block in blocks:
        end = at + len(block)
        whole[at:end, at:end] = block
        at = end
    return whole
