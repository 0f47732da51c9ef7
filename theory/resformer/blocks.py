"""Cross-layer attention and ResFormer's block form of it: an exact identity, and bounds on their distance.

Setting.  One query's row at a time.  It attends to tokens with scores s in layer n and s^m to the keys of an earlier
layer m, any mask included as scores of -infinity; p = softmax(s) is its row of A_n, p^m = softmax(s^m).  With grouped
queries, several heads and rotary embeddings each head has such rows, and all below holds for each of them.

Cross-layer attention (section 3.1, Eqn. (2)) is softmax([s ; s^m]) [V_n ; V_m].  The block form (Eqn. (3)) puts K_n in
the place of K_m, which is s^m = s.

Identity (Eqns. (4) and (5)).  softmax([s ; ... ; s]) [V_1 ; ... ; V_n] = (1/n) p (V_1 + ... + V_n): each copy of a
token has the n-th part of its weight.  In linear attention without a normaliser there is no 1/n.

Gate.  With Z, Z^m the sums of exp s and exp s^m and g = Z / (Z + Z^m), cross-layer attention is
    g p V_n + (1 - g) p^m V_m                    exactly,
and what it has more than the block form is (g - 1/2) p V_n + ((1 - g) p^m - p/2) V_m.
The same holds of any two sets of tokens.  So a sink, a token whose value V_m is zero, scales the attention to the other
tokens by the share g that it leaves.  If the others are l - 1 of score 0, it has the share 1 - g = e^s / (e^s + l - 1),
and needs the score s = log((1 - g) / g) + log(l - 1) for it.

Theorem (how far).  Let the weight w <= 1/2 belong to scores that stay, and v = 1 - w to scores that move by at most eps
each: the block form's weights are (w p ; v p), and with t = e^eps and s_i^m = s_i + delta_i, |delta_i| <= eps,
cross-layer attention has (w p ; v p e^delta) / D, D = w + v sum p_i e^delta_i.  Their total variation is at most
    kappa_w(eps) = (t - sqrt(w t + v))^2 / (t^2 - 1),
and the outputs of the two are no further apart than kappa_w(eps) times the diameter of the value rows.  Both are
attained: let the scores of a share q of p rise by eps, with
    q = sqrt(w t + v) (t - sqrt(w t + v)) / (v (t^2 - 1)),
and those of the others fall by eps; let the values of the former be one end of a diameter, all others the other end.
One earlier layer (Eqn. (3)): w = 1/2.  All layers up to n (Eqn. (5)), the scores of each within eps: w = 1/n.

    eps -> 0:          (1 - w/2)^2 eps / 2 + w^2 (1 - w/2) eps^2 / 8 + ..., which is
                       (9/32) eps + (3/128) eps^2 + ... for one earlier layer: above (9/32) eps for small eps
    eps -> infinity:   1 - 2 sqrt(w) e^(-eps/2)
    w -> 0:            tanh(eps / 2), the bound for a softmax all of whose scores move
One token, or scores that move together: only D moves, and the total variation is at most v w (t - 1) / (w t + v).

Proof.  A weight of the block form gets the factor r = e^delta_i / D, or 1 / D where scores stay.
(1) D >= 1.  Then the total variation is v sum p_i (r_i - 1)_+, over moved weights alone.  Let q be the share of p where
    r > 1, x the mean of e^delta there and y that on the rest: D = w + v (q x + (1 - q) y), and v q (x / D - 1) grows
    with x and falls with y.  So it is at most F = v q (t - D) / D with D = w + v (q t + (1 - q) / t), that is
        v q = (t D - w t - v) / (t^2 - 1),     F = (t^2 + w t + v - t (D + (w t + v) / D)) / (t^2 - 1),
    which over D is largest at D = sqrt(w t + v) >= 1: kappa_w.  That D belongs to a q <= 1 if sqrt(u) <= t + 1 - u with
    u = w t + v, which holds for w <= 1/2: there u <= (t + 1) / 2, and sqrt(u) <= u as u >= 1.
(2) D < 1.  Count what falls: v sum p_i (1 - r_i)_+, over moved weights alone.  The same with 1/t for t gives at most
    (t sqrt(w / t + v) - 1)^2 / (t^2 - 1), and that is no more than kappa_w: h(w) = sqrt(w t + v) + sqrt(w t + v t^2) is
    concave, h(0) = 1 + t and h'(0) = 0, so h <= 1 + t.
(3) The difference of two means of the same rows is the total variation times the difference of two means of rows. QED

What it says of large eps is little: kappa_1/2 is one half at eps = 1.85 already.  What depends on the distribution of
the moves and not on the largest is Pinsker's inequality for the same two rows,
    total variation <= sqrt((log E e^delta - E delta) / 2),                 E over the block form's weights,
delta = 0 where scores stay: about half the standard deviation of delta (`mean_bound`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1, sqrt

import numpy as np
from scipy.special import softmax

from theory.errors import BadInput
from theory.prompts.moments import Array


def attention(scores: Array, values: Array) -> Array:
    """Return softmax(scores) values, of shape (queries, width); section 3.1, Eqn. (1).

    scores: (queries, tokens), -infinity where a token is hidden; values: (tokens, width).
    """
    return np.asarray(softmax(scores, axis=-1) @ values)


def cross_layer_attention(scores: Sequence[Array], values: Sequence[Array]) -> Array:
    """Return Eqn. (2) for any number of layers: one softmax over the tokens of all of them.

    scores: for each layer (queries, tokens); values: for each layer (tokens, width).  Raises BadInput for none, and
    where their numbers differ.
    """
    _paired(scores, values)
    return attention(np.concatenate(scores, axis=-1), np.concatenate(values))


def block_attention(scores: Array, values: Sequence[Array]) -> Array:
    """Return Eqn. (5), which for two layers is Eqn. (4): one layer's attention to the mean of all layers' values."""
    _paired(values, values)
    return attention(scores, np.mean(values, axis=0))


def gates(scores: Sequence[Array]) -> Array:
    """Return each layer's share of the softmax's mass, (layers, queries): for two layers g and 1 - g."""
    masses = np.stack([np.logaddexp.reduce(layer, axis=-1) for layer in scores])
    return np.asarray(softmax(masses, axis=0))


def block_error(scores: Sequence[Array], values: Sequence[Array]) -> Array:
    """Return cross-layer attention minus the block form with the first layer's scores, from the gates.

    It is the sum over layers of g_i p^i V_i - p V_i / L, where p belongs to scores[0].
    """
    _paired(scores, values)
    own = softmax(scores[0], axis=-1)
    parts = zip(gates(scores), scores, values, strict=True)
    return np.asarray(sum((g[:, None] * softmax(s, axis=-1) - own / len(scores)) @ v for g, s, v in parts))


def block_form_share(eps: float, unmoved: float = 0.5) -> float:
    """Return kappa_w(eps), the largest total variation if scores that hold a share `unmoved` = w stay.

    Raises BadInput for eps below 0 and for w outside [0, 1/2].
    """
    _check(eps, unmoved)
    fall, root = exp(-eps), _root(eps, unmoved)
    return abs(expm1(-eps)) / (1 + fall) * ((1 + (1 - unmoved) * fall) / (1 + root)) ** 2


def rising_share(eps: float, unmoved: float = 0.5) -> float:
    """Return q, the share of the moved scores that rise where `block_form_share` is attained.

    Raises BadInput.
    """
    _check(eps, unmoved)
    moved, fall, root = 1 - unmoved, exp(-eps), _root(eps, unmoved)
    return root * (1 + moved * fall) / ((1 + root) * moved * (1 + fall))


def together_share(eps: float, unmoved: float = 0.5) -> float:
    """Return v w (t - 1) / (w t + v), the largest total variation if all moved scores move alike.

    Raises BadInput.
    """
    _check(eps, unmoved)
    return (1 - unmoved) * unmoved * abs(expm1(-eps)) / (unmoved + (1 - unmoved) * exp(-eps))


def mean_bound(weights: Array, moves: Array) -> Array:
    """Return Pinsker's bound on the total variation, (queries,).

    It uses the distribution of the moves, not their largest.  weights: (queries, scores), the block form's, whose rows
    sum to one; moves: the same shape, 0 where scores stay and anything where the weight is zero.
    """
    moves = np.where(weights > 0, moves, 0)
    moves = moves - (weights * moves).sum(axis=-1, keepdims=True)
    top = moves.max(axis=-1, keepdims=True)
    cumulant = np.log((weights * np.exp(moves - top)).sum(axis=-1)) + top[..., 0]
    few = np.minimum(moves, 1)  # small moves, whose second order would drown in the rounding of the first
    cumulant = np.where(top[..., 0] < 1, np.log1p((weights * (np.expm1(few) - few)).sum(axis=-1)), cumulant)
    return np.asarray(np.sqrt(np.maximum(cumulant, 0) / 2))


def diameter(values: Array) -> float:
    """Return the largest distance between two of the rows, (rows, width)."""
    return float(np.sqrt(((values[:, None] - values[None]) ** 2).sum(axis=-1).max()))


def _root(eps: float, unmoved: float) -> float:
    """Return sqrt(w t + v) / t, which no eps makes overflow.

    The closed forms are divided by powers of t, and by 1 - 1/t.
    """
    fall = exp(-eps)
    return sqrt(unmoved * fall + (1 - unmoved) * fall**2)


def _paired(scores: Sequence[Array], values: Sequence[Array]) -> None:
    if not scores or len(scores) != len(values):
        raise BadInput(f"as many scores as values are needed, and one at least: got {len(scores)} and {len(values)}")


def _check(eps: float, unmoved: float) -> None:
    if not eps >= 0:
        raise BadInput(f"eps must be 0 or more, got {eps}")
    if not 0 <= unmoved <= 0.5:
        raise BadInput(f"the share of the scores that stay must be from 0 to 1/2, got {unmoved}")
