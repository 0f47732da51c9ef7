"""ResFormer against the cross-layer attention that it approximates, around every W0: it is better, and by how much.

Setting of `theory.skipv1.bias`: W* ~ N(W0, I), prompts of n pairs y = W* x + noise, and y_{n+1} is predicted by
(P + C) x_{n+1} with a free matrix C.  Layer 1 has copied, u_t = (A x_t ; B y_t), A: a x d, B: (d - a) x d.  Layer 2 is
linear attention whose query is A x_{n+1}, so that P = sum_h W^h G^h K^h A, W^h and K^h free, where
    ordinary head      G = S_xx + sum u u^T         a copied value and a copied key,
    raw head           G = S_xx + S_yy              layer 1's value with layer 1's key.
ResFormer's Eqn. (2), cross-layer attention, has one of both for each of its heads, their sums added, as there is no
softmax.  So with enough heads, d a of them, P is F A, with F any linear map of the entries of S_xx + S_yy and of
    S_11 + A S_xx A^T,   S_21 + B S_yx A^T,   S_22 + B S_yy B^T,        S_11: a x a, ... the blocks of S_xx.
Eqn. (3), the block form, has sum y u^T, layer 1's value with layer 2's key, in place of S_yy, as have
SkipV1Former's skip heads: what is said of the block form's one head is true of SkipV1Former's two.
    As in `theory.skipv1.bias`: D = W* - W0, Z = sum eta x^T, Y = sum eta eta^T, S = S_xx, lambda = rho/n, v = n/lambda;
Pi projects on the row space alpha of A; norms are Frobenius', s_1 >= s_2 >= ... the singular values of W0.  Let
    g^2 = kappa / (2 v),   kappa = n d (n + d + 1) + 2 n d sigma^2 + n sigma^4     (so that g^2 >= d/2),
    q = s_1^2 / (s_1^2 + g^2),          N(a) = k (k - 1)/2, k = max(2 a - d, 0).

Theorem.  Let C be free, W0, n, sigma >= 0 and the rank a >= 1 be any.
(1) One head of the block form explains rho a d (`theory.resformer.in_context`).  Cross-layer attention with any number
    of heads explains at most rho [a (d - a) + q (a^2 - N(a))], of which MHA has rho a (d - a) at most.  So the block
    form is better than cross-layer attention, at equal rank, by at least
        rho [(1 - q) a^2 + q N(a)] > 0.
    At W0 = 0 it is better by just that, rho a^2, and for a = 1 and enough heads around every W0 as n grows.
(2) At a = d cross-layer attention with enough heads, d^2 of them, explains at its minimum
        rho sum_{i <= j} (s_i^2 + s_j^2) / (s_i^2 + s_j^2 + 2 g^2),
    so that the gap is more than rho d (d - 1)/2, and just that of (1) where all s_i are equal.
(3) No constant is better: around W0 = t diag(I_a, 0) two heads come to rho [a d - N(a)] as t grows, whatever d, n and
    sigma (`theory.resformer.cross_layer_weights`).  So if 2 a <= d + 1 the gap, though positive for every W0, is as
    small as one likes for some.  Between the optima over a it is more than rho ceil((3 d + 1)(d - 1)/8) around every
    W0, and no larger constant is true of all W0: for large d, three eighths of W*.
(4) Around W0 = c I cross-layer attention with enough heads comes to rho [a (d - a) + q a (a + 1)/2] or more, and with
    any number of heads it explains at most rho [a (d - a) + q (R - a (d - a))],
        R = a d - a (a - 1)/2 + m (2 a - m - 1)/4,          m = min(a, d - a).
    For a = 1 and a = d these are one number.  As first n and then c grows, it comes to rho R.
Proof.
(i) As in `theory.skipv1.bias`, (i), the loss is d sigma^2 + E||P' - D||^2, P' = P - E P.  The entries of P' z, z in
    alpha, are in the span of the entries of the G's, minus their means, and P' z = 0 for z orthogonal to alpha.  So
    what is explained is at most the sum, over an orthonormal basis of U = {X: X = X Pi}, of the squared projections of
    <X, D> on that span.  What is in the span is, with M symmetric, a sum of <M, S>, of
        <X, Z>, X in H = {B^T L A: any L},      and of      <M, S_yy> = <M, W0 S W0^T> + 2 <M W0, Z> + <M, Y>.
    Given the x, the rows of eta are independent with covariance C_x = X^T X + sigma^2 I, X the d x n matrix of the x,
    so that E[Y | x] = (tr S + n sigma^2) I, and Y' = Y - E[Y | x] has E<M, Y'>^2 = 2 ||M||^2 E tr C_x^2 = 2 kappa
    ||M||^2.  S, Z and Y' are uncorrelated, E<X, Z>^2 = v ||X||^2, and E<X, Z><X', D> = n <X, X'>.  So what is explained
    is at most rho tr(U P_g), with U the projection X -> X Pi and P_g the part, in the first component, of the
    projection on the space of all (X + M W0, g M), X in H, M symmetric; and it is just that where all of S is in the
    span.
(ii) H lies in U, and P_g is the identity on H.  For a unit X orthogonal to H, with y the part of M W0 orthogonal to H,
        <X, P_g X> = max_M <X, y>^2 / (||y||^2 + g^2 ||M||^2) <= q,                 as ||y|| <= s_1 ||M||;
    and P_g X = 0 if X is orthogonal to all M W0 as well.  Those X in U are the X = X Pi with B X = 0 and X W0^T
    antisymmetric; they have N(a) dimensions at least.  For if W0 Pi has rank a, its column space meets the kernel of B
    in k dimensions or more; for every antisymmetric F with its columns there, X = F (W0 Pi)^{+T} has X W0^T = F and
    B X = 0.  (Else W0 is a limit of such, and in a limit a space of solutions does not lose dimensions.)  A of rank a
    and B of rank d - a come as near to any loss as one likes, so let dim U = a d and dim H = a (d - a).  That leaves
    a^2 dimensions of U, on N(a) of which P_g is 0, and at most q on the others: (1).  At W0 = 0 the bound is approached
    (`theory.skipv1.gap`, (6)).  For a = 1 let A be the first right singular vector z of W0, and let the rows of B be
    orthogonal to the left one, b: then U is H and the multiples of b z^T = M W0/s_1, M = b b^T, on which P_g is q.
(iii) a = d: H = 0 and U is everything.  At A = I an ordinary head has 2 S, so that all of S is in the span.  With
    J: M -> M W0, P_g = J (J* J + g^2)^{-1} J*, and J* J M = (M W0 W0^T + W0 W0^T M)/2 has the eigenvalues
    (s_i^2 + s_j^2)/2, i <= j: (2).
(iv) Optima.  d^2 - a d + N(a) is at least d^2/2 for 2 a <= d; for k = 2 a - d >= 0 it is (3 d^2 - 2 d - 1)/8 +
    (k - (d + 1)/2)^2/2, least at the k of d's parity next to (d + 1)/2, which is 0, 1/2 or 1 away.
(v) W0 = c I, c != 0.  A = r (I 0), B = -(0 I)/(r c) give G_11 = (1 + r^2) S_11, G_21 = -Z_21/c and, unless r c = +-1,
    S_22 from G_22 = S_22 + (S_yy)_22/(r c)^2 and the raw S_22 + (S_yy)_22.  So Z_21, S_11, tr S and then 2 c times the
    symmetric part of Z_11, with Y'_11, are in the span: the lower bound.
    Upper bound: P_g <= H + q (V - H) as in (ii), V the projection on the sum of H and the symmetric matrices.  The
    complement of V are the antisymmetric X with B X A^T = 0.  Seen on antisymmetric matrices, U is 1 on x ^ x', 1/2 on
    x ^ z and 0 on z ^ z', for x, x' in alpha and z, z' orthogonal to it: in all a (a - 1)/2 + a (d - a)/2.  From this
    goes U's trace on the span of all b ^ x, b a row of B.  With b_i = cos_i x_i + sin_i z_i, i <= m, principal vectors
    of the rows of B and alpha, that span is the orthogonal sum of
        b_i ^ x_j and b_j ^ x_i, i < j <= m: together 1 and half the squared part of x_i ^ x_j in their plane, or 1;
        b_i ^ x_i: 1/2 or, where it is zero, 0;
        b_i ^ x_j, i <= m < j <= a: (1 + cos_i^2)/2;     b ^ x_j for b orthogonal to alpha: 1/2.
    So it is at most 3 m (m - 1)/4 + m/2 + m (a - m) + (d - a - m) a/2, and approached as sin_i -> 0: what is left of
    a d is R.  As n grows, S/n tends to I and nothing of it is left in the span: tr(U P_g) is approached, with
    g^2 -> d/2, and tr(U V) as c grows.
(vi) Without C, a = d, W0 = c I, tau = 2/(n d + 2).  Losses are convex in the linear map of what the heads read, and
    the law of the prompt is that of (O x, O y), O orthogonal; so some best map commutes with these turns.  The block
    form, where B is empty, reads S and Z: lambda Z + p tr(S) I leaves d^2 + d sigma^2 - rho d^2 + d tau c^2.
    Cross-layer attention reads S and M = c (Z + Z^T) + Y' + n sigma^2 I: mu M + nu tr(M) I + p tr(S) I.  With omega =
    mu + d nu, J = d (d + 1)/2 - 1, w = 4 c^2 v + 2 kappa and the best p its loss is
        d^2 + d sigma^2 + J (w mu^2 - 4 c n mu) + w omega^2 - 4 c n omega + d tau (c - n sigma^2 omega)^2.
    At the best mu and omega it is ahead by rho [(1 + d sigma^2/(n d + 2))^2 - 1 - d (d - 1)/2] in the limit of large c.
    At a < d the block form has (d - a) c^2 or more in place of d tau c^2 (`theory.skipv1.w0`, Theorem 2), which is
    worse for large c if d tau < 1.                                                                                 QED

For any W0 what is explained comes to sup tr(U P_g) over A and B, g^2 = d/2, as n grows, as in the last step of (v).

Open.  The infimum at finite n for 0 < a < d, unless W0 = 0, or a = 1 and W0 = c I.  For a = 1 it may be
the bound (1) around every W0: descents around 24 of them, at random, d = 2, 3, n = 1, 3 and sigma = 1/2, come within
0.003 rho of it, for d = 2 mostly within rounding.  Around c I the lower bound in (4) is not it: at d = 3, a = 2, n = 4,
sigma = 1/2 and c = 30 descents end at 5.437 rho, between 4.995 rho and 5.494 rho.
And for 1 < a < d and other W0 a closed form of that supremum, and so whether (1) is sharp there.

What the hypotheses are for.
- The term C x.  Without it, and with sigma = 0, (1) stays true if the block form has enough heads too: E[Y' | x] = 0,
  so that Y' is of no use to build W0, and both losses have E_0(a) of `theory.skipv1.w0` more, cross-layer attention's
  at least that.  With sigma > 0 it fails: the mean of Y helps to build W0, and the block form sees Y through B alone.
  Around c I, as c grows, cross-layer attention is ahead at a = d if (1 + d sigma^2/(n d + 2))^2 > 1 + d (d - 1)/2, at
  d = 1 for all sigma > 0 (`unbiased_minima`); and between the optima, too, if d = 1 or n > 1.
- A first layer that has to choose between x and y.  Where A and B have d rows each, an ordinary head reads all of S_yx,
  and there is no gap at W0 = 0 (`theory.toy.width`).
- A query of layer 1's making, A x: U in the proof.  With the raw x in its place (1) fails for both forms: U is
  everything, and at d = 2, a = 1 all four entries of W* come to be read around c I.  No more of this is worked out.
- Linear attention.  The papers' softmax divides both pairs by one sum; nothing is proved of that.
- Normal x: (1) to (4) hold for independent entries of mean 0, variance 1 and one excess kurtosis, which is added to
  n + d + 1 in rho and kappa.  W* and the noise are normal, of covariances I and sigma^2 I: if one row of W* alone is
  random, B finds it, and at W0 = 0 and a < d there is no gap.
The number of heads is none of them: any on the side of cross-layer attention, one on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from theory.errors import InvalidSize, at_least, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number, signal_share

CUT = 1e-10  # of the largest singular value: what is below is rounding


def read_at(a: Array, b: Array, w0: Array, noise: float) -> float:
    """Return tr(U P_g) of step (i), the entries of W* that can be read at A and B if S were known.

    In float64; noise: g^2.  a: (rank, d), b: any number of rows, w0: (d, d).  At noise = 0 it is tr(U V): as if Y were
    known, too.
    """
    d = w0.shape[0]
    units = np.eye(d * d).reshape(-1, d, d)
    symmetric = units + units.swapaxes(1, 2)
    of_b = np.einsum("ip,jq->ijpq", b, a).reshape(-1, d, d)
    pairs = np.concatenate([np.stack([of_b, 0 * of_b], 1), np.stack([symmetric @ w0, noise**0.5 * symmetric], 1)])
    _, sizes, basis = np.linalg.svd(pairs.reshape(len(pairs), -1), full_matrices=False)
    read = basis[sizes > CUT * sizes[0]].reshape(-1, 2, d, d)[:, 0]
    return float(((read @ np.linalg.pinv(a) @ a) * read).sum())


def never_read(d: int, rank: int) -> int:
    """Return N(a), the entries of W* that cross-layer attention cannot read at this rank, whatever W0."""
    check_sizes(d, 1, 0, rank)
    beyond = max(2 * rank - d, 0)
    return beyond * (beyond - 1) // 2


def noise_of_products(d: int, n: int, sigma: Number) -> Any:
    """Return g^2, the power at which Y' is as large as what it hides of Z.

    Exact for exact numbers.  Raises InvalidSize.
    """
    check_sizes(d, n, sigma)
    noise = sigma**2
    return (d * (n + d + 1) + 2 * d * noise + noise**2) * _half(sigma) / (n + d + 1 + noise)


def read_share(d: int, n: int, sigma: Number, power: Number) -> Any:
    """Return q, the largest readable share of an entry that only S_yy shows.

    Exact for exact numbers.  power: s_1^2, the square of W0's largest singular value.  Raises InvalidSize.
    """
    if not power >= 0:
        raise InvalidSize(f"the square of a singular value must be a number from 0, got {power}")
    return power / (power + noise_of_products(d, n, sigma))


def cross_layer_most(d: int, n: int, sigma: Number, rank: int, power: Number) -> Any:
    """Return an upper bound on what cross-layer attention explains: Theorem, (1).

    In squared units of y; power: s_1^2.
    """
    q = read_share(d, n, sigma, power)
    return _explained(d, n, sigma, rank=rank, of_products=q * (rank**2 - never_read(d, rank)))


def full_rank_explained(n: int, sigma: Number, powers: Sequence[Number]) -> Any:
    """Return what cross-layer attention explains at a = d, at its minimum: Theorem, (2).

    powers: all d of the s_i^2, in any order.
    """
    d, least = len(powers), 2 * noise_of_products(len(powers), n, sigma)
    pairs = [powers[i] + powers[j] for j in range(d) for i in range(j + 1)]
    return _explained(d, n, sigma, rank=d, of_products=sum(pair / (pair + least) for pair in pairs))


def most_around_identity(d: int, rank: int) -> Fraction:
    """Return R of the theorem, (4): the entries that can be read around c I, a supremum over c and n for rank >= 1."""
    check_sizes(d, 1, 0, rank)
    m = min(rank, d - rank)
    return Fraction(4 * rank * d - 2 * rank * (rank - 1) + m * (2 * rank - m - 1), 4)


def explained_around_identity(d: int, n: int, sigma: Number, rank: int, power: Number) -> tuple[Any, Any]:
    """Return the least and the most that enough heads explain around W0 = c I: Theorem, (4).

    power: c^2.
    """
    q = read_share(d, n, sigma, power)
    most = most_around_identity(d, rank) - rank * (d - rank)
    least = Fraction(rank * (rank + 1), 2)
    if not isinstance(q, Fraction):
        least, most = float(least), float(most)  # type: ignore[assignment]
    return _explained(d, n, sigma, rank=rank, of_products=q * least), _explained(
        d, n, sigma, rank=rank, of_products=q * most
    )


def least_gap_of_optima(d: int) -> int:
    """Return how many entries of W* ResFormer's optimum is ahead of cross-layer attention's: Theorem, (3).

    It holds for every W0.
    """
    at_least("d", d, 1)
    return -(-(3 * d + 1) * (d - 1) // 8)


def unbiased_minima(d: int, n: int, sigma: Number, c: Number) -> tuple[Any, Any]:
    """Return the least losses of cross-layer attention and its block form without C, at a = d around W0 = c I.

    With enough heads; step (vi) of the proof.  Exact for Fractions.  Raises InvalidSize.
    """
    check_sizes(d, n, sigma)
    share, noise = signal_share(d, n, sigma), sigma**2
    missed = d * 4 * _half(sigma) / (n * d + 2)  # d tau
    power = 4 * c**2 * n**2 / share + 4 * n**2 / share * noise_of_products(d, n, sigma)  # 4 c^2 v + 2 kappa
    traceless = (d * (d + 1) // 2 - 1) * (2 * c * n) ** 2 / power
    trace = (c * n * (2 + missed * noise)) ** 2 / (power + missed * (n * noise) ** 2)
    zero = d**2 + d * noise + missed * c**2
    return zero - traceless - trace, zero - share * d**2


def _explained(d: int, n: int, sigma: Number, rank: int, of_products: Any) -> Any:
    """Return rho times the a (d - a) entries that ordinary heads read and what S_yy adds to them."""
    return signal_share(d, n, sigma) * (rank * (d - rank) + of_products)


def _half(like: Number) -> Number:
    return 0.5 if isinstance(like, float) else Fraction(1, 2)
