"""One dynamic head against ordinary heads, over all of R^d or a sphere, and two dynamic heads against one.

Setting.  One layer, tokens x_1, x_2, ... (columns), what the last of them gets.  An ordinary head h gives it
sum_j s_j W_h x_j, W_h its value and output together and s a softmax of scores that are bilinear in the query's token
and the keys'.  A dynamic head gives sum_j s_j U x_j with U = V + diag(Q x) K, x being the query's own token
(`theory.dva.collapse`).

Tokens are one of three things.  Free: all of R^d.  Normed: of one length r > 0, as RMSNorm leaves them (gains in the
matrices, no biases).  Mean-free: of one length and of mean 0, as LayerNorm leaves them.  The last is normed in d - 1
dimensions: a row (of Q, K, W, or a score direction) is what it does to vectors of mean 0, and nothing if it is constant
(`on_mean_free`).  "Zero", "equal" and "opposite" below are meant so.

Theorem 1 (ordinary heads cannot).  A token that attends to itself alone, as the first of a causal sequence, gets
    (sum_h W_h) x            from any number of ordinary heads: linear,
    V x + (Q x) * (K x)      from a dynamic head without an output matrix: a quadratic form in each coordinate.
Unless every coordinate k has a zero row, Q_k = 0 or K_k = 0, no number of ordinary heads of any width makes the same
of all x.
    Proof.  V x - sum W_h x is odd in x and (Q x) * (K x) is even; if they add up to zero on a set that holds -x with
    x, both are zero there.  <Q_k, x> <K_k, x> = 0 on a sphere makes it zero everywhere, and a product of two linear
    forms is zero only if one of them is.                                                                        QED
Over a finite vocabulary this does not hold: there ordinary heads can do the same (`theory.dva.meanings`).  Nor is it
said of a dynamic head with an output matrix.
So the gate is a nonlinearity of the token itself: `theory.dva.feed_forward`.

Theorem 2 (a dynamic head cannot).  Fix a token y, the second of a causal sequence, which sees itself and the first,
y + delta.  Heads that have for this query the score directions a_h give it
    f(delta) = sum_h W_h y + sum_h sigmoid(<a_h, delta>) W_h delta,
a dynamic head U y + sigmoid(<c, delta>) U delta.  Let a_1, ..., a_H be nonzero with a_h != +- a_h' for h != h', and no
W_h zero.  If tokens are free, or normed and d >= 2 (mean-free and d >= 3), a dynamic head makes the same of all first
tokens only if H = 1.
    Proof.  Both are analytic in delta, so they agree for complex delta as well, but for poles: in C^d, or where
    x = y + delta has <x, x> = r^2 (without conjugation), a connected manifold, as d >= 2, whose real points are the
    tokens.  sigmoid's poles are simple, at i pi times an odd number.  Of the directions a_1, ..., a_H, c that are
    multiples of one another take the longest, p, and H_p = {<p, delta> = i pi}: those that are shorter have no pole
    there, and those that are not multiples of p have one in a lower dimension of it.  (Normed, d = 2, H_p is two
    points: a second pole would make delta = i v with v real, and <y + i v, y + i v> = r^2 + 2 i <y, v> - |v|^2 is r^2
    only for v = 0.)  So the residue at H_p, C delta with C = W_h, or -U for p = c, or W_h -+ U for p = a_h = +- c, is
    zero on H_p.  Free, H_p spans C^d.  Normed, x = s p / |p|^2 + z with s = <p, y> + i pi, z orthogonal to p and
    <z, z> = r^2 - s^2 / |p|^2, which is not 0, as s is not real: such x span H_p.  So C = 0, and its term is gone; go
    on with the next longest.  Hence W_h = 0 for every h with a_h != +- c: there is none but one.                 QED
(One dimension is too few: normed tokens are then +- r, and what two heads of directions a_1, a_2 and W_1 = W_2 = 1 give
is one head's with W = 2 and tanh(r c) = (tanh(r a_1) + tanh(r a_2)) / 2.)
The dynamic head's matrix U may depend on the query as it likes, an output matrix in it or not: theorem 2 holds for each
query by itself, and for any rule whatever that makes one softmax's weighted mean of U x_j.  With sums of dynamic heads
in place of one the proof says the same of each direction: `patterns` counts those, up to sign, that carry
something, and H of them take H heads at least, ordinary or dynamic.

Two heads with opposite directions, a_2 = -a_1, are W_2 delta + sigmoid(<a_1, delta>) (W_1 - W_2) delta beside
(W_1 + W_2) y: one pattern, but one head has it only if W_2 = 0, W_1 = 0 or (c = 0) W_1 = W_2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from theory.errors import BadInput

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

Head = tuple["Array", "Array"]  # score direction a (d,) of one query, and W (w, d)


def attended_by(heads: Sequence[Head], tokens: Array) -> Array:
    """Return sum_h sum_j softmax_j(<a_h, x_j>) W_h x_j.  tokens (d, T); (w,)."""
    import numpy as np
    from scipy.special import softmax

    return np.sum([w @ tokens @ softmax(a @ tokens) for a, w in heads], axis=0)


def alone(v: Array, query: Array, key: Array, x: Array) -> Array:
    """Return V x + (Q x) * (K x), a dynamic head's output for a token that sees itself alone.

    Shapes: matrices (w, d), x (d,).
    """
    return v @ x + (query @ x) * (key @ x)


def on_mean_free(rows: Array) -> Array:
    """Return the action of rows (..., d) on tokens of mean 0.

    It is their products with e_2 - e_1, ..., e_d - e_(d-1): (..., d - 1).
    """
    import numpy as np

    return np.diff(rows, axis=-1)


def is_linear_alone(query: Array, key: Array) -> bool:
    """Return whether ordinary heads could do the same to a token alone: each coordinate lacks one of its rows.

    This holds for free or normed tokens; behind LayerNorm, pass `on_mean_free` of both.
    """
    return bool((~(query.any(1) & key.any(1))).all())


def patterns(heads: Sequence[Head]) -> int:
    """Return how many score directions, up to sign, one query has in heads that carry something; exact if they are.

    A dynamic head has one, so with two of them no dynamic head makes the same (theorem 2: of free tokens, or of normed
    ones in two dimensions; behind LayerNorm, given `on_mean_free` of a and W, in two of these).  Heads of one direction
    are one, with the sum of their W; opposite ones are one if W_1 - W_2 is not zero.  Raises BadInput for other shapes.
    """
    import numpy as np

    if len({(np.shape(a), np.shape(w)) for a, w in heads}) > 1:
        raise BadInput("heads that are added have matrices of one shape")
    carried: list[tuple[Array, Array]] = []
    for a, w in heads:
        if not np.any(a):
            continue
        for i, (other, so_far) in enumerate(carried):
            if np.array_equal(a, other):
                carried[i] = other, so_far + w
                break
            if np.array_equal(a, -other):
                carried[i] = other, so_far - w
                break
        else:
            carried.append((a, w))
    return sum(bool(np.any(w)) for _, w in carried)
