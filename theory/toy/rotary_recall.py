r"""Associative recall by two layers with shared keys under rotary positions: slow pairs of numbers do not notice them.

The construction of `theory.toy.recall` needs layer 1 to attend evenly, which queries of zero do under rotary positions
too, and a head A of layer 2 that finds tokens equal to its own.  Let each key have a pair of numbers of its own among
the slowest of a head, which turn by `speed` or less per token.  Then head A's scores are M cos(angle) for equal tokens
and 0 for others, where M is `match`; the angle is the pair's own, at most `speed` times the distance.  So its attention
is in proportion to

    1 at the query's own token t,    p = exp(M (cos(angle) - 1)) at k_q's token,    o = exp(-M) at each other token.

With Z = 1 + p + (t - 2) o, c_j(l) = [j >= 2l] / j and B = 2n the score of v_l is

    (1/t) sum_{2l <= j <= t} 1/j  -  (B/Z) (c_t + p c_{2q-1}(l) + o sum over other j of c_j(l))  +  (B/2) c_t.

**Theorem.**  For every number of pairs there is a base of the rotary frequencies with which two layers whose keys are
all layer 1's answer every query right, with a loss as small as one likes, in heads that have two numbers for each key
and two more, and one for each value at least.

*Proof.*  A head of w numbers turns its pair i = 0, 1, ... by base^(-2i/w) per token.  So all pairs but the first, one
for each key, turn as slowly as one likes for a large base.  Then p tends to 1, and as M grows after that, o to 0.  The
scores tend to those of `theory.toy.recall.shared_key_scores`, whose least margin is positive.  A large readout does the
rest.                                                                                                              QED

At the usual base of 10,000 no limit is needed for few pairs: with a match of 30, heads of 128 numbers leave 16 keys a
positive margin for 1, 2, 4, 9 and 16 pairs, and heads of 32 do not.  So shared keys and rotary positions do not forbid
recall.  What narrow heads can do, where many keys share few pairs of numbers, is open.
"""

from __future__ import annotations

import math

import numpy as np

from theory.errors import BadInput, at_least
from theory.toy.recall import shared_key_weights

MATCH = 30.0


def speeds(width: int, base: float = 10_000.0) -> np.ndarray:
    """Return the angle by which each pair of numbers of a head turns per token, the slowest first.

    Returns:
        Radians, (width / 2,).

    Raises:
        BadInput: for an odd width.
    """
    at_least("width", width, 2)
    if width % 2:
        raise BadInput(f"rotary positions turn pairs of numbers, so a head's width must be even, got {width}")
    return np.asarray(base ** (-2 * np.arange(width // 2 - 1, -1, -1) / width))


def rotary_scores(n: int, query: int, asked: int, speed: float, match: float = MATCH) -> np.ndarray:
    """Return the scores of v_1, ..., v_n at a query; values that are not in the prompt have 0: (n,).

    Args:
        n: Pairs.
        query: Which of the queries, from 1.
        asked: q, the pair that it asks for, from 1.
        speed: Turn of the asked key's pair of numbers, in radians per token.
        match: M, the score of an equal token at no distance.
    """
    t, strength = 2 * n + query, 2 * n
    places = np.arange(1, t + 1)
    share = (places[:, None] >= 2 * np.arange(1, n + 1)) / places[:, None]  # c_j(l): (t, n)
    weight = np.full(t, math.exp(-match))
    weight[2 * asked - 2] = math.exp(match * (math.cos(speed * (t - (2 * asked - 1))) - 1))
    weight[-1] = 1
    return np.asarray(share.sum(0) / t - strength * weight @ share / weight.sum() + strength / 2 * share[-1])


def rotary_margin(n: int, query: int, asked: int, speed: float, match: float = MATCH) -> float:
    """Return the lead of the right value's score over every other one, in the prompt or not; see `rotary_scores`."""
    scores = rotary_scores(n, query, asked, speed=speed, match=match)
    return float(scores[asked - 1] - max([0.0, *np.delete(scores, asked - 1)]))


def least_rotary_margin(n: int, speed: float, match: float = MATCH) -> float:
    """Return the least margin over all queries and pairs, for keys whose pairs turn by `speed` per token."""
    return min(
        rotary_margin(n, query, asked, speed=speed, match=match)
        for query in range(1, n + 1)
        for asked in range(1, n + 1)
    )


def rotary_weights(n: int, keys: int, values: int, width: int, match: float = MATCH) -> dict[str, np.ndarray]:
    """Return the weights of `theory.toy.recall.shared_key_weights` for heads of `width`, keys on their slowest pairs.

    Raises:
        BadInput: for heads too narrow for a pair of numbers for each key, or for values.
    """
    if width % 2 or width < max(2 * keys, values):
        raise BadInput(f"a head needs {max(2 * keys, values)} numbers or more, an even count, got {width}")
    flat = shared_key_weights(n, keys, values, match)
    wide = {}
    for name, weights in flat.items():
        rows = name in ("look", "keys", "gives", "takes")
        if not rows and name not in ("puts", "answers"):
            wide[name] = weights
            continue
        heads = weights if rows else weights.transpose(0, 2, 1)  # (2, head, state)
        laid = np.zeros((2, width, heads.shape[2]))
        if name in ("look", "keys"):
            laid[:, width // 2 - 1 - np.arange(keys)] = heads[:, :keys]  # the first number of its pair
        else:
            laid[:, :values] = heads[:, :values]
        wide[name] = laid if rows else laid.transpose(0, 2, 1)
    return wide
