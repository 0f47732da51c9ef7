"""SkipV1Former's loss gap around W0 != 0 at d = 2: with two heads the printed inequality is true.

Setting and notation of `theory.skipv1.w0`.  Theorem 5 of `theory.skipv1.w0_heads` leaves out W0 with s_1 much larger
than s_2: there MHA is best at a = 1, where it sees a row of Y, and the weights of Theorem 5, at a = 2, see none.

Let u s_1 v^T + u' s_2 v'^T be the singular value decomposition of W0, sigma > 0, s_1 > 0, and
    T = 2n + 6 + 4 sigma^2 + sigma^4,                 r = sigma^2 / (T - sigma^2),
    kappa = tau_1 (1 - sigma^2 / T) / 2,              l = lambda / (kappa s_1).
kappa (tr S + r u^T Y u) is the best estimate of 1 from tr S and u^T Y u, its error is tau_1 (Theorem 2).

Theorem 6.  If lambda / kappa < 1 + r s_1^2 and lambda / kappa != 2 r s_1^2, one ordinary and one skip head suffice for
    inf L_skipv1(1) < 2 sigma^2 + 4 - rho + s_2^2 + tau_1 s_1^2,                MHA's floor at a = 1.
So at d = 2 SkipV1Former with two heads is strictly better than MHA with any number of heads, around every W0 (but
perhaps some with 2 r s_1^2 = lambda / kappa), and so wherever s_2 > 2 sqrt(2) sigma, the printed hypothesis.
Proof.  A = alpha v^T, B = beta u^T, K^1 = (1 ; t), K^2 = (1 ; 0).  As u^T W0 = s_1 v^T,
    G_11 = S_11 + alpha^2 v^T S v,          G_12 = S_12 + alpha beta (s_1 v^T S v + u^T Z v),
    G_22 = S_22 + beta^2 (s_1^2 v^T S v + 2 s_1 u^T Z v + u^T Y u),
    H = S e_1 + alpha (W0 S v + Z v)        for the skip head.
(1) x G_11 + y G_12 + z G_22 + g u^T H = tr S + r u^T Y u + l u^T Z v, if, with c = x alpha^2 - r s_1^2 + l s_1,
        z beta^2 = r,    y alpha beta + 2 r s_1 + g alpha = l,
        x + g u_1 + c v_1^2 = 1,    z + c v_2^2 = 1,    y + g u_2 + 2 c v_1 v_2 = 0.
    The first row of (G_11 G_12 ; G_12 G_22)(1 ; t), times x, and z/t times the second make the first three terms if
    x t^2 - y t + z = 0.  So let W^1 = kappa s_1 / alpha u (x, z/t) and u u^T W^2 = g kappa s_1 / alpha u u^T: then
    u^T P = [kappa s_1 (tr S + r u^T Y u) + lambda u^T Z v] v^T, of error s_1^2 tau_1 + 1 - rho along v.
(2) Such numbers exist.  For c < 1, z = 1 - c v_2^2 is positive.  Give beta the sign that makes beta u_2 <= 0; then
        g = [(l - 2 r s_1) / alpha + 2 c v_1 v_2 beta] / (1 - beta u_2),
    and x and y follow.  c = l s_1 - r s_1^2 + x alpha^2 is left.  The right side is continuous in c and tends to
    l s_1 - r s_1^2 = lambda / kappa - r s_1^2 < 1 as alpha -> 0, since x grows like 1/alpha at most; so there is such
    a c for every small alpha.  And g grows like 1/alpha, with the sign one likes.  If u_1 != 0, let g u_1 be positive:
    x < 0 < z.  If u_1 = 0, y grows and x does not.  Either way y^2 > 4 x z, and there is a t.
(3) u'^T P = theta u'^T H alpha v^T: as E[u'^T H u'^T D v] = alpha n != 0, the best theta gains
    (alpha n)^2 / E (u'^T H)^2 on the error 1 that is left along v.  Across v, 2 + s_2^2 are left.
(4) At a = 0 and a = 2 MHA's floors exceed what Theorem 5 reaches by 2 rho at least, and at a = 1 unless
        s_1^2 (tau_0 - tau_1) >= rho + (1 - tau_0) s_2^2.
    If so, r s_1^2 >= r rho / (tau_0 - tau_1) = (lambda / kappa)(n + 1) / sigma^2.  That is lambda / kappa or more for
    sigma^2 <= n + 1.  Else, with q = sigma^2 / (n + 1) > 1,
        lambda / kappa - r s_1^2 <= (1 - 1/q) lambda / kappa < (1 - 1/q)(6/5) 3 / (1 + q) < 1:
    lambda / kappa = T / (T - sigma^2) (2n + 2 + e) / (n + 3 + sigma^2) with e < n, T - sigma^2 > sigma^2 (3 + sigma^2)
    and sigma^2 > 2; and 18 (q - 1) < 5 q (q + 1) always.
    2 r s_1^2 = lambda / kappa says s_1^2 = T (2n + 2 + e) / (2 sigma^2 (n + 3 + sigma^2)) <= (3n + 2)(1/2 + 1/sigma^2).
    With s_2^2 > 8 sigma^2, Theorem 5's bracket says s_1^2 > 8 sigma^2 (3n + 2) and s_1^2 > 32 (n + 1)(n + 3) / sigma^2:
    the former is more for sigma >= 1, the latter for sigma <= 1.                                                QED

The margin is positive but depends on W0: it is rho at least where Theorem 5 gives it, and (3) elsewhere.
"""

from __future__ import annotations

from math import copysign

import numpy as np

from theory.errors import BadInput, InvalidSize, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import signal_share
from theory.skipv1.w0 import constant_share, mha_floor, spread
from theory.toy.population import Weights

ROUNDS = 500  # of the fixed-point iteration for c, which contracts by a factor of the order of alpha


def rank_one_loss(n: int, sigma: float, w0: Array, alpha: float) -> float:
    """Return the loss of `rank_one_weights`, where they exist: MHA's floor at a = 1 minus the gain of step (3)."""
    check_sizes(2, n, sigma, 1)
    singular = np.linalg.svd(w0, compute_uv=False)
    return float(
        mha_floor(2, n, sigma, squares=list(singular**2), rank=1) - (alpha * n) ** 2 / _power(n, sigma, w0, alpha)
    )


def rank_one_weights(n: int, sigma: float, w0: Array, alpha: float) -> Weights:
    """Return weights of the heads `theory.plans.heads.SKIPV1` at d = 2, a = 1.  Theorem 6; w0: (2, 2).

    They exist for small alpha of one sign or the other; raises BadInput for others.
    """
    check_sizes(2, n, sigma, 1)
    left, (s_1, _), right = np.linalg.svd(w0)
    if not sigma or not s_1 or not alpha:
        raise InvalidSize("sigma, W0 and alpha must not be zero")
    u, v = left[:, 0].tolist(), right[0].tolist()
    total = spread(2, n, sigma)
    r, kappa = sigma**2 / (total - sigma**2), constant_share(2, n, sigma, 1) * (1 - sigma**2 / total) / 2
    step = signal_share(2, n, sigma) / n / (kappa * s_1)
    start = c = step * s_1 - r * s_1**2
    for _ in range(ROUNDS):
        z = 1 - c * v[1] ** 2
        if z <= 0:
            break
        beta = (-1 if u[1] > 0 else 1) * (r / z) ** 0.5
        g = ((step - 2 * r * s_1) / alpha + 2 * c * v[0] * v[1] * beta) / (1 - beta * u[1])
        x, y = 1 - g * u[0] - c * v[0] ** 2, -2 * c * v[0] * v[1] - g * u[1]
        before, c = c, start + x * alpha**2
        if abs(c - before) <= 4 * np.finfo(float).eps * (1 + abs(c)) and y**2 >= 4 * x * z:
            t = 2 * z / (y + copysign((y**2 - 4 * x * z) ** 0.5, y))
            return _weights(
                n, sigma, w0, alpha=alpha, beta=beta, readout=kappa * s_1 / alpha * np.array([x, z / t, g]), t=t
            )
    raise BadInput(f"Theorem 6 has no weights at alpha = {alpha}; try the other sign, or a smaller one")


def _weights(n: int, sigma: float, w0: Array, alpha: float, beta: float, readout: Array, t: float) -> Weights:
    left, _, right = np.linalg.svd(w0)
    (u, rest), v = left.T, right[0]
    theta = n / _power(n, sigma, w0, alpha)
    return Weights(
        a=alpha * v[None],
        b=beta * u[None],
        w=np.stack([np.outer(u, readout[:2]), readout[2] * np.outer(u, u) + theta * np.outer(rest, rest)]),
        k=np.array([[[1.0], [t]], [[1.0], [0.0]]]),
    )


def _power(n: int, sigma: float, w0: Array, alpha: float) -> float:
    """Return E (u'^T H)^2, from E[a^T S b c^T S d] = n^2 (a.b)(c.d) + n (a.c)(b.d) + n (a.d)(b.c)."""
    left, (_, s_2), right = np.linalg.svd(w0)
    rest, (v, across) = left[:, 1], right
    of_s = n**2 * rest[0] ** 2 + n * (1 + rest[0] ** 2)
    mixed = n * (rest @ across * v[0] + rest @ v * across[0])
    return float(of_s + 2 * alpha * s_2 * mixed + alpha**2 * n * (s_2**2 + n + 3 + sigma**2))
