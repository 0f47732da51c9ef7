"""SkipV1Former's loss gap around W0 != 0, with few heads: where the printed theorem is false, and where it is true.

Setting and notation of `theory.skipv1.w0`.  Appendix A's Theorem 2 has two heads, one of them a skip head, and asks for
sigma_d(W0) > 2 sqrt(d) sigma and a large d; then min L_skipv1 <= min L_mha - c.  Minima are over A, B, W and K.

Theorem 4 (the printed theorem is false).  Let H heads have h skip heads among them in SkipV1Former, 0 < h < H, none in
MHA, and let W0 = c I.  With
    l_mha    = sum_i kappa_i / (n + kappa_i) for a family of 2 H matrices O_1, O_1 U, ..., O_H, O_H U (`few_terms`),
    l_skipv1 = d theta / (n + theta),   theta = (d + 2 - R) / R,   R = 2 H - h <= d,
    l_small  = min over a < d of d - a + a tau_{d-a},
    inf L_mha    <= d sigma^2 + d^2 + c^2 l_mha,
    inf L_skipv1 >= d sigma^2 + d^2 - rho d^2 + c^2 min(l_skipv1, l_small).
So SkipV1Former loses, by as much as one likes, once l_mha < min(l_skipv1, l_small) and c^2 > rho d^2 over their
difference.  That is so
  (a) for two heads, every d >= 4 and every n > (d - 1) kappa, kappa the mean of the quaternion family's kappa_i, which
      is (d - 2)/4 for d divisible by 4 and at most (d - 1)/3 always; for d = 4 at every n;
  (b) for d = 3, two heads and every n, with the l_mha and l_skipv1 of step (5);
  (c) for any H and h, every d >= max{4 H - 1, 2 H (2 H - 1 - h) / h}, which is 6 H - 4 if half are skip heads, and
      every n > (d^2 - 1) / (2 H), by cyclic shifts;
  (d) for even H, half of them skip heads, every d >= 4 H, and every d > 3 H - 8 that 2 H divides, for every
      n > (d - 1) theta, by quaternion families on H/2 groups of coordinates.
A large d does not help: for every d >= 3 it is false for large n and c (n of the order of d^2 here).  How many heads
SkipV1Former needs to be ahead of MHA with any number of them: `theory.skipv1.w0_composition`.
Proof.
(1) MHA at a = d, A = U, K^h A = O_h^T, W^h = N O_h: P = N sum_h O_h (S + U S U^T) O_h^T, the Phi of Lemma 2 of
    `theory.toy.few_terms`; it does not depend on y, so E||P - W*||^2 = d^2 + E||P - c I||^2.  The quaternion family has
    U = i, O_2 = j (with its remainder), the cyclic one U = C, O_h = C^{2h-2}.
(2) SkipV1Former at a = d.  B is empty, so P_even is a linear function of S alone: an ordinary head adds
    W (S + A S A^T) K A, two products; a skip head W (S + c S A^T) K A, which is one, as W0 = c I.  So R = 2 H - h, and
    Lemma 1 of `theory.toy.few_terms` bounds E||P_even - c I||^2 by c^2 l_skipv1.  The odd part adds at least d^2 (1 -
    rho).
(3) SkipV1Former at a < d: Theorem 2 of `theory.skipv1.w0`, whose d^2 - rho a d is more than d^2 (1 - rho), and whose
    E_{d-a} is c^2 (d - a + a tau_{d-a}).
(4) For a positive mean kappa, sum_i kappa_i / (n + kappa_i) <= d kappa / (n + kappa), strictly unless all are equal
    (Jensen).  (a): for d = 4m + q the mean is (d^2 - 2d + e) / (4d), e = 0, 9, 8, 21 for q = 0..3, and (d - 1)/3 is
    theta: 3 e <= d^2 + 2d holds from d = 4, 5, 6, 7 on, with equality at d = 7 only, where the kappa_i differ.  (c):
    (d + 1)/(2H) < theta is d + 1 > 2H (2H - 1 - h)/h, and 2 H shifts need 2 (2H - 1) < d.  In both, n > (d - 1) kappa
    says d kappa/(n + kappa) < 1 <= l_small.  At d = 4, l_mha = 4/(2n + 1), which only at n = 1 is not below 1; there
    it is 4/3, and l_small >= min(1 + 3 tau_1, 2) >= 1 + 6/7, as tau_k >= 2/(2 + nd + kn).
    (d): let Pi_g be the projections on J = H/2 groups of coordinates, of d_g each, and U = diag(U_1, ..., U_J), V alike
    with quaternion families (I, U_g, V_g, V_g U_g) of the groups.  Two heads a group, K^h A = O_h^T Pi_g and
    W^h = N Pi_g O_h with O_h = I, V, make P of the Phi's of Lemma 2 of the groups, side by side, so that the kappa_i
    have the mean kappa = (sum_g d_g^2 - 2 d + e) / (4 d), where all d_g but one are divisible by 4 and e <= 21 is the
    latter's; and theta = (d + 2) / (3 J) - 1.  If 4 J divides d take d_g = d/J: kappa = d/(4J) - 1/2 < theta says
    6 J < d + 8.  Else let d = 4M + q and distribute M blocks as evenly as possible, and q to a group of the smallest:
    sum_g d_g^2 <= d^2/J + 4 J + q^2, and q^2 + e <= 30.  So kappa < theta if
    d^2 + 8 d > 12 J^2 + 90 J + 6 d J, which for J <= d/8 holds from d = 53 on; smaller d one by one.
(5) d = 3, two heads.  SkipV1Former: theta = 7/8 will do, by Lemma 3.  MHA: A is a quarter turn of x_1 and x_2, so that
    S + A S A^T = [q, 0, u; 0, q, v; u, v, 2 S_33], q = S_11 + S_22, u = S_13 - S_23, v = S_13 + S_23; with
    8 W^1 = diag(3, 2, 1), K^1 A = diag(1, 2, 1), 8 W^2 = e_3 e_1^T - e_1 e_3^T, K^2 A = 3 e_1 e_3^T - e_3 e_1^T,
        8 P_0 = [3q + 2 S_33, 0, 0; 0, 4q, 2v; 0, 2v, 3q + 2 S_33],
    rows of mean n e_i^T and mean square n^2 + n kappa_i, kappa = (11/16, 9/8, 13/16).  So with P = N P_0 as in Lemma 2
    l_mha = sum_i kappa_i / (n + kappa_i), and the mean of the kappa_i is 7/8: by Jensen l_mha is less than
    l_skipv1 = 3 (7/8) / (n + 7/8), for n >= 2 less than 1, and at n = 1 less than 7/5 < 5/3 <= min(1 + 2 tau_1, 2). QED

Theorem 5 (d = 2).  For every W0, n and sigma two heads suffice for
    inf L_skipv1 <= 2 sigma^2 + 4 - 2 rho + tau_0 w^2.
So SkipV1Former with two heads beats MHA with any number of heads by at least rho if sigma = 0, or
    s_1^2 <= s_2^2 [3 n + 2 + 4 (n + 1)(n + 3 + 2 sigma^2) / sigma^4].
Proof.  A = beta J, beta > 1, J a quarter turn, W^1 = nu / beta^2 W0, K^1 A = I, W^2 = mu I, K^2 A = A^{-T}, with
nu = 1/(2n + 2), mu = nu (1 - beta^-2).  As S + J S J^T = tr(S) I,
    P = nu / beta^2 W0 (S + beta^2 (tr(S) I - S)) + mu (S A^{-T} + S_yx) = nu tr(S) W0 + mu Z + mu S A^{-T}.
nu tr(S) W0 - W0 has mean square tau_0 w^2 and is uncorrelated with S; E||S A^{-T}||^2 = 2 n (n + 3) / beta^2; so
    L = 2 sigma^2 + 4 + tau_0 w^2 - 4 (2 mu n - mu^2 n / lambda) + 2 n (n + 3) mu^2 / beta^2.
If lambda < nu take mu = lambda: the last two terms are -4 rho + 2 rho (n + 3) lambda (1 - lambda/nu) <= -2 rho.  Else
let beta grow, mu -> nu: -4 n nu (2 - nu/lambda) <= -2n/(n + 1) < -2 rho.  MHA's floors are, less 2 sigma^2 + 4:
tau_0 w^2 at a = 2, s_2^2 + tau_1 s_1^2 - rho at a = 1, w^2 at a = 0.  The difference at a = 1 is at least
rho + (1 - tau_0) s_2^2 - (tau_0 - tau_1) s_1^2.  With e = n sigma^4 / (2 n + 6 + 4 sigma^2 + sigma^4), tau_1 =
2 / (2 n + 2 + e), and (1 - tau_0) / (tau_0 - tau_1) = n (2 n + 2 + e) / e is the bracket.                          QED

At d = 1 Theorem 1 of `theory.skipv1.w0` needs one head of each kind; at d = 2 `theory.skipv1.w0_d2` does the rest.  For
both the printed inequality is true.  At d = 3 minimisation shows a larger difference than is proved: at n = 2, W0 =
10 I, sigma = 0.1, MHA comes to 98.40 and SkipV1Former to 106.52.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from theory.errors import InvalidSize, at_least, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number, signal_share, zero_loss
from theory.skipv1.w0 import constant_share
from theory.toy.few_terms import TURN, cyclic, identity_floor, quaternions, spreads
from theory.toy.population import Weights

EXACT_TURN = Fraction(1) * TURN.astype(object)


@dataclass(frozen=True)
class LargePrior:
    """The losses of Theorem 4 for W0 = c I as c grows, in units of c^2; exact if sigma is a Fraction."""

    mha: Number
    skipv1: Number
    small_ranks: Number

    @property
    def excess(self) -> Number:
        """The excess of SkipV1Former's floor over MHA's loss; if positive, SkipV1Former loses for large c."""
        return min(self.skipv1, self.small_ranks) - self.mha


def large_prior(d: int, n: int, sigma: Number, heads: int = 2, skips: int = 1) -> LargePrior:
    """Return Theorem 4's three numbers.  Raises InvalidSize, also where no reader is known for so many heads."""
    _check(d, n, sigma, heads=heads, skips=skips)
    *small, full = _shares(d, n, sigma, 2 * heads - skips)
    return LargePrior(_reader(d, n, heads).loss(n), full, min(small))


def threshold(d: int, n: int, sigma: Number, heads: int = 2, skips: int = 1) -> float | None:
    """Return a c beyond which SkipV1Former loses to MHA around W0 = c I, by Theorem 4; None if it gives none."""
    excess = large_prior(d, n, sigma, heads=heads, skips=skips).excess
    return float(signal_share(d, n, sigma) * d**2 / excess) ** 0.5 if excess > 0 else None


def mha_loss_around(d: int, n: int, sigma: Number, c: Number, heads: int = 2) -> Any:
    """Return d sigma^2 + d^2 + c^2 l_mha, the loss of `mha_weights_around`."""
    _check(d, n, sigma, heads=heads, skips=0)
    return zero_loss(d, n, sigma) + c**2 * _reader(d, n, heads).loss(n)


def skipv1_few_heads_floor(d: int, n: int, sigma: Number, c: Number, heads: int = 2, skips: int = 1) -> Any:
    """Return a floor of SkipV1Former's loss with this many heads around W0 = c I, at any rank.

    Theorem 4, (2), (3).
    """
    _check(d, n, sigma, heads=heads, skips=skips)
    rho, shares = signal_share(d, n, sigma), _shares(d, n, sigma, 2 * heads - skips)
    return zero_loss(d, n, sigma) + min(c**2 * share - rho * a * d for a, share in enumerate(shares))


def mha_weights_around(d: int, n: int, c: Number, heads: int = 2) -> Weights:
    """Return weights of `heads` ordinary heads at a = d whose loss is `mha_loss_around`.  Theorem 4, (1), (5).

    Exact if c is a Fraction.
    """
    _check(d, n, 0, heads=heads, skips=0)
    reader = _reader(d, n, heads)
    scale = c / (n + reader.spreads)
    weights = Weights(a=reader.turn, b=reader.turn[:0], w=scale[:, None] * reader.left, k=reader.right @ reader.turn.T)
    return weights if isinstance(c, Fraction) else Weights(*(x.astype(float) for x in weights.arrays()))


def d2_loss(n: int, sigma: Number, power: Number, beta: Number) -> Any:
    """Return Theorem 5's L, the loss of `d2_weights`, with power = w^2."""
    check_sizes(2, n, sigma)
    step, nu = signal_share(2, n, sigma) / n, Fraction(1, 2 * n + 2)
    mu = nu * (1 - 1 / beta**2)
    odd = 4 * (2 * mu * n - mu**2 * n / step)
    return zero_loss(2, n, sigma) + power / (n + 1) - odd + 2 * n * (n + 3) * mu**2 / beta**2


def d2_weights(n: int, w0: Array, beta: Number) -> Weights:
    """Return weights of the heads `theory.plans.heads.SKIPV1` at d = a = 2 for any W0 (2, 2).  Theorem 5.

    Exact if beta and W0 are.
    """
    nu = Fraction(1, 2 * n + 2)
    a, eye = beta * EXACT_TURN, Fraction(1) * np.eye(2, dtype=int).astype(object)
    back = -EXACT_TURN / beta  # A^{-1}
    weights = Weights(
        a=a,
        b=a[:0],
        w=np.stack([nu / beta**2 * w0, nu * (1 - 1 / beta**2) * eye]),
        k=np.stack([back, back.T @ back]),
    )
    return weights if np.asarray(w0).dtype == object else Weights(*(x.astype(float) for x in weights.arrays()))


def d2_best_beta(n: int, sigma: float) -> float:
    """Return Theorem 5's choice of beta: mu = lambda where nu allows it, else infinitely large."""
    step, nu = signal_share(2, n, sigma) / n, 1 / (2 * n + 2)
    return (1 - step / nu) ** -0.5 if step < nu else float("inf")


def _shares(d: int, n: int, sigma: Number, terms: int) -> list[Any]:
    """Return, by rank, the share of c^2 that SkipV1Former loses at least: Theorem 4, (3) and, for the last, (2)."""
    small = [d - a + a * constant_share(d, n, sigma, d - a) for a in range(d)]
    return [*small, identity_floor(d, n, terms)]


@dataclass(frozen=True, eq=False)
class _Reader:
    """Ordinary heads at a = d that read P_0 = sum_h left_h (S + turn S turn^T) right_h.  All in Fractions.

    Row i of P_0 has mean n e_i^T and mean square n^2 + n spreads_i, so the best N P_0, N diagonal, is N_ii = c /
    (n + spreads_i).  turn: (d, d), orthogonal; left, right: (H, d, d); spreads: (d,).
    """

    turn: Array
    left: Array
    right: Array
    spreads: Array

    def loss(self, n: int) -> Fraction:
        """Return E ||N P_0 - I||^2."""
        return sum((k / (n + k) for k in self.spreads), Fraction(0))


def _of_family(family: Array) -> _Reader:
    """Return the reader of the family O_1, O_1 U, ..., O_H, O_H U."""
    exact = family.astype(object) * Fraction(1)
    first = exact[0::2]
    return _Reader(exact[1], first / len(family), np.swapaxes(first, -1, -2), spreads(family))


def _of_groups(d: int, heads: int) -> _Reader:
    """Return the reader with two heads for each of heads/2 groups of coordinates."""
    groups, (blocks, over) = heads // 2, divmod(d, 4)
    sizes = [4 * (blocks // groups + (g < blocks % groups)) for g in range(groups)]
    sizes[-1] += over
    readers = [_of_family(quaternions(size)) for size in sizes]
    starts = np.cumsum([0, *sizes])
    left, right = np.full((2, groups, 2, d, d), Fraction(0))
    turn = np.zeros((d, d), readers[0].turn.dtype)
    for g, reader in enumerate(readers):
        own = slice(starts[g], starts[g + 1])
        left[g, :, own, own], right[g, :, own, own] = reader.left, reader.right
        turn[own, own] = reader.turn
    return _Reader(turn, left.reshape(-1, d, d), right.reshape(-1, d, d), np.concatenate([r.spreads for r in readers]))


def _two_heads_at_three() -> _Reader:
    """Return the reader of step (5)."""
    e = np.eye(3, dtype=object) * Fraction(1)
    swap = np.outer(e[2], e[0]), np.outer(e[0], e[2])
    return _Reader(
        turn=np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]).astype(object) * Fraction(1),
        left=np.stack([np.diag([3, 2, 1]) * e, swap[0] - swap[1]]) / 8,
        right=np.stack([np.diag([1, 2, 1]) * e, 3 * swap[1] - swap[0]]),
        spreads=np.array([Fraction(11, 16), Fraction(9, 8), Fraction(13, 16)]),
    )


def _reader(d: int, n: int, heads: int) -> _Reader:
    """Return the best known reader."""
    readers = _readers(d, heads)
    if not readers:
        least = 4 * heads - 1 if heads % 2 else 2 * heads
        raise InvalidSize(f"no way to read a trace with {heads} heads is known here for d = {d} < {least}")
    return min(readers, key=lambda reader: reader.loss(n))


@lru_cache(maxsize=64)
def _readers(d: int, heads: int) -> tuple[_Reader, ...]:
    readers: list[_Reader] = []
    if heads == 2:
        readers.append(_of_family(quaternions(d)))
        if d == 3:
            readers.append(_two_heads_at_three())
    if heads > 2 and heads % 2 == 0 and d >= 2 * heads:
        readers.append(_of_groups(d, heads))
    if d >= 4 * heads - 1:
        readers.append(_of_family(cyclic(d, 2 * heads)))
    return tuple(readers)


def _check(d: int, n: int, sigma: Number, heads: int, skips: int) -> None:
    check_sizes(d, n, sigma)
    at_least("heads", heads, 1)
    at_least("skips", skips, 0)
    if skips > heads:
        raise InvalidSize(f"of {heads} heads at most {heads} are skip heads, got {skips}")
