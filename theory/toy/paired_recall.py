r"""Associative recall whose tokens hold a key and its value: one layer is enough, and all value maps are equal.

A prompt is n tokens of a key and a value each, then keys alone, each of which asks for its value.  Keys are different
ones, and so are values.  A decoder has a residual stream, no positions, norms or feed-forwards; a token's state is the
sum of its symbols' codes, m numbers; scores of the V values are read from the last state, linearly and without a bias.

**Theorem.**  For three or more values, any number of keys and any plan of any depth whose layer 1 has an ordinary head
(`ordinary_head`), the loss can be as small as one likes if and only if the state is 2 wide or more.  Whose values, keys
and queries later layers read makes no difference: one layer does it.

*Two are enough.*  Let c_1, c_2, ... be points of the unit circle on an arc of a sixth of a turn (`arc`).  Value v has
the code b_v = c_v.  Key k has a_k = R c_k, where R = 1 / (1 - cos delta) and delta is the angle between neighbouring
keys.  Later layers put out zero.  The head of layer 1 scores a token of state x by `match` times <a_k, x>, where k is
the query's key, and puts out -x.

1.  *The right token has the highest score*, by R/2 or more.  It has R^2 + R cos(k, v), where cos(k, v) is at least
    1/2, as no angle is above a sixth of a turn.  A query's token has R^2 at most.  Another pair has R^2 cos delta + R
    at most, which is R^2 - R + R = R^2.  The least margin is R/2, between the first key and the last value.
2.  So other tokens get e = (2n - 1) exp(-`match` R / 2) of the attention at most.  The state at the query becomes
    a_k - (a_k + b_v) = -b_v, up to e times the largest distance between two tokens, which is below 2 (R + 1).
3.  The score of v' is `readout` times <-c_v', state>.  So that of v is ahead of every other by `readout` times
    1 - cos(delta of the values) - 2 e (R + 1), at least, as two points of the arc are at most 1 apart.
4.  Choose `match` so large that this is positive, then `readout` as large as one likes.

*One is too few.*  The score of v is then u_v times a number x.  Of three numbers u one lies between two others, or
equals one, and its score is at most the larger of theirs, whatever x is: its value has a probability of 1/2 at most.
That is so for all values but two.  As all are asked for equally often, the mean loss is at least (1 - 2/V) ln 2,
whatever the layers, positions, norms and feed-forwards are (`narrow_floor`).                                      QED

On *interleaved* prompts the same is false.  There one layer cannot do better than ln n (`theory.toy.recall`), so layer
2 has to read what layer 1 writes; and as a lookup it needs a state of 4 numbers, or of 2 with a value skip
(`theory.toy.lookup`).  So a skip can be worth something only where a key has to be copied.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from theory.errors import BadInput, at_least
from theory.plans.mix import Mix, k, q, v
from theory.plans.plan import STREAM, Plan

Points = NDArray[np.float64]
SPREAD = math.pi / 3


def neighbours(count: int) -> float:
    """Return the angle between neighbouring points of `arc`; for one point, the angle for two."""
    return SPREAD / max(1, count - 1)


def arc(count: int) -> Points:
    """Return `count` points of the unit circle on a sixth of a turn: (count, 2).

    Raises:
        BadInput: for fewer than one.
    """
    at_least("count", count, 1)
    angles = neighbours(count) * np.arange(count) - SPREAD / 2
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def key_radius(keys: int) -> float:
    """Return R, the factor by which keys' codes are longer than values'."""
    return 1 / (1 - math.cos(neighbours(keys)))


def paired_codes(keys: int, values: int) -> Points:
    """Return the code of every key, then of every value: (keys + values, 2)."""
    return np.concatenate([key_radius(keys) * arc(keys), arc(values)])


def least_margin(keys: int) -> float:
    """Return R/2, the lead of the right token's score over every other's, for a match of 1."""
    return key_radius(keys) / 2


def narrow_floor(values: int) -> float:
    """Return the least mean loss from a state of one number, in nats per query: (1 - 2/V) ln 2.

    Raises:
        BadInput: for fewer than three values, which one number can tell apart.
    """
    at_least("values", values, 3)
    return (1 - 2 / values) * math.log(2)


def ordinary_head(plan: Plan) -> int:
    """Return the first head of layer 1, from 1, that reads its own query, key and value and nothing beside.

    Raises:
        BadInput: for a plan without such a head, a residual stream or output projections, or with dynamic values.
    """
    if plan.depth != STREAM or not plan.output_projection or plan.dynamic != "no":
        raise BadInput("one layer recalls pairs with a residual stream, output projections and no dynamic values")
    for h in plan.live(1):
        head = plan.head(1, h)
        own: tuple[tuple[Mix, ...], ...] = ((q(1, h),), (k(1, h),), (v(1, h),))
        if ((head.query,), head.keys, head.values) == own and not head.beside.terms:
            return h
    raise BadInput("one layer recalls pairs with an ordinary head in layer 1, which this plan has not")
