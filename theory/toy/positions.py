"""Bounds for two layers of linear attention whose first layer sees positions, without Assumption 1.

Setting.  As in `theory.skipv1.gap`, at W0 = 0, but tokens E = (x_1, y_1, ..., x_n, y_n, x_{n+1}) are read into width m
>= d and the first layer's scores depend on positions alone: with any number of heads,
    f_t = sum over s of C_ts e_s,     e_s the raw token in R^d, C_ts = sum_h R^h_st V_h (read-in), m x d,
where the last token attends to itself and to the context, and no other token attends to it.  Layer 2 predicts
    sum_h W_h G_h K_h f_{2n+1},    G = sum_t f_t f_t^T of an ordinary head, sum_t e_t f_t^T of a skip head (t <= 2n).

Theorem.  With lambda, rho as in `theory.skipv1.gap` and whatever the weights, numbers of heads included, the loss is at
least d^2 + d sigma^2 minus
    rho d^2                        with any heads,
    rho min(d^2, m (m+1) / 2)      if all heads of layer 2 are ordinary (MHA); not attained where m (m+1) / 2 <= d^2.
With two heads in each layer,
    rho d^2                        is attained by SkipV1Former at m = d,
    rho floor(m/2) ceil(m/2)       is attained by MHA, for d <= m <= 2d,
    rho (d^2/4 + d/2)              is attained by MHA at m = d, for even d.

These bounds hold if layer 1's scores depend on positions alone; scores of contents break them
(`theory.toy.content_scores`).

So Assumption 1 does not only ask of Eqn. (2) what it cannot do: it also holds MHA back, whose share at m = d it limits
to floor(d^2/4) entries, half of what MHA attains at d = 2 and two thirds at d = 4; and that even this is not attained
(`theory.skipv1.gap`) is because it keeps the x tokens.  At m = d a gap remains, of rho d (d-1) / 2 at least.
But m = 2d is more than what the bound asks of MHA, which is about sqrt(2) d; with more than two heads MHA comes as near
to rho d^2 as one likes at m = 2d - 1, and what lies between is open (`theory.toy.least_width`).

Proof.
(1) The query.  f_{2n+1} = C x_{n+1} + r, r from the context.  As x_{n+1} has mean zero and is independent of it, the
    loss is E ||P - W*||^2 + d sigma^2 + E ||sum_h W_h G_h K_h r||^2, P = sum_h W_h G_h K_h C: r only hurts.
(2) P is quadratic in the context; by the sign flip of (W*, noise) only its odd part, a linear map T of the matrices
    Z_sr = y_s x_r^T, meets W*, and its even part only hurts.
(3) W* - lambda S_yx is uncorrelated with all Z.  For s != r flip the sign of (x_r, noise_r), and so of y_r: the law, W*
    and all Z_uu stay, Z_sr turns its sign, so it is uncorrelated with W* and with S_yx.  For s = r, the pairs are
    exchangeable: E[S_yx (x) Z_ss] = E[S_yx (x) S_yx] / n = I / lambda, and E[W* (x) Z_ss] = I.
    Hence E ||T(Z) - W*||^2 = d^2 (1 - rho) + E ||T(Z) - lambda S_yx||^2, which is the first bound.
(4) If all heads are ordinary they share one G, a symmetric m x m matrix, so T(Z) lies in a space of at most
    r = m (m+1) / 2 dimensions.  S_yx has uncorrelated entries of variance n / lambda, so what of lambda S_yx is
    orthogonal to that space has mean square lambda n (d^2 - r) = rho (d^2 - r): the second bound.
(5) Equality at r <= d^2 needs a map of G that is injective on the symmetric matrices and gives no even part: then the
    even part of G vanishes.  It is a sum of positive semidefinite matrices, those of the x parts and those of the y
    parts of all f_t.  So all f_t vanish, and P too: a contradiction.
(6) Copying is among what positions can do.  With A = (I_a 0), B = (0 I_b), a + b = m, let y_t's token become
    (A x_t ; B y_t), by one head that looks one token back and one that stays, and let x tokens become zero.  Then the
    lower left block of G is B S_yx A^T and has no even part, and lambda B^T (it) A explains rho a b
    (`copying_weights`).  In a skip head, A = I gives G = S_yx.
(7) Let d = m be even, J orthogonal with J^2 = -I.  Let x_t's token become x_t + y_t and y_t's J (x_t - y_t), with value
    matrices I and J.  With D = S_xx + S_yy and N = S_yx + S_yx^T, G = D + N - J (D - N) J, and
        G + J G J = 2 (N + J N J):
    the even part cancels exactly.  M -> (M + J M J)/2 is the orthogonal projection on the matrices that anticommute
    with J, and keeps symmetric ones symmetric, so (lambda/8) (G + J G J) = lambda Pi S_yx, with Pi the projection on
    the symmetric matrices that anticommute with J.  These are the complex symmetric matrices of size d/2, of real
    dimension d^2/4 + d/2, and lambda Pi S_yx explains rho times that, by (3).  W_1 = lambda/8, K_1 = I,
    W_2 = (lambda/8) J, K_2 = J: two heads (`rotating_weights`).                                                   QED

The mask P of Eqn. (2).  If the last token is hidden from itself too, as printed, then C = 0 and nothing is explained;
with scores of contents, f_{2n+1} = sum_h V_h E_c (E_c^T M_h x_{n+1} + r_h) with E_c the 2n context tokens: for E_c = 0
it is zero, while Assumption 1 has A x_{n+1} there whatever the context.  So Assumption 1 needs its first layer to see
positions, and to have another mask than P.

With scores of contents beside the positions, tokens are cubic in the prompt and none of these bounds holds
(`theory.toy.content_scores` exceeds two of them at d = 1): the Bayes posterior mean (`regression.ridge`) is what limits
all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.errors import InvalidSize, at_least, check_sizes
from theory.plans.heads import Heads
from theory.prompts.moments import Array
from theory.prompts.setting import Number, signal_share


@dataclass(frozen=True, eq=False)
class TwoLayers:
    """The weights of both layers, where layer 1's scores see no contents.  All sums over tokens are plain.

    read_in: (m, d); bias: (H, T, T), from key position to query position; value: (H, m, m), the first layer's V_h;
    key_query: (H, m, m), the second one's K_h = W_K^T W_Q; readout: (H, d, m), its W_h.
    """

    read_in: Array
    bias: Array
    value: Array
    key_query: Array
    readout: Array


def most_entries_with_positions(heads: Heads, d: int, width: int) -> int:
    """Return how many of W*'s d^2 entries no weights exceed, in units of rho, if layer 1's scores see positions alone.

    Raises InvalidSize for a width below d.
    """
    check_sizes(d, 1, 0)
    at_least("width", width, d)
    ordinary = all(not head.raw and not head.key_raw for head in heads)
    return min(d**2, width * (width + 1) // 2) if ordinary else d**2


def copying_weights(d: int, n: int, sigma: Number, width: int) -> TwoLayers:
    """Return weights of MHA with rho floor(m/2) ceil(m/2).

    The y tokens hold a pair squeezed to m numbers, the x tokens nothing; step (6).  The second head of layer 2 is
    switched off.  Raises InvalidSize for a width below d or above 2d.
    """
    step = float(signal_share(d, n, sigma)) / n
    at_least("width", width, d)
    if width > 2 * d:
        raise InvalidSize(f"from width 2d = {2 * d} on nothing is squeezed, got {width}")
    upper = width // 2
    lower = width - upper
    value, key_query, readout = np.zeros((2, width, width)), np.zeros((2, width, width)), np.zeros((2, d, width))
    value[0, :upper, :upper] = np.eye(upper)
    value[1, upper:, d - lower : d] = np.eye(lower)
    key_query[0] = np.eye(width)
    readout[0, d - lower :, upper:] = step * np.eye(lower)
    bias = np.zeros((2, 2 * n + 1, 2 * n + 1))
    for y in range(1, 2 * n, 2):
        bias[0, y - 1, y] = bias[1, y, y] = 1
    bias[0, -1, -1] = 1
    return TwoLayers(np.eye(width, d), bias, value, key_query=key_query, readout=readout)


def explained_by_rotating(d: int, n: int, sigma: Number) -> Any:
    """Return rho (d^2/4 + d/2), which `rotating_weights` of width d explain.  Raises InvalidSize for an odd d."""
    _even(d)
    return signal_share(d, n, sigma) * (d**2 // 4 + d // 2)


def rotating_weights(d: int, n: int, sigma: float) -> TwoLayers:
    """Return weights of MHA at width d, two heads in each layer, that explain `explained_by_rotating`.  Step (7).

    Raises InvalidSize for an odd d.
    """
    _even(d)
    share = float(signal_share(d, n, sigma)) / n / 8
    eye, half = np.eye(d), np.eye(d // 2)
    turn = np.kron(np.array([[0.0, -1.0], [1.0, 0.0]]), half)
    bias = np.zeros((2, 2 * n + 1, 2 * n + 1))
    for x in range(0, 2 * n, 2):
        bias[0, [x, x + 1], x] = 1
        bias[1, [x, x + 1], x + 1] = 1, -1
    bias[0, -1, -1] = 1
    return TwoLayers(
        eye, bias, np.stack([eye, turn]), key_query=np.stack([eye, turn]), readout=share * np.stack([eye, turn])
    )


def _even(d: int) -> None:
    check_sizes(d, 1, 0)
    if d % 2:
        raise InvalidSize(f"a rotation whose square is -1 needs an even d, got {d}")
