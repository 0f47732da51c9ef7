"""Gains of a layer 1 whose scores see contents: `theory.toy.positions` and `least_width` do not bound these.

Setting of `theory.toy.positions` at d = m = 1 and sigma = 0, so y_s = w x_s, w = W*.  There the scores of layer 1
depend on positions alone.  Here they depend on contents as well.

Theorem.  Let x_t's token become x_t + gamma y_t, y_t's token 0, and the query's token (1 - kappa S) x_{n+1}, with
S = sum_s x_s^2.  The query attends to itself by its position, and to every x_s by the score -kappa x_s x_{n+1}.
(1) One ordinary head of layer 2, P = c sum_t f_t^2 (1 - kappa S), explains at the best c
        4 gamma^2 / (1 + 6 gamma^2 + 3 gamma^4) * n (1 - kappa (n+2))^2 / ((n+2) D),
        D = 1 - 2 kappa (n+4) + kappa^2 (n+4) (n+6).
    The best kappa is 1 / (2 (n+4)): the second factor is n (n+6) / ((n+2) (n+4)).  At gamma = 3/4 the first is
    576/1363.  At n = 1, 2, 4 this explains 0.197, 0.282 and 0.352 of W*.  By (B) of `theory.toy.least_width` it is at
    most rho/2, rho = n / (n+2), which is 0.167, 0.25 and 0.333: (B) fails for n <= 6.
(2) One skip head on x_t's tokens, gamma = 0, P = c sum_t y_t f_t (1 - kappa S), explains the second factor alone.
    That is more than rho for every n: rho d^2 bounds no head either.
Proof.  S is chi-square with n degrees of freedom and independent of w, so E S^k = n (n+2) ... (n+2k-2).  With
h = S (1 - kappa S), P = c h (1 + gamma w)^2, and the best c explains (E w P)^2 / E P^2.  Here
    E w (1 + gamma w)^2 = 2 gamma,    E (1 + gamma w)^4 = 1 + 6 gamma^2 + 3 gamma^4,
    E h = n (1 - kappa (n+2)),        E h^2 = n (n+2) D.
For (2) P = c h w and E w^2 = 1.  The best h in the span of S and S^2 is the projection of 1: kappa = 1 / (2 (n+4)).
The first factor is largest at gamma^2 = 1/sqrt 3, where it is 0.4226; times (n+6) / (n+4) it exceeds 1/2 just for
n <= 6; and (n+6) / (n+4) > 1.                                                                                     QED

The reason: a step that is adapted to S is better than the one step lambda, which is the best for all prompts.

These scores weigh contents by position, as rotary ones do: the query's do not act on y_s.  Scores of the kind
`icl.toys.end_to_end` has, x x' M plus a bias of the positions, act on all tokens alike, the query itself included.
They break (B) as well (`additive_weights`), at n = 1 with 0.1754 for 1/6, at n = 2 with 0.2519 for 1/4.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from theory.errors import InvalidSize, at_least

GAMMA = Fraction(3, 4)


class Additive(NamedTuple):
    """Layer 1 at d = m = 1: every token t becomes sum_s (bias_ts + match e_s e_t) e_s.

    x_of_x, y_of_x: what x_t's token takes of x_t and y_t by position; x_of_y, y_of_y: what y_t's token takes of them;
    query: what the query takes of itself; match: the factor of the scores of contents, the same for all tokens.
    """

    x_of_x: Fraction
    y_of_x: Fraction
    x_of_y: Fraction
    y_of_y: Fraction
    query: Fraction
    match: Fraction


def best_kappa(n: int) -> Fraction:
    """Return 1 / (2 (n+4)), the best factor of the query's scores of contents.

    Raises:
        InvalidSize: for n below 1.
    """
    at_least("n", n, 1)
    return Fraction(1, 2 * (n + 4))


def explained_by_contents(n: int, kappa: Fraction, gamma: Fraction | None = GAMMA) -> Fraction:
    """Return the share of W* that one head of layer 2 explains, exactly.

    Args:
        n: pairs in the prompt.
        kappa: factor of the query's scores of contents; 0 for scores of positions alone.
        gamma: what x_t's token holds of y_t, for an ordinary head; None for a skip head.

    Raises:
        InvalidSize: for n below 1.
    """
    at_least("n", n, 1)
    spread = 1 - 2 * kappa * (n + 4) + kappa**2 * (n + 4) * (n + 6)
    adapted = n * (1 - kappa * (n + 2)) ** 2 / ((n + 2) * spread)
    return adapted if gamma is None else adapted * 4 * gamma**2 / (1 + 6 * gamma**2 + 3 * gamma**4)


def positions_ceiling(n: int) -> Fraction:
    """Return rho (m (m+1) / 2 - 1/2) at d = m = 1, sigma = 0: (B) of `theory.toy.least_width`, n / (2 (n+2)).

    Raises:
        InvalidSize: for n below 1.
    """
    at_least("n", n, 1)
    return Fraction(n, 2 * (n + 2))


def additive_weights(n: int) -> Additive:
    """Return weights of scores x x' M plus a bias that explain more than `positions_ceiling`, for n = 1 and 2.

    Raises:
        InvalidSize: for other n.
    """
    rows: dict[int, tuple[Any, ...]] = {
        1: ("0.2288", "0.1652", 1, "0.9542", "0.3312", "-0.0054"),
        2: ("0.1295", "0.0642", 1, "0.9665", "0.4392", "-0.0053"),
    }
    if n not in rows:
        raise InvalidSize(f"weights are known for n = 1 and 2, got {n}")
    return Additive(*map(Fraction, rows[n]))
