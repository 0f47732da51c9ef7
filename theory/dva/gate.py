"""The dynamic head's gate beside that of gated attention: a linear gate on values of its own.

For one query's token x, a head's output is s U X with its softmax weights s and a value matrix U (w, d) of this query
(`theory.dva.collapse`); V is the head's value matrix, g a gate.
    ordinary            U = V
    gated attention     U = diag(g(x)) V,                   g = sigmoid of a linear map (Qiu et al. 2025), in (0, 1)
    dynamic values      U = V + diag(Q x) K
    in between          U = diag(1 + Q x) V                 dynamic values with K = V: a linear gate
1. Every linear gate is a dynamic head, and up to second order so is every smooth one, g(z) = g(0) + g'(0) z + O(z^2).
   Where g(0) is not 0 that is a constant times 1 + Q x: 2 sigmoid(z) = 1 + z / 2 + O(z^3); tanh, 0 there, lacks the 1.
   The converse fails coordinate by coordinate, before an output matrix: the row U_k of a gated head is a multiple of
   V_k for every query, that of a dynamic one runs over the line V_k + t K_k.  So what coordinate k gets of two keys
   x_1, x_2 has one ratio <V_k, x_1> / <V_k, x_2> for all queries under a gate, whatever its function, and any ratio but
   one under dynamic values (`ratio`, `query_of_ratio`).  In the paper's words: in its own coordinates the gate decides
   how much of hot's meaning a noun gets, not which.
   Behind an output matrix it decides which, too, if the head is wide enough: a gated head of width 2 w with the values
   [V - K ; K], the linear gate (1, 1 + Q x) and the output matrix [I I] gives
       V - K + diag(1 + Q x) K = V + diag(Q x) K,
   the dynamic head of width w (`as_gated`); with sigmoids, (4 / eps) (sigmoid(eps Q x) - 1 / 2) = Q x + O(eps^2), it
   comes as near to that as one likes.  For the same reason theorem 3 of `theory.dva.meanings` finds gate and dynamic
   head alike in the paper's example.  What dynamic values add is this much width without its output matrix.
2. A sigmoid gate keeps an output in the box |out_k| <= max_j |<V_k, x_j>|.  A dynamic head's grows with the square of
   the tokens' length: |out_k| <= max_j |<V_k, x_j>| + ||Q_k|| ||K_k|| R^2 for tokens of length R at most, and attains
   that for tokens that are all along one direction, if Q_k, K_k and V_k are (`most_of_coordinate`).  With a norm before
   the head R^2 = d, times the gains: so C_i of `theory.attnres.bounds` exists, and is larger by this term.
3. A gate on a head's output leaves its scores as they are, whatever its function:
       g(x) * sum_j s_j v_j = sum_j s_j (g(x) * v_j),
   values scaled by the query.  What coordinate k gives to key j is g_k(x) s_j (`weights_of_coordinate`), and of two
   keys one over the other s_1 / s_2, as without: so no key is left out that was not, unless all are, and none weighs
   more beside another.  A gate on the keys' own values, g(x_j), would do that: s_1 g(x_1) / (s_2 g(x_2)).
4. A linear gate switches one coordinate off for a token x and leaves the others as they are: Q_k x = -1 and 0
   elsewhere, which some Q makes of every x but 0, whatever the widths.  For n tokens at once it makes every table of
   gates Q X, (w, n), if and only if they are linearly independent; else they have the dependencies of the tokens.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from theory.errors import BadInput

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def ratio(row: Array, one: Array, other: Array) -> float:
    """Return <U_k, x_1> / <U_k, x_2>, a coordinate's ratio on two keys; inf where the second is 0."""
    second = float(row @ other)
    return float(row @ one) / second if second else inf


def query_of_ratio(value: Array, key: Array, one: Array, other: Array, wanted: float) -> float:
    """Return a gate t = Q_k x with which V_k + t K_k has this ratio on two keys.

    With u = x_1 - wanted x_2 it solves <V_k, u> + t <K_k, u> = 0: one number, or, if both products are 0, any but one,
    of which it is 0 or 1.  Raises BadInput where no gate has the ratio: <K_k, u> alone is 0; or both numbers, which are
    to have it, are 0 themselves.
    """
    u = one - wanted * other
    fixed, moved = float(value @ u), float(key @ u)
    if fixed and not moved:
        raise BadInput(f"no gate makes the ratio {wanted:g}")
    gates = (-fixed / moved,) if moved else (0.0, 1.0)
    for gate in gates:
        if (value + gate * key) @ other:
            return gate
    raise BadInput(f"no gate makes the ratio {wanted:g}: where it would, both numbers are 0")


def weights_of_coordinate(shares: Array, gate: Array) -> Array:
    """Return the weight of each key in each coordinate of a gated head's output.

    Shapes: shares (keys,), gate (w,); the result (w, keys).
    """
    return gate[:, None] * shares[None]


def as_gated(value: Array, key: Array) -> tuple[Array, Array]:
    """Return values (2 w, d) and the output matrix (w, 2 w) with which the gate (1, 1 + Q x) makes V + diag(Q x) K."""
    import numpy as np

    return np.concatenate([value - key, key]), np.tile(np.eye(len(value)), 2)


def most_of_coordinate(value: Array, query: Array, key: Array, length: float) -> float:
    """Return a bound on a coordinate of a dynamic head's output, for rows (d,) and tokens of at most this length."""
    import numpy as np

    v, q, k = (float(np.linalg.norm(row)) for row in (value, query, key))
    return v * length + q * k * length**2
