"""The width that MHA needs to explain all that SkipV1Former explains at width d, if layer 1 sees positions.

Setting and notation of `theory.toy.positions`: width m, n pairs, tokens f_t = a_t + b_t of layer 1, a_t from x's and
b_t from y's, G = sum over t <= 2n of f_t f_t^T, P = T(G) with a linear map T that is free if heads are enough.  To
*approach* rho e is to explain more than rho e - eps for every eps > 0, with some weights.

Theorem.  Let d >= 1, and let layer 1's scores depend on positions alone.  With scores of contents (B) fails, at
d = m = 1 and n <= 6 (`theory.toy.content_scores`).
(A) If MHA of width m approaches rho d^2, with any numbers of heads, then
        m (m+1) / 2 >= d^2 + ceil(m / (2n)),
    which is m^2 >= 2 d^2 at n = 1, and m (m+1) / 2 > d^2 at least for every n.
(B) MHA of width m explains at most rho (m (m+1) / 2 - 1/2), with any numbers of heads.
(C) For d >= 2 width 2d - 1 approaches rho d^2, for all n and sigma, with four heads in layer 1 and, in layer 2, two at
    d = 2, three at other even d, six at odd d.
(D) For even d and 1 <= h <= d/2 width 2d - h approaches rho (d^2 - h (h-1)), with four heads in layer 1 and at most
    three in layer 2.
(E) If layer 1 writes each pair into one token, U x_t + V y_t, the same U and V for all, and nothing into the other,
    then rho d^2 is approached from m = 2d on only, with any numbers of heads; there `copying_weights` attain it.

So the least width is 2 at d = 1 and 3 at d = 2, for all n, and 5 at d = 3 for n = 1; in general it lies between about
sqrt(2) d and 2d - 1.  A doubled width is what one token per pair needs, and what Assumption 1 needs
(`theory.toy.width`); writing a pair into both of its tokens saves one number at least.  What lies between (A) and (C)
is open: at width 2d - 2, with two kinds of tokens per pair, descents on the exact loss (`theory.toy.token_pairs`) find
7.25 of 9 entries at d = 3 and 14.00 of 16 at d = 4 (n = 8, sigma = 0.1), about what (D) approaches.

Proof of (A) and (B).
(1) Let F be the space of random variables that are quadratic forms of the context, with the inner product E[gh], and
    G' in F the span of the entries of G, of dimension r' <= r = m (m+1) / 2.  P_ij lies in G'.  By step (3) of
    `positions`, and as the entries of S_yx are uncorrelated, of variance n / lambda, what is explained is at most rho
    times the sum of ||Pi o_ij||^2, Pi the projection on G' and o_ij the entries of S_yx divided by their norms.
(2) The sign flip (x, y) -> (x, -y) is a symmetry of the law (flip W* and the noise), so even and odd parts are
    orthogonal, and all o_ij are odd.  h = sum_t |f_t|^2 is in G'; its odd part 2 sum a_t . b_t is nowhere larger in
    absolute value than its even part sum |a_t|^2 + |b_t|^2.  So unless all f_t vanish, and P with them, at least half
    of ||h||^2 is even.  An orthonormal basis of G' that begins with h / ||h|| gives a sum of at most 1/2 + (r - 1),
    which is (B).
(3) Let weights nu = 1, 2, ... approach rho d^2.  Rows of (f_1, ..., f_2n) that depend on each other linearly can be
    dropped, which narrows m; as r - ceil(m / (2n)) never falls with m, that only makes (A) harder.  Else E G is
    regular, and as T is free, we may take E G = I.  Then the f_t are bounded in a space of finite dimension.  Pass to a
    subsequence along which they converge, and G'_nu too, as a subspace of dimension r' <= r: to G^0 and to G'_0.  By
    (1) the o_ij are in G'_0, and so are all <Q, G^0>, Q symmetric.
(4) Taking the even part is linear and maps the d^2 independent o_ij to zero: its image of G'_0 has dimension at most
    r - d^2.  It contains all <Q, G^0_x + G^0_y>, G_x = sum a_t a_t^T, G_y = sum b_t b_t^T; so the matrices
    that G^0_x + G^0_y takes span a space of dimension l <= r - d^2.  As W* and the noise may be of any size, y -> c y
    keeps the support of the law, for every c > 0; with c -> 0 and c -> infinity that space holds all values of G^0_x
    and of G^0_y by themselves.  These are positive semidefinite, of rank 2n at most, and they span it.  I is in it, as
    I = E G^0 = E G^0_x + E G^0_y (the odd part has mean zero).  Take l of them that span it: I is a combination of
    them, so their ranges together are R^m, and m <= 2n l.  Hence ceil(m / (2n)) <= l <= r - d^2: (A).
    At n = 1, m (m+1) / 2 - ceil(m/2) = floor(m^2 / 2).

Proof of (C) and (D).  x_t's token is Re p and y_t's token Im p, of a vector p of m complex numbers, each a real linear
function of (x_t, y_t); then G_ab = sum_t Re(p_a conj(p_b)).  Write eta_a = y_{2a-1} + i y_{2a}, and k = floor(d/2).
(5) Even d.  With z_1, ..., z_h the last h entries of x, called hidden, z_a = 0 for a > h, and some eps > 0, the rows
    are
        p_a = eta_a + eps z_a,    p'_a = i (eta_a - eps z_a)   (a = 1..k),    and x_i for every visible x_i:
    2k + d - h = 2d - h of them.  Omitting the sum over t, their products are
        <p_a, x_i> = y_{2a-1} x_i + eps z_a x_i,    -<p'_a, x_i> = y_{2a} x_i,
        <p_a, p_b> - <p'_a, p'_b> = 2 eps Re(eta_a z_b + eta_b z_a),
        <p_a, p'_b> + <p'_a, p_b> = -2 eps Im(eta_a z_b + eta_b z_a),
    so all that is even, but for eps z_a x_i, is in the combinations that are left out.  For a > h and b <= h the last
    two give all y_{2a-1} z_b and y_{2a} z_b, for a = b too; for a != b, both at most h, only eta_a z_b + eta_b z_a, and
    half of it is the projection of eta_a z_b on what they give.  There h (h-1) / 2 pairs lack a complex number each.
    So P = lambda times what this makes of S_yx, with an error of lambda eps (S_xx)_{z_a, x_i} in (d-h) h places.
(6) Odd d.  h = 1, z_1 = x_d, the rows p, p' as before, x_i for i = 2..d-1 and, with xi = x_1 - i eps x_d,
        q = (1 + i) (xi + y_d),    q' = (1 + i) i (xi - y_d):
    2k + 2 + d - 2 = 2d - 1 rows.  To the products of (5) come
        <q, q> - <q', q'> = 8 y_d x_1,    <q, q'> = 4 eps y_d x_d,    <q, x_i> + <q', x_i> = 2 (y_d + eps x_d) x_i,
        R_a = <p_a, q> + <p'_a, q'> = 2 (Re + Im)(eta_a conj xi) + 2 eps z_a y_d,
        I_a = <p_a, q'> - <p'_a, q> = 2 (Im - Re)(eta_a conj xi) + 2 eps z_a y_d,
    and (R_a - I_a) / 4 is y_{2a-1} x_1 - eps y_{2a} x_d, (R_a + I_a) / 4 is y_{2a} x_1 + eps (y_{2a-1} x_d + z_a y_d).
    So all d^2 entries of S_yx are there, with errors of lambda eps times an entry of S_yx in d terms and times one
    of S_xx, off its diagonal, in 2 (d-2) terms.
(7) The errors are uncorrelated with each other and with W* - lambda S_yx (the even ones by parity, the odd ones by
    step (3) of `positions`), an entry of S_yx has variance n / lambda, one of S_xx off the diagonal n.  With
    lambda = rho / n what is explained is
        rho (d^2 - h (h-1)) - eps^2 rho^2 h (d-h) / n                   at even d,
        rho d^2 - eps^2 (rho d + 2 rho^2 (d-2) / n)                     at odd d  (`explained_by_hiding`),
    and eps -> 0 gives (C) and (D).  As layer 2's weights grow like 1/eps, none of these weights attains them.
(8) Heads.  The coefficients of x and of y in Re p and Im p are the values of four heads of layer 1; the query is read
    by the coefficients of y in Re p, of full column rank.  A head of layer 2 takes for each entry of the query a sum of
    columns of G, and of all these the same d sums over their rows.  All visible x_i can share one head;
    the columns p_b, b <= h, share one, and the p'_b; where k = h, the first two are one up to a factor.  For odd d
    there are three more, for x_1 with column q, x_1 with q' and x_d with q' (`hiding_weights`).                 QED

Proof of (E).  G = (U V) S (U V)^T, S the second moments of the pairs (x_t ; y_t), so P = Phi(S) for a linear map Phi of
symmetric 2d x 2d matrices that is zero at w z^T + z w^T for every z, if (U V) w = 0.  For m < 2d there is such a w of
length one.  The entries of S are linearly independent as random variables, as their values, or limits of these, hold
z z^T for every z.  So along weights that approach rho d^2 the maps Phi tend to S -> lambda S_yx, and the w of a
subsequence to some (u ; v) of length one.  At z = (x ; y) it gives lambda (v x^T + y u^T) = 0, for all x and y: u and v
are zero, a contradiction.                                                                                       QED
"""

from __future__ import annotations

from typing import Any

import numpy as np

from theory.errors import InvalidSize, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number, signal_share
from theory.toy.positions import TwoLayers


def least_width_bound(d: int, n: int) -> int:
    """Return the width below which MHA stays away from rho d^2, with any numbers of heads.

    That is the least m of (A).
    """
    check_sizes(d, n, 0)
    width = d
    while width * (width + 1) // 2 < d**2 - (-width // (2 * n)):
        width += 1
    return width


def sufficient_width(d: int) -> int:
    """Return a width at which MHA comes arbitrarily near to rho d^2, for all n and sigma; (C).

    It is 2d - 1, but 2 at d = 1.
    """
    check_sizes(d, 1, 0)
    return max(2, 2 * d - 1)


def hidden_entries(d: int, hidden: int) -> int:
    """Return d^2 - h (h-1), the entries of W* that `hiding_weights` approach at width 2d - h; (C) and (D).

    They count in units of rho.  Raises InvalidSize unless d >= 2 and 1 <= hidden <= d/2, or hidden = 1 at odd d.
    """
    _check(d, hidden)
    return d**2 - hidden * (hidden - 1)


def explained_by_hiding(d: int, n: int, sigma: Number, eps: Number, hidden: int = 1) -> Any:
    """Return the signal that `hiding_weights` explain, exactly if sigma and eps are Fractions; step (7)."""
    rho = signal_share(d, n, sigma)
    entries = hidden_entries(d, hidden)
    if d % 2:
        return rho * entries - eps**2 * (rho * d + rho**2 * (2 * (d - 2)) / n)
    return rho * entries - eps**2 * (rho**2 * (hidden * (d - hidden)) / n)


def hidden_tokens(d: int, eps: float, hidden: int = 1) -> Array:
    """Return both tokens of a pair as linear functions of (x, y): Re p and Im p of steps (5) and (6).

    Returns:
        (2, 2d - h, 2d).
    """
    _check(d, hidden)
    pairs, visible = d // 2, d - hidden - d % 2
    p = np.zeros((2 * d - hidden, 2 * d), dtype=complex)
    for a in range(pairs):
        eta, z = np.zeros(2 * d, dtype=complex), np.zeros(2 * d)
        eta[d + 2 * a : d + 2 * a + 2] = 1, 1j
        if a < hidden:
            z[d - hidden + a] = eps
        p[2 * a : 2 * a + 2] = eta + z, 1j * (eta - z)
    if d % 2:
        xi, y = np.zeros(2 * d, dtype=complex), np.zeros(2 * d)
        xi[0], xi[d - 1], y[-1] = 1, -1j * eps, 1
        p[d - 1 : d + 1] = (1 + 1j) * (xi + y), (1 + 1j) * 1j * (xi - y)
    p[len(p) - visible :, d % 2 : d % 2 + visible] = np.eye(visible)
    return np.stack([p.real, p.imag])


def hiding_weights(d: int, n: int, sigma: float, eps: float, hidden: int = 1) -> TwoLayers:
    """Return weights of MHA of width 2d - h that explain `explained_by_hiding`; steps (5) to (8).

    Layer 1 has four heads.  Layer 2 has two if h = d/2, three at every other even d, six at odd d.  Raises InvalidSize
    as `hidden_entries` does.
    """
    first, second = hidden_tokens(d, eps, hidden)
    width, step = len(first), float(signal_share(d, n, sigma)) / n
    value = np.zeros((4, width, width))
    for h, coefficients in enumerate((first[:, :d], second[:, :d], first[:, d:], second[:, d:])):
        value[h, :, :d] = coefficients
    x = np.arange(0, 2 * n, 2)
    bias = np.zeros((4, 2 * n + 1, 2 * n + 1))  # from x_t and from y_t, to the tokens of both
    bias[0, x, x] = bias[1, x, x + 1] = bias[2, x + 1, x] = bias[3, x + 1, x + 1] = 1
    bias[2, -1, -1] = 1
    columns, rows = zip(*_second_layer(d, eps, hidden), strict=True)
    of_query = np.linalg.pinv(value[2])
    return TwoLayers(
        np.eye(width, d), bias, value, key_query=np.stack(columns) @ of_query[:d], readout=step * np.stack(rows)
    )


def _second_layer(d: int, eps: float, hidden: int) -> list[tuple[Array, Array]]:
    """Return layer 2's heads, each as what the query asks for and what is read.

    The first is the columns of G, (m, d), that each entry of the query asks for; the second the readout of them, (d,
    m).
    """
    pairs, width = d // 2, 2 * d - hidden
    unit = np.eye(width)
    p, turned = unit[0 : 2 * pairs : 2], unit[1 : 2 * pairs : 2]
    visible = np.zeros((width, d))
    visible[width - (d - hidden - d % 2) :, d % 2 : d - hidden] = np.eye(d - hidden - d % 2)
    by_column, by_turned = np.zeros((2, width, d))
    by_column[:, d - hidden :], by_turned[:, d - hidden :] = p[:hidden].T, turned[:hidden].T
    once = np.where(np.arange(pairs) < hidden, 1 / (4 * eps), 1 / (2 * eps))[:, None]
    read = _rows(p, -turned, width, d)
    own, other = _rows(once * p, -once * turned, width, d), _rows(-once * turned, -once * p, width, d)
    if 2 * hidden == d:
        return [(visible + by_column / (4 * eps), read), (by_turned, other)]
    heads = [(visible, read), (by_column, own), (by_turned, other)]
    if d % 2:
        q, q_turned = unit[d - 1], unit[d]
        read[-1] = (q + q_turned) / 2
        of_q, of_turned = _rows(p + turned, p - turned, width, d) / 4, _rows(turned - p, turned + p, width, d) / 4
        of_q[-1], of_turned[-1] = q / 8, -q_turned / 8
        last = np.outer(np.eye(d)[-1], q) / (4 * eps)
        first, hiding = np.eye(d)[0], np.eye(d)[-1]
        heads += [(np.outer(q, first), of_q), (np.outer(q_turned, first), of_turned)]
        heads.append((np.outer(q_turned, hiding), last))
    return heads


def _rows(odd: Array, even: Array, width: int, d: int) -> Array:
    """Return a readout, (d, m), of rows 1, 3, ... and 2, 4, ...; the last row of an odd d is zero."""
    rows = np.zeros((d, width))
    rows[0 : 2 * len(odd) : 2], rows[1 : 2 * len(odd) : 2] = odd, even
    return rows


def _check(d: int, hidden: int) -> None:
    check_sizes(d, 1, 0)
    most = 1 if d % 2 else d // 2
    if d < 2 or not 1 <= hidden <= most:
        raise InvalidSize(f"from 1 to {most if d > 1 else 0} entries of x can be hidden at d = {d}, got {hidden}")
