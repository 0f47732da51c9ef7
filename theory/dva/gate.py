"""The dynamic head's gate beside that of gated attention: a linear gate on values of its own.

For one query's token x, a head's output is s U X with its softmax weights s and a value matrix U (w, d) of this query
(`theory.dva.collapse`); V is the head's value matrix, g a gate.
    ordinary            U = V
    gated attention     U = diag(g(x)) V,                   g = sigmoid of a linear map (Qiu et al. 2025), in (0, 1)
    dynamic values      U = V + diag(Q x) K
    in between          U = diag(1 + Q x) V                 dynamic values with K = V: a linear gate
1. Every linear gate is a dynamic head: 1 + Q x is g(x) up to second order where g is 1 at 0, times a constant for
   sigmoid: 2 sigmoid(z) = 1 + z / 2 + O(z^3).  The converse fails: the row U_k of a gated head is a multiple of V_k
   for every query, that of a dynamic one runs over the line V_k + t K_k.  So what coordinate k gets of two keys x_1,
   x_2 has one ratio <V_k, x_1> / <V_k, x_2> for all queries under a gate, whatever its function, and any ratio but one
   under dynamic values (`ratio`, `query_of_ratio`).  In the paper's words: the gate decides how much of hot's meaning a
   noun gets, not which.
2. A sigmoid gate keeps an output in the box |out_k| <= max_j |<V_k, x_j>|.  A dynamic head's grows with the square of
   the tokens' length: |out_k| <= max_j |<V_k, x_j>| + ||Q_k|| ||K_k|| R^2 for tokens of length R at most, and attains
   that for tokens that are all along one direction, if Q_k, K_k and V_k are (`most_of_coordinate`).  With a norm before
   the head R^2 = d, times the gains: so C_i of `theory.attnres.bounds` exists, and is larger by this term.
3. One gate cannot switch off a coordinate for a query and leave another coordinate's values as they are unless Q is
   wide enough: the w numbers Q x of n queries' tokens are any numbers if these are linearly independent.
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
    """<U_k, x_1> / <U_k, x_2>, what a coordinate gets of two keys; inf where the second is 0."""
    second = float(row @ other)
    return float(row @ one) / second if second else inf


def query_of_ratio(value: Array, key: Array, one: Array, other: Array, wanted: float) -> float:
    """The gate t = Q_k x with which V_k + t K_k has this ratio on two keys.

    Raises BadInput where no gate has it: <V_k, u> is not 0 and <K_k, u> is, u = x_1 - wanted x_2; or the gate makes
    both numbers 0.
    """
    u = one - wanted * other
    fixed, moved = float(value @ u), float(key @ u)
    if not moved:
        if not fixed:
            return 0.0
        raise BadInput(f"no gate makes the ratio {wanted:g}")
    gate = -fixed / moved
    if not (value + gate * key) @ other:
        raise BadInput(f"no gate makes the ratio {wanted:g}: where it would, both numbers are 0")
    return gate


def most_of_coordinate(value: Array, query: Array, key: Array, length: float) -> float:
    """What no coordinate of a dynamic head's output exceeds, for rows (d,) and tokens of this length at most."""
    import numpy as np

    v, q, k = (float(np.linalg.norm(row)) for row in (value, query, key))
    return v * length + q * k * length**2
