"""Checks behind the ledger's entries on the paper's model: Eqns. (2), (3), (5), (6) and Assumption 1, token by token.

Two of the entries need a proof.

A query that stays x_{n+1} (`skipv1.assumption1-query`).  Then M^h is any d x d matrix R, and of the proof in
`theory.skipv1.gap` only (4) mentions R: an ordinary head still sees S_yx through B S_yx A^T alone, a skip head through
S_yx A^T, whatever R is.  Both lower bounds stand, and the weights of (5) and (6) are among the new ones.

A copy that is any d x 2d matrix (`skipv1.assumption1-blocks`).  With u = A' x + B' y, both d x d, the odd part of
sum_t u_t u_t^T is A' S_xy B'^T + its transpose: a symmetric matrix, d (d + 1) / 2 numbers.  So T has at most that rank,
and (3) of `theory.skipv1.gap` gives MHA at most rho d (d + 1) / 2.  At d = 1, with u = alpha x + beta y, all heads together
read mu G, G = (1 + alpha^2) X + beta^2 Y + 2 alpha beta S_yx, X = S_xx, Y = S_yy.  The best mu explains
    E[G W*]^2 / E[G^2] = n^2 / (v + E(p X + q Y)^2 / 4),    p = (1 + alpha^2) / (alpha beta), q = beta / alpha,
where p q = 1 + alpha^-2 > 1 is all that binds p and q.  E(p X + q Y)^2 = p^2 E X^2 + q^2 E Y^2 + 2 p q E XY is at least
2 p q (sqrt(E X^2 E Y^2) + E XY), with equality for one p / q; so the supremum, not attained, is
    n^2 / (v + (sqrt(E X^2 E Y^2) + E XY) / 2) < n^2 / v = rho.                                                     QED
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import sympy

from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Heads
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array
from theory.toy.exact import odd_map, rational
from theory.toy.population import Weights
from theory.toy.tokens import Prompt, context, draw, draw_weights, full_key, output, whole

SIZES = ((0, 1, 1), (1, 1, 2), (1, 2, 1), (2, 3, 1), (1, 3, 4), (3, 3, 2))  # rank, d, n; one has d = 2n + 1


def output_is_linear_in_query(masked: bool) -> bool:
    """Doubling x_{n+1} doubles the prediction, for both models, with the mask P or without it."""
    rng = np.random.default_rng(24)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        mask = context(p.tokens) if masked else np.eye(2 * n + 1, dtype=object)
        for heads in (MHA, SKIPV1):
            twice = output(p.with_(query=2 * p.query), w, heads, mask)
            if (twice != 2 * output(p, w, heads, mask)).any():
                return False
    return True


def products_are_regular(width: Callable[[int], int]) -> bool:
    """W_O W_V, d x width times width x d, can be regular; whole numbers with a heavy diagonal."""
    rng = np.random.default_rng(25)
    for d in (2, 3, 4):
        eye = 30 * np.eye(d, width(d), dtype=int)
        if sympy.Matrix((whole(rng, d, width(d)) + eye) @ (whole(rng, width(d), d) + eye.T)).rank() != d:
            return False
    return True


def shared_value_rank(rank_of: Callable[[int, int], int]) -> bool:
    """The rank of T at a = d for five skip heads with readouts O_h V, V being layer 1's, of rank r."""
    rng = np.random.default_rng(26)
    for d in (1, 2, 3):
        for r in range(d + 1):
            w = draw_weights(rng, d, d, heads=5)
            value = np.diag([1] * r + [0] * (d - r)).astype(object)
            w = Weights(w.a + 9 * np.eye(d, dtype=int), w.b, w.w @ value, w.k)
            if sympy.Matrix(odd_map(w, (SKIP,) * 5)).rank() != rank_of(r, d):
                return False
    return True


def eqn3_conforms(transposed: bool) -> bool:
    """Eqn. (3) with TF_1(E)^T in the scores, or without as printed, is the reduced form of Eqn. (6)."""
    rng = np.random.default_rng(27)
    for a, d, n in SIZES:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        first = p.copied(w.a, w.b)
        left = first.T if transposed else first
        if left.shape[1] != d:
            return False
        heads = ((first, w.w[0], w.k[0]), (p.tokens, w.w[1], w.k[1]))
        out = sum(v @ values @ context(first) @ (left @ full_key(k) @ first) for values, v, k in heads)
        if (out[:, -1:] != reduced(p, w, SKIPV1) @ p.query).any():
            return False
    return True


def shared_projections_suffice(which: str) -> bool:
    """Two heads with any K^1 and K^2 have a form with one W_Q, as Eqn. (3) prints it; one W_K as well is too few."""
    rng = np.random.default_rng(28)
    for a, d, n in SIZES[1:]:
        w, p = draw_weights(rng, a, d), draw(rng, d, n)
        keys = w.k if which == "query" else np.stack([w.k[0], w.k[0]])
        out = output(p, Weights(w.a, w.b, w.w, keys), SKIPV1)
        if (out != reduced(p, w, SKIPV1) @ p.query).any():
            return False
    return True


def reduced(p: Prompt, w: Weights, heads: Heads, *, once: bool = False, swapped: bool = False) -> Array:
    """sum_h W^h G^h M^h of Eqns. (5) and (6), M^h = K^h A: (d, d).

    once       the second term of G for the last pair only, as if the sum did not reach it
    swapped    u y^T for y u^T in the skip head
    """
    u, y = p.labels(w.a, w.b), p.y
    if once:
        u, y = u[:, -1:], y[:, -1:]
    cross = u @ y.T if swapped else y @ u.T
    grams = {ORDINARY: u @ u.T, SKIP: cross}
    total: Array = sum(w.w[h] @ (p.x @ p.x.T + grams[head]) @ w.k[h] @ w.a for h, head in enumerate(heads))
    return total


def _reduces(heads: Heads, **reading: bool) -> bool:
    rng = np.random.default_rng(29)
    return all(
        (output(p, w, heads) == reduced(p, w, heads, **reading) @ p.query).all()
        for a, d, n in SIZES
        for w, p in [(draw_weights(rng, a, d), draw(rng, d, n))]
    )


def mha_reduces(whole_sum: bool) -> bool:
    return _reduces(MHA, once=not whole_sum)


def skipv1_reduces(order: str) -> bool:
    return _reduces(SKIPV1, swapped=order == "u y^T")


def n3_rank_is_at_most_a(query: str) -> bool:
    """The rank of the part of P that is odd in Y, for MHA, with the query (A x ; 0) or with x itself."""
    rng = np.random.default_rng(30)
    for a, d in ((1, 2), (1, 3), (2, 4)):
        w, p = draw_weights(rng, a, d), draw(rng, d, d)
        end = w.a if query == "compressed" else np.eye(d, dtype=object)
        keys = w.k if query == "compressed" else whole(rng, 2, d, d)
        whole_query = Weights(w.a, w.b, w.w, keys @ end)
        if sympy.Matrix(_odd_part(p, whole_query)).rank() > a:
            return False
    return True


def _odd_part(p: Prompt, w: Weights) -> Array:
    """Twice the odd part of sum_h W^h G M^h, with M^h in the place of the keys: (d, d)."""
    plus, minus = p.labels(w.a, w.b), p.labels(w.a, -w.b)
    total: Array = sum(w.w[h] @ (plus @ plus.T - minus @ minus.T) @ w.k[h] for h in range(len(w.w)))
    return total


def _map_rank(u_x: Array, u_y: Array, raw: bool, rng: np.random.Generator) -> int:
    """Rank of S_yx -> odd part of P, for u = u_x x + u_y y, free M^h and heads enough; raw: the values are y."""
    d = u_x.shape[1]
    heads = [(whole(rng, d, d), whole(rng, d, d)) for _ in range(d * d + 1)]
    rows = []
    for i in range(d):
        for j in range(d):
            s = np.zeros((d, d), dtype=object)
            s[i, j] = 1
            seen = s @ u_x.T if raw else u_x @ s.T @ u_y.T + u_y @ s @ u_x.T
            rows.append(np.concatenate([(w @ seen @ m).ravel() for w, m in heads]))
    return int(sympy.Matrix(rows).rank())


def free_query_rank(version: tuple[bool, Callable[[int, int], int]]) -> bool:
    raw, rank_of = version
    rng = np.random.default_rng(31)
    for d in (1, 2, 3):
        for a in range(d + 1):
            w = draw_weights(rng, a, d)
            top, bottom = w.a + 9 * np.eye(a, d, dtype=int), w.b + 9 * np.eye(d - a, d, dtype=int)
            u_x, u_y = np.concatenate([top, 0 * bottom]), np.concatenate([0 * top, bottom])
            if _map_rank(u_x, u_y, raw, rng) != rank_of(a, d):
                return False
    return True


def general_copy_rank(rank_of: Callable[[int], int]) -> bool:
    """u = A' x + B' y with any A' and B'; the identity twice has full rank."""
    rng = np.random.default_rng(32)
    for d in (1, 2, 3):
        eye = np.eye(d, dtype=object)
        ranks = [_map_rank(whole(rng, d, d), whole(rng, d, d), False, rng) for _ in range(3)]
        if max(ranks) > rank_of(d) or _map_rank(eye, eye, False, rng) != rank_of(d):
            return False
    return True


def general_copy_explains(supremum: Callable[[float], float]) -> bool:
    """d = n = 1, sigma = 0: what u = alpha x + beta y lets MHA explain is below the supremum, and within 1 % of it.

    By pairing, at alpha = 10 and betas around the best one; 1 + alpha^-2 sets the 1 %.
    """
    engine = PromptEngine(1)
    values = [(engine.n, 1), (engine.sigma, 0), (engine.w0[0][0], 0)]

    def mean(*kinds: str) -> Fraction:
        return rational(engine.expect(*((kind, 0, 0) for kind in kinds)), values)

    shares, alpha = [], 10
    for beta in (Fraction(k, 10) for k in range(20, 150, 5)):
        terms: dict[str, Fraction] = {"xx": Fraction(1 + alpha**2), "yy": beta**2, "yx": 2 * alpha * beta}
        hit = sum(c * mean(kind, "w") for kind, c in terms.items())
        power = sum(c * e * mean(f, g) for f, c in terms.items() for g, e in terms.items())
        shares.append(float(hit**2 / power))
    bound = supremum(float(mean("xx", "xx") * mean("yy", "yy")) ** 0.5)
    return 0.99 * bound <= max(shares) < bound
