"""Mixed tokens: a residual stream lets vanilla mix x and y in one number, with one head or enough of them.

Setting and notation of `theory.toy.positions` and `theory.toy.least_width`: W0 = 0, tokens of m numbers, G = sum of
f f^T, entries of W* in units of rho.  Write s = n + d + 1 + sigma^2, D = d (n + d + 1) + 2 d sigma^2 + sigma^4.

Residual stream.  Layer 2 reads R e_t + f_t in place of f_t, R: m x d the read-in, and what the query's token holds
is added to the prediction.
(1) If layer 1's scores are of positions, R e_t is what one more head of layer 1 would add, whose bias is the identity.
    So with enough heads all tokens that are possible without it are possible with it, and no others: what is explained
    changes by nothing but the second addition, a matrix C that does not depend on the context.
(2) C takes the mean off P's even part.  MHA then explains at most rho min(d^2, m (m+1) / 2), as before where layer 1's
    scores are of positions, but the half entry of `least_width`, part (B), is no longer lost for certain.
(3) Under the assumed copy the token of y_t is (A x_t ; B y_t) + R y_t, with a = m rows of A any A x_t + R y_t.  The
    theorem of `theory.toy.width` is then wrong: its B S_yx A^T was all the odd part held.  floor(m/2) ceil(m/2) is
    attained still, by an R without the rows of A, and is exceeded: at d = m = 1 it is 0.

Mixed tokens.  Let m = d + k, 0 <= k < d, c = d - k.  y_t's token holds x_1..x_k, y_1..y_k, of any size, and the c
numbers x_i + eta y_i of the other i, and x_t's token holds sqrt(tau) eta x_i in place of the latter.  tau = 0 where
positions can clear it, and tau = 4 for an assumed copy beside a residual stream: x_t is there as the copy's and as the
stream's.  (Rows x_1..x_k have R = 0, and rows y_1..y_k have B as large as one likes.)  With p = 1 + tau eta^2 let
    f_1 = 2 eta^2 s / (2 eta^2 s + p^2 + eta^4 D),
    f_2 = s / (s + eta^2 D),
    f_3 = eta^2 s / (eta^2 s + 1),
    f_0 = 4 eta^2 s / (4 eta^2 s + 2 p^2 + 4 p eta^2 c + 2 eta^4 (D + c d) + e),    e = n c (p + eta^2 (d + sigma^2))^2,
    or e = 0 where a residual stream gives the prediction a C.
Theorem.  With enough heads (m d in layer 2) that explains at least, and at k = 0 exactly,
    k^2 + k c (f_2 + f_3) + (c (c+1) / 2 - 1) f_1 + f_0                                       entries (`mixed_entries`).
One head of layer 2 explains, for every beta >= 0 (`of_one_head`),
    k^2 + k c (4 beta - beta^2 (1/f_2 + 1/f_3)) + 4 beta^2 (r - beta^2 ((r - 1) / f_1 + 1 / f_0)),      r = c (c+1) / 2.
At eta^2 = 1 / sqrt(D + tau^2) and tau = 0, f_1 = f_2 = f_3 = s / (s + sqrt(D)).  As n grows all f with e = 0 tend to 1,
so that at m = d, with a residual stream, one head in each layer attains d (d+1) / 2 entries in the limit, which is the
bound of (2): for long prompts vanilla explains (d+1) / (2d) of what SkipV1Former does, and not a quarter.

Proof.  P_ij may be any linear function g of G, and explains (E g W*_ij)^2 / E g^2 then; an entry of S_yx has variance
n s, and E[(S_yx)_ij W*_ij] = n.  So g = g_odd + g_even, with g_odd an entry of S_yx alone, explains E g_odd^2 / E g^2
entries.  Given X, the rows of y are independent normal with covariance K = X^T X + sigma^2 I among its n columns, and
E tr K^2 = n D.  So for i != j the entries (i, j) of S_xx, of S_yx and of S_yy have mean squares n, n s and n D and are
uncorrelated.
  i, j <= k     g is the entry y_i x_j itself.
  i <= k < j    g = y_i (x_j + eta y_j): 1 : eta^2 D are odd and even, which is f_2.
  j <= k < i    g = (x_i + eta y_i) x_j: eta^2 s : 1, which is f_3.
  i, j > k      The block is p S_xx + eta (S_yx + S_yx^T) + eta^2 S_yy.  Off the diagonal its mean squares are p^2 n,
                2 eta^2 n s and eta^4 n D, and P_ij = P_ji share what is explained: f_1 for every pair i < j.  Rotations
                of the c coordinates leave its law as it is, so the c - 1 traceless parts of its diagonal, which are
                rotated into these, give f_1 each.  Its trace over sqrt(c) has 2 p^2 n, 4 eta^2 n s and 2 eta^4 n D from
                the variances given X, and 4 p eta^2 n c and 2 eta^4 n c d from tr K, whose variance is 2 n d and whose
                covariance with the trace of S_xx is 2 n c; n e is the mean's square, where it counts.  So f_0.
One head: W = diag(1, .., beta / eta), K = lambda diag(1, .., beta) on (y_1..y_k, mixed) and (x_1..x_k, mixed) give the
four blocks the factors 1, beta, beta and beta^2 in units of lambda, over eta where g_odd has it.  A g that holds one
entry of S_yx explains 2 w - w^2 / f with a factor w, best at w = f.  A part of the last block holds two, so that its
factor counts double, w = 2 beta^2; there are r such parts, one of them the trace.
At k = 0 there is nothing else in G, and its parts are of different types under rotations, or orthogonal: no linear map
explains more.                                                                                                    QED

Depth attention.  Attention over depth (AttnRes) whose weights do not depend on the token, as at zero queries, where all
are equal, makes layer 2's input a multiple of R e_t plus one of f_t: all of this holds.  Weights that depend on the
token make layer 2's input no linear function of the prompt, and nothing here bounds it.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from theory.errors import InvalidSize, at_least, check_sizes
from theory.prompts.moments import Array
from theory.prompts.setting import Number

BESIDE_COPY = 4  # tau


def best_square(d: int, n: int, sigma: Number, tau: Number = 0) -> float:
    """Return eta^2 = 1 / sqrt(D + tau^2), where f_1 is largest.  Raises InvalidSize."""
    check_sizes(d, n, sigma)
    return 1 / sqrt(_spread(d, n, sigma) + tau**2)


def mixed_entries(
    d: int, n: int, sigma: Number, width: int, *, square: Number | None = None, tau: Number = 0, constant: bool = False
) -> Any:
    """Return the entries of W*, in units of rho, that vanilla's mixed tokens explain with enough heads.

    Args:
        d: Width of x and y.
        n: Context pairs.
        sigma: Standard deviation of the noise.
        width: m, from d to 2d.
        square: eta^2, by default `best_square`; exact if it is.
        tau: The factor of x_t's token.
        constant: Whether C takes the mean off.

    Raises:
        InvalidSize: for a width below d or above 2d.
    """
    k, c = _split(d, width)
    f_0, f_1, f_2, f_3 = _shares(d, n, sigma, c=c, square=square, tau=tau, constant=constant)
    return k**2 + k * c * (f_2 + f_3) + ((c * (c + 1) // 2 - 1) * f_1 + f_0 if c else 0)


def of_one_head(
    d: int,
    n: int,
    sigma: Number,
    width: int,
    beta: Number,
    *,
    square: Number | None = None,
    tau: Number = 0,
    constant: bool = False,
) -> Any:
    """Return the same as `mixed_entries` for a single head of layer 2, `mixed_head`."""
    k, c = _split(d, width)
    f_0, f_1, f_2, f_3 = _shares(d, n, sigma, c=c, square=square, tau=tau, constant=constant)
    beside = k * c * (4 * beta - beta**2 * (1 / f_2 + 1 / f_3))
    r = c * (c + 1) // 2
    return k**2 + beside + (4 * beta**2 * (r - beta**2 * ((r - 1) / f_1 + 1 / f_0)) if c else 0)


def best_of_one_head(d: int, n: int, sigma: float, width: int, *, tau: float = 0, constant: bool = False) -> float:
    """Return `of_one_head` at the best beta, and at the eta where a search ends.

    The search runs between 1/10 and 10 times `best_square`.
    """
    k, c = _split(d, width)
    middle = log(best_square(d, n, sigma, tau))

    def most(log_square: float) -> float:
        f_0, f_1, f_2, f_3 = _shares(d, n, sigma, c=c, square=exp(log_square), tau=tau, constant=constant)
        r = c * (c + 1) // 2
        slope = [-16 * ((r - 1) / f_1 + 1 / f_0), 0, 8 * r - 2 * k * c * (1 / f_2 + 1 / f_3), 4 * k * c]
        betas = [float(root.real) for root in np.roots(slope) if abs(root.imag) < 1e-9 and root.real > 0]
        of = [
            of_one_head(d, n, sigma, width=width, beta=beta, square=exp(log_square), tau=tau, constant=constant)
            for beta in betas
        ]
        return float(max(of))

    if not c:
        return float(k**2)
    end = minimize_scalar(
        lambda x: -most(x), bounds=(middle - log(10), middle + log(10)), method="bounded", options={"xatol": 1e-9}
    )
    return -float(end.fun)


def mixed_tokens(d: int, width: int, eta: Number, root: Number = 0) -> Array:
    """Return the tokens of y_t and of x_t as linear functions of (x, y): (2, m, 2d).

    `root` is the square root of tau.  The result is exact if eta is.
    """
    k, _ = _split(d, width)
    tokens = np.full((2, width, 2 * d), 0 * eta, dtype=object if not isinstance(eta, float) else float)
    for i in range(k):
        tokens[0, i, i] = tokens[0, k + i, d + i] = 1
    for i in range(k, d):
        tokens[0, k + i, i], tokens[0, k + i, d + i], tokens[1, k + i, i] = 1, eta, root * eta
    return tokens


def mixed_head(d: int, n: int, sigma: Number, width: int, eta: Number, beta: Number) -> tuple[Array, Array]:
    """Return a readout W: (d, m) and a key-query (m, d) with P = W G K, for which `of_one_head` holds."""
    k, _ = _split(d, width)
    step = 1 / (n + d + 1 + sigma**2)
    dtype = object if not isinstance(eta, float) else float
    readout, keys = np.full((d, width), 0 * step, dtype), np.full((width, d), 0 * step, dtype)
    for i in range(d):
        mixed = i >= k
        readout[i, k + i] = beta / eta if mixed else 1
        keys[k + i if mixed else i, i] = step * (beta if mixed else 1)
    return readout, keys


def _split(d: int, width: int) -> tuple[int, int]:
    check_sizes(d, 1, 0)
    at_least("width", width, d)
    if width > 2 * d:
        raise InvalidSize(f"from width 2d = {2 * d} on nothing is squeezed, got {width}")
    return width - d, 2 * d - width


def _spread(d: int, n: int, sigma: Number) -> Any:
    """Return D."""
    return d * (n + d + 1) + 2 * d * sigma**2 + sigma**4


def _shares(
    d: int, n: int, sigma: Number, c: int, square: Number | None, tau: Number, constant: bool
) -> tuple[Any, Any, Any, Any]:
    """Return f_0 to f_3."""
    e2 = best_square(d, n, sigma, tau) if square is None else square
    s, spread, p = n + d + 1 + sigma**2, _spread(d, n, sigma), 1 + tau * e2
    mean = 0 if constant else n * c * (p + e2 * (d + sigma**2)) ** 2
    even = 2 * p**2 + 4 * p * e2 * c + 2 * e2**2 * (spread + c * d) + mean
    return (
        4 * e2 * s / (4 * e2 * s + even),
        2 * e2 * s / (2 * e2 * s + p**2 + e2**2 * spread),
        s / (s + e2 * spread),
        e2 * s / (e2 * s + 1),
    )
