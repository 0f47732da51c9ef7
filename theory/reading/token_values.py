"""Layer 1's values as a function of the token, and what any map of them leaves of a later layer's values.

Setting.  A vocabulary of N tokens t with probabilities p(t); v_l in R^k is a later layer's value at a position, v_1 in
R^m layer 1's value there, all heads together.  Without positions, or with rotary ones, which turn queries and keys
alone, v_1 = V_1(t): nothing but the token's embedding, and perhaps a norm, stands before layer 1's value map.  Let
    G(t) = E[v_l | t],    s(t) = E[|v_l - G(t)|^2 | t],    Sigma = E[v_l v_l^T],
    M = E[v_1 v_1^T],     C = E[v_l v_1^T] = E[G(t) V_1(t)^T].
All are sums over the vocabulary (`TokenValues`, `by_token`).

1. Any map (`map_error`, `least_error`).  For every function f of v_1, whatever its form,
    E|v_l - f(v_1)|^2 = E s(t) + E|G(t) - f(V_1(t))|^2,
so no map of layer 1 beats E[v_l | token], which leaves E s(t): what the context, and not the token, made of v_l.  It is
reached if tokens with the same V_1 have the same G.
    Proof.  Given t the difference v_l - G(t) has mean zero and f(V_1(t)) is constant.                              QED

2. Linear maps (`linear_map`, `linear_error`, `schur_complement`).  The best is C M^+, and it leaves the Schur
complement
    Sigma - C M^+ C^T = E Cov(v_l | t) + [E G G^T - C M^+ C^T],
the first term out of reach of any map of v_1, the second the table G less the best linear read of it (`linear_loss`).
The second vanishes just if G = A V_1 on all tokens that occur, that is, if the columns of G lie in those of the table
V_1; always if the V_1 of these tokens are linearly independent, which takes N <= m; and the first just if v_l is a
function of the token too, as where no attention lies before it.
    Proof.  `refit` with y = v_l, z = v_1: C depends on v_l by G alone.  The second term is the same for y = G.     QED
    So with a norm that has no bias, an offset is no linear map of v_1: `with_offset` appends a 1 to v_1.

3. Any table of layer 1 (`least_linear_error`).  A V_1 is a table (N, k) of rank at most m.  So whatever embedding and
value map layer 1 has, its linear reads leave at least E s(t) plus the squares of the singular values of sqrt(p) G
beyond the first m, and some table leaves no more (Eckart, Young).

4. What attention reads.  A head reads r = sum_j a_j v_l(j) over positions j, and with a map f of layer 1
sum_j a_j f(t_j) = F c, c_t = sum_j a_j [t_j = t] the attention that token t gets and F (k, N) the table of f.  At fixed
patterns the best table is therefore `refit` with y = r and z = c, E[r c^T] E[c c^T]^+.  It is no worse than the table
G, and in general better: G is best for single values, but what single values miss can be alike in all positions of a
context and add up.  It is G if the misses v_l(j) - G(t_j) have mean zero given all tokens and the pattern.
    Proof.  Then E[r c^T] = E[(sum_j a_j G(t_j)) c^T] = G E[c c^T].                                                QED

Where it does not hold.  If positions are added to the embedding, v_1 is a function of the token and its position, and a
map of it can beat E[v_l | token]; the bound is then E[v_l | token, position].  If attention stands before the value map
that is read, as for a later layer's values or for values that are shifted along time, it is a function of the context.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from theory.errors import BadInput, at_least
from theory.reading.refit import Array, Moments, refit
from theory.reading.refit import least_error as least_of_moments
from theory.reading.refit import moments as moments_of


@dataclass(frozen=True, eq=False)
class TokenValues:
    """Layer 1's and a later layer's values by token.

    Attributes:
        chance: p, (N,).
        first: V_1, (N, m).
        mean: G, (N, k).
        scatter: Cov(v_l | t), (N, k, k).
    """

    chance: Array
    first: Array
    mean: Array
    scatter: Array


def by_token(tokens: Array, first: Array, later: Array, weights: Array | None = None) -> TokenValues:
    """Return values by token, of positions in all contexts of a finite distribution, or in samples.

    Args:
        tokens: Indices, (positions,).
        first: Layer 1's values, (positions, m); of a token their mean is taken.
        later: The later layer's values, (positions, k).
        weights: Probabilities, (positions,); default: equal.

    Returns:
        Values of the tokens that occur, by index.

    Raises:
        BadInput: These are not of the same positions.
    """
    if not len(tokens) == len(first) == len(later):
        raise BadInput("tokens and values must be of the same positions")
    chance = np.full(len(tokens), 1 / len(tokens)) if weights is None else weights
    there = np.unique(tokens)
    member = (tokens == there[:, None]) * chance
    share = member.sum(1)
    member = member / share[:, None]
    mean = member @ later
    away = later - mean[np.searchsorted(there, tokens)]
    return TokenValues(share, member @ first, mean, np.einsum("np,pi,pj->nij", member, away, away))


def with_offset(of: TokenValues) -> TokenValues:
    """Return the same values with a 1 beside layer 1's, so that linear maps have an offset."""
    return replace(of, first=np.column_stack([of.first, np.ones(len(of.first))]))


def map_error(of: TokenValues, table: Array) -> float:
    """Return E|v_l - f|^2 of a map of layer 1 given as its values by token, (N, k)."""
    return least_error(of) + float(of.chance @ ((of.mean - table) ** 2).sum(1))


def least_error(of: TokenValues) -> float:
    """Return E s(t), the least squared error of any map of layer 1's values."""
    return float(of.chance @ np.trace(of.scatter, axis1=1, axis2=2))


def linear_map(of: TokenValues) -> Array:
    """Return C M^+, (k, m), the linear map of layer 1's values with the least squared error."""
    return refit(_table_moments(of))


def linear_error(of: TokenValues) -> float:
    """Return the least squared error of a linear map of layer 1's values, the trace of `schur_complement`."""
    return least_error(of) + linear_loss(of)


def linear_loss(of: TokenValues) -> float:
    """Return what the best linear read of layer 1's values misses of the table G: 0 if G = A V_1."""
    return least_of_moments(_table_moments(of))


def schur_complement(of: TokenValues) -> Array:
    """Return Sigma - C M^+ C^T, (k, k), the second moments of what the best linear read leaves."""
    total = np.einsum("n,nij->ij", of.chance, of.scatter) + (of.mean.T * of.chance) @ of.mean
    return total - linear_map(of) @ _table_moments(of).cross.T


def least_linear_error(of: TokenValues, width: int) -> float:
    """Return the least squared error of linear reads of any table of `width` columns in place of layer 1's values."""
    at_least("width", width, 1)
    values = np.linalg.svd(np.sqrt(of.chance)[:, None] * of.mean, compute_uv=False)
    return least_error(of) + float((values[width:] ** 2).sum())


def offset_error(of: TokenValues) -> float:
    """Return the least squared error of a constant, E|v_l - E v_l|^2, against which R^2 counts."""
    return map_error(of, np.broadcast_to(of.chance @ of.mean, of.mean.shape))


def r_squared(of: TokenValues) -> float:
    """Return 1 minus the share of v_l's variance that the best linear map of layer 1's values, with an offset, leaves.

    Raises BadInput if v_l does not vary.
    """
    varies = offset_error(of)
    if not varies:
        raise BadInput("values that do not vary have no R^2")
    return 1 - linear_error(with_offset(of)) / varies


def raw_error(of: TokenValues) -> float:
    """Return E|v_l - v_1|^2, of the raw swap.  Raises BadInput if the values' widths differ."""
    if of.first.shape != of.mean.shape:
        raise BadInput("layer 1's values and the later layer's have different widths")
    return map_error(of, of.first)


def _table_moments(of: TokenValues) -> Moments:
    return moments_of(of.mean, of.first, of.chance)
