"""What one dynamic head does that no number of ordinary heads can, and what two ordinary heads do that it cannot.

Setting.  One layer, tokens x_1, x_2, ... (columns), what the last of them gets.  An ordinary head h gives it
sum_j s_j W_h x_j, W_h its value and output together and s a softmax of scores that are bilinear in the query's token
and the keys'.  A dynamic head gives sum_j s_j U x_j with U = V + diag(Q x) K, x being the query's own token
(`theory.dva.collapse`).

Theorem 1 (ordinary heads cannot).  A token that attends to itself alone, as the first of a causal sequence, gets
    (sum_h W_h) x            from any number of ordinary heads: linear,
    V x + (Q x) * (K x)      from a dynamic head: a quadratic form in each coordinate.
Unless every coordinate k has a zero row, Q_k = 0 or K_k = 0, no number of ordinary heads of any width makes the same
of all x, nor of all x of one length.
    Proof.  V x - sum W_h x is odd in x and (Q x) * (K x) is even; if they add up to zero on a set that holds -x with
    x, both are zero there.  <Q_k, x> <K_k, x> = 0 on a sphere makes it zero everywhere, and a product of two linear
    forms is zero only if one of them is.                                                                        QED
So the gate is a nonlinearity of the token itself: `theory.dva.feed_forward`.

Theorem 2 (a dynamic head cannot).  Fix the query's token and let it see two others, y + delta and y, and nothing else
(scores of its own are masked, or the same at y).  Heads with score directions a_h give
    f(y, delta) = sum_h W_h y + sum_h sigmoid(<a_h, delta>) W_h delta,
a dynamic head U y + sigmoid(<c, delta>) U delta.  Let a_1, ..., a_H be nonzero with a_h != +- a_h' for h != h', and no
W_h zero.  Then a dynamic head makes the same of all y and delta only if H = 1.
    Proof.  delta = 0: U = sum W_h.  sigmoid(z) = 1/2 + tanh(z / 2) / 2, so the rest says
        tanh(<c, delta> / 2) U delta = sum_h tanh(<a_h, delta> / 2) W_h delta      for all delta.
    Along delta = t e, with e such that the numbers |<a_h, e>| and |<c, e>| are different wherever the vectors are
    (up to sign), and not 0: functions tanh(p_i t / 2), p_i > 0 different, are linearly independent, as tanh(p z) has
    its poles nearest to 0 at +- i pi / (2 p), at different places.  So each W_h e, and U e if c != +- a_h for all h, is
    zero for all such e, and they are dense: W_h = 0, but for one h at most.                                     QED
The dynamic head's matrix U may depend on the query as it likes: Theorem 2 holds for each query by itself, and for any
rule whatever that makes one softmax's weighted mean of U x_j.  `patterns` counts what is invariant: score directions,
up to sign, that carry something; H of them take H heads at least, ordinary or dynamic.

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
    """sum_h sum_j softmax_j(<a_h, x_j>) W_h x_j.  tokens (d, T); (w,)."""
    import numpy as np
    from scipy.special import softmax

    return np.sum([w @ tokens @ softmax(a @ tokens) for a, w in heads], axis=0)


def alone(v: Array, query: Array, key: Array, x: Array) -> Array:
    """What a dynamic head gives to a token that sees itself alone: V x + (Q x) * (K x); matrices (w, d), x (d,)."""
    return v @ x + (query @ x) * (key @ x)


def is_linear_alone(query: Array, key: Array) -> bool:
    """Whether ordinary heads could do the same to a token alone: each coordinate lacks one of its rows."""
    return bool((~(query.any(1) & key.any(1))).all())


def patterns(heads: Sequence[Head]) -> int:
    """Score directions of one query, told apart up to sign, of heads that carry something; exact for exact numbers.

    A dynamic head has one, so with two of them no dynamic head makes the same (theorem 2).  Heads of one direction are
    one, with the sum of their W; opposite ones are one if W_1 - W_2 is not zero.  Raises BadInput for other shapes.
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
