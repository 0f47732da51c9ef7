"""Gates in both layers of the in-context toy: of the revised form the last one wins nothing; of the initial, it can.

Setting of `theory.dva.first_layer`, around W0 = 0: the context's tokens are u_t = l_t + p_t.  The first layer's gate
multiplies the query's token with itself, too, which then is odd and even in x:
    q = C x + (Q x) * (K x),      C, Q, K (d x d).

Theorem 6 (nothing more).  Let the query's token be any function of x with finite moments, such as this one, and let the
last layer have any number of heads with values of the revised form.  Then its answers explain no more than a gate in
the first layer alone: rho a (d - a) without constants in the last layer, rho (a (d - a) + d) with them at most
(theorems 3 and 4 there).
    Proof.  A head answers sum_t <S q, k_t> v_t + (G q) * sum_t <S q, k_t> k^R_t, so that the answer is a sum of
c_i f_i(x) with vectors c_i linear in the entries of M = sum_t u_t u_t^T (of sum_t u_t, too, and a number, with
constants) and functions f_i of x alone.  Split each into its linear part in L2, f_i = <g_i, x> + r_i, E r_i x = 0.  As
x is independent of the context and W*,
    E ||answer - W* x||^2 = E ||(P - W*) x||^2 + E ||sum c_i r_i||^2,     P = sum c_i g_i^T,
the mixed term being E tr (P - W*)^T sum c_i E r_i x^T = 0.  P is linear in M (and the rest), and what such a P explains
at best is the bound of theorems 3 and 4.                                                                      QED
So a product with the query's own token adds no degree in the prompt.  For the token above, x standard normal,
    E q_j q_l x_k = T_jlk + T_ljk,
    T_jlk = E (C x)_j (Q x)_l (K x)_l x_k = C_jk <Q_l, K_l> + <C_j, Q_l> K_lk + <C_j, K_l> Q_lk,   (`third_moments`)
so that P = values^T keys S C + sum over j, l of G_ij (gate_keys^T keys S)_il E q_j q_l x   (`linear_part`).

Theorem 7 (something, in the initial form).  A head of that form answers sum_t <S q, k_t> <G q, v_t> k^R_t, cubic in the
u_t, and products of three are of both parities.  At d = a = 1, where ordinary heads explain nothing, and neither does a
last layer of the initial form over a query's token without products, u_t = x_t + c x_t y_t and q = x + b x^2 answer
kappa q^2 f, f = sum_t u_t^3, and explain at the best kappa
    36 b^2 / (3 + 90 b^2 + 105 b^4) * (E w f)^2 / E f^2,                                         (`explained_by_cubes`)
    E w f = n (9 c + (45 + 9 sigma^2) c^3),     E f^2 = n E h_2(w) + n (n - 1) E h_1(w)^2,     h_k = E [u^(3 k) | w],
more than 0 for all b and c but 0.  The first factor is least harmed at b^4 = 1/35, where it is 0.287.
    Proof.  E (w x - kappa q^2 f)^2 = 1 - 2 kappa E x q^2 E w f + kappa^2 E q^4 E f^2, least at the kappa that makes it
1 - (E x q^2 E w f)^2 / (E q^4 E f^2).  E x q^2 = 2 b E x^4 = 6 b and E q^4 = 3 + (4 + 2) 15 b^2 + 105 b^4.  E w u^3 is
that of 3 c x^3 y + c^3 x^3 y^3, as the others are even in w: 9 c + c^3 (E w^4 E x^6 + 3 sigma^2 E w^2 E x^4).     QED
Not covered: query's tokens into which the first layer brings anything of the context, and W0 other than 0, where no
turn of signs leaves the law as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from theory.dva.polynomials import Polynomial, mean, normal, product
from theory.errors import at_least
from theory.plans.setting import Number

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def query_token(x: Array, linear: Array, query: Array, key: Array) -> Array:
    """Return q (d,), for x (d,) and C, Q, K (d, d)."""
    return linear @ x + (query @ x) * (key @ x)


def third_moments(linear: Array, query: Array, key: Array) -> Array:
    """Return E q_j q_l x_k over standard normal x, (d, d, d)."""
    import numpy as np

    own = (query * key).sum(1)  # <Q_l, K_l>
    mixed = np.einsum("jk,l->jlk", linear, own)
    mixed = mixed + np.einsum("jl,lk->jlk", linear @ query.T, key) + np.einsum("jl,lk->jlk", linear @ key.T, query)
    return mixed + mixed.swapaxes(0, 1)


def linear_part(
    score: Array, keys: Array, values: Array, gate: Array, gate_keys: Array, token: tuple[Array, Array, Array]
) -> Array:
    """Return P (w, d) = E answer x^T of a head of the revised form.

    Arguments as in `theory.dva.in_context.answer`: score is S, and gate (w, d) is G; token: C, Q and K.
    """
    import numpy as np

    ordinary = values.T @ keys @ score @ token[0]
    gated = np.einsum("ij,il,jlk->ik", gate, gate_keys.T @ keys @ score, third_moments(*token))
    return np.asarray(ordinary + gated)


def explained_by_cubes(n: int, sigma: Number, c: Number, b: Number) -> Number:
    """Return the signal that Theorem 7 explains, exact where sigma, b and c are fractions."""
    at_least("n", n, 1)
    h_1, h_2 = _cube(1, sigma, c), _cube(2, sigma, c)
    with_w = n * mean([0, *h_1])
    square = n * mean(h_2) + n * (n - 1) * mean(product(h_1, h_1))
    of_query = 36 * b**2 / (3 + 90 * b**2 + 105 * b**4)
    return of_query * with_w**2 / square


def _cube(k: int, sigma: Number, c: Number) -> Polynomial:
    """Return h_k, E [x^(3 k) (1 + c y)^(3 k) | w], by powers of w, y = w x + sigma xi."""
    from math import comb

    found: Polynomial = [0 * sigma] * (3 * k + 1)
    for i in range(3 * k + 1):  # powers of y
        for j in range(i + 1):  # of them, of w x
            term = comb(3 * k, i) * c**i * comb(i, j) * normal(3 * k + j) * normal(i - j)
            found[j] += term * sigma ** (i - j)
    return found
