"""A gate in the in-context toy's first layer: where it wins nothing, and where it wins.

Setting of `theory.dva.in_context`, around W0 = 0.  The first layer's copying head has dynamic values: y_t's token takes
from x_t's, besides what Assumption 1 lets it copy, a product of a number of its own and one of x_t's a coordinate,
    u_t = l_t + p_t,    l_t = (A x_t ; B y_t),    p_t = (Q y_t) * (K x_t)    (`gated_tokens`),
A (a x d), B ((d - a) x d), Q and K (d x d).  The last layer attends over the u_t, linearly, with any number of heads;
its own gate is of no use (theorem 1 there).  The answer is P x with P linear in its moments: of sum_t u_t u_t^T, and,
where it has a constant beside what its keys read, of sum_t u_t too.

Two turns of signs decide what can help.  F: of the context's x_t and noise; then y_t and l_t turn, p_t and the target
W* do not, and what of P is odd only adds to the loss.  G: of W* and the noise; then y_t, B y_t, p_t and the target
turn, A x_t does not, and what of P is even only adds to the loss.  (Both leave the law as it is: P = P' + P'' with
E <P'', P' - W*> = 0.)

Theorem 3 (nothing).  Without constants in the last layer the gate of the first wins nothing: the least loss is that
without it, and explained is rho a (d - a) at best.
    Proof.  sum u u^T = sum l l^T + sum (l p^T + p l^T) + sum p p^T.  The second is odd under F, the third even under G:
they only hurt, and so does what is even under G in the first.  B S_yx A^T is left, as without a gate, and a linear map
of it explains rho a (d - a) at most (`theory.skipv1.gap`); with Q = 0 that is approached.                      QED
So it is not the higher degree in the prompt that helps: the products' moments, of degree 4, are of the wrong parity.

Theorem 4 (something).  With a constant beside the last layer's keys the gate explains, at every rank a,
    rho max(d, a (d - a)) at least, and rho (a (d - a) + d) at most    (`bounds`),
ordinary heads rho a (d - a).  So it wins at the ranks 0, 1, d - 1 and d, and for d <= 3 it is above what these explain
at any rank, rho floor(d^2 / 4); for d = 1 it explains all that a linear read of S_yx can.  (Elsewhere neither bound
tells whether it wins.)
    Proof.  Of sum_t u_t the part A sum x_t is even under G, B sum y_t odd under F, and sum_t p_t is neither: it is
diag(Q S_yx K^T), d numbers.  With those of B S_yx A^T it is a (d - a) + d linear maps of S_yx at most.  The entries of
that are uncorrelated, of equal variance, each correlated with its own entry of W* alone and all alike: so a linear map
of r of them explains rho r at most.  At least: with Q = 0 it is the ordinary layer.  Or let A = B = 0, Q = I and every
row of K be e_1: then u_t = x_t1 y_t, and one head with the key 1, the query x_1 and the value lambda u_t answers
lambda S_yx e_1 x_1, whose loss is
    d^2 + d sigma^2 - 2 lambda n d + lambda^2 d n (n + d + 1 + sigma^2)    (`loss_of_products`),
least at lambda = 1 / (n + d + 1 + sigma^2), where it explains rho d.                                           QED
The gate here does in the first layer what the last one does with two copies side by side: it multiplies x_t and y_t.

Theorem 5 (something, without constants).  If y_t's token attends to itself as well as to x_t's, the gate wins without
constants, too.  At d = 1, where there is room for one number and ordinary heads explain nothing, u_t = x_t y_t +
alpha y_t^2 and the answer c x sum_t u_t^2 explain
    (E w f)^2 / E f^2,    f = sum_t (x_t y_t + alpha y_t^2)^2,                              (`explained_by_squares`)
    E w f = 6 n alpha (3 + sigma^2),
    E f^2 = n E h_2(w) + n (n - 1) E h_1(w)^2,     h_k(w) = E [(x y + alpha y^2)^(2 k) | w],
more than 0 for every alpha but 0: at n = 8, sigma = 0.5 and the best alpha, 0.40, it is 0.130, beside rho = 0.780 of
theorem 4.  (x y + alpha y^2)^2 has the part 2 alpha x y^3, odd in W*: products of products are of use if these are not
all of one parity.
    Proof.  Given w = W*, y is normal with covariance w with x and variance w^2 + sigma^2, so that E [x y^3 | w] =
3 w (w^2 + sigma^2), which makes E w f, and the pairs of different t are independent.  The best c explains the rest. QED
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from theory.dva.polynomials import Polynomial, mean, normal, product
from theory.errors import at_least
from theory.plans.setting import Number, Setting

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def gated_tokens(x: Array, y: Array, a: Array, b: Array, query: Array, key: Array) -> Array:
    """Return u (d, n), for x and y (d, n), A (a, d), B (d - a, d), Q and K (d, d)."""
    import numpy as np

    return np.concatenate([a @ x, b @ y]) + (query @ y) * (key @ x)


def loss_of_products(setting: Setting, scale: Number) -> Number:
    """Return the exact loss of the answer lambda x_1 sum_t x_t1 y_t: theorem 4's."""
    d, n, variance = setting.d, setting.n, setting.sigma**2
    spread = n + d + 1 + variance
    return setting.zero_loss - 2 * scale * n * d + scale**2 * d * n * spread


def best_scale(setting: Setting) -> Number:
    """Return the lambda at which `loss_of_products` is least."""
    one = Fraction(1) if isinstance(setting.sigma, Fraction | int) else 1.0
    return one / (setting.n + setting.d + 1 + setting.sigma**2)


def bounds(d: int, rank: int) -> tuple[int, int]:
    """Return the least and the most entries that a gated first layer explains at a rank, over rho.

    The last layer has constants.  Raises InvalidSize for a rank that is not 0 to d.
    """
    at_least("d", d, 1)
    at_least("rank", rank, 0)
    at_least("d - rank", d - rank, 0)
    ordinary = rank * (d - rank)
    return max(d, ordinary), min(d * d, ordinary + d)


def explained_by_squares(n: int, sigma: Number, alpha: Number) -> Number:
    """Return the signal that Theorem 5 explains, exact where sigma and alpha are fractions or whole numbers."""
    at_least("n", n, 1)
    h_1, h_2 = _moment(1, sigma, alpha), _moment(2, sigma, alpha)
    with_w = n * mean([0, *h_1])
    square = n * mean(h_2) + n * (n - 1) * mean(product(h_1, h_1))
    return with_w**2 / square if square else 0 * square


def _moment(k: int, sigma: Number, alpha: Number) -> Polynomial:
    """Return h_k, E [(x y + alpha y^2)^(2 k) | w], by powers of w, expanded in y = w x + noise."""
    from math import comb

    found: Polynomial = []
    for i in range(2 * k + 1):  # powers of alpha y^2; (x y)^(2 k - i) beside
        of_x, of_y = 2 * k - i, 2 * k + i
        for j in range(of_y + 1):  # powers of w x in y's
            term = comb(2 * k, i) * alpha**i * comb(of_y, j) * normal(of_x + j) * normal(of_y - j)
            found += [0] * (j + 1 - len(found))
            found[j] += term * sigma ** (of_y - j)
    return found
