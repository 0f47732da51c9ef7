"""Claims on recall as a lookup: how wide the state must be that is read as a key and as a value."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from experiments.ledger.claim import Claim
from theory.skipv1.paper import PAPER
from theory.toy import lookup
from theory.toy.lookup import Points, circle, codes, least_width, told_apart

SIZES = ((2, 2), (2, 5), (3, 2), (3, 3), (16, 16), (40, 7))
Codes = Callable[[int, int], tuple[Points, Points]]

WIDTH = Claim(
    "toy.lookup-width",
    PAPER.ours,
    place="theory/toy/lookup.py; bears on ResFormer, section 3.5 (SVFormer), and SkipV1Former, section 3.2",
    statement="A state from which a copied key and an own value are both read, as a lookup does at a value's token, "
    "is at least 4 wide for three or more keys and values, and 4 is enough for any number.  Where layer 2 reads layer "
    "1's values, 2 are enough: in a lookup a value skip is worth twice the width.",
    assumes="hard attention, an answer by the highest linear score, weights as large as one likes, no norms; the key "
    "is read from the sum of a copy and the token's own code",
    verdict="verified",
    proof=lookup,
    unjudged=dict.fromkeys((circle, codes), "points are told apart as well when they are scaled or shifted together"),
)


def _both(keys: int, values: int) -> tuple[Points, Points]:
    return codes(keys, values, skip=False)


def _skip(keys: int, values: int) -> tuple[Points, Points]:
    return codes(keys, values, skip=True)


@WIDTH.check(
    "codes of the least width tell keys apart whatever the value, and values whatever the key",
    states=_both,
    control=_skip,
    wrong="one circle for both",
)
def both_are_told_apart(made: Codes) -> bool:
    return all(
        told_apart(a, b) and told_apart(b, a) and a.shape[1] == b.shape[1] == least_width(*sizes, skip=False)
        for sizes in SIZES
        for a, b in [made(*sizes)]
    )


@WIDTH.check(
    "with a skip codes of the least width tell keys apart whatever the value, and values alone",
    states=1.0,
    control=1e-3,
    wrong="keys copied no larger than values",
)
def keys_are_told_apart(size: float) -> bool:
    return all(
        told_apart(size * a, b) and told_apart(b, 0 * b[:1]) and a.shape[1] == least_width(*sizes, skip=True)
        for sizes in SIZES
        for a, b in [_skip(*sizes)]
    )


@WIDTH.check(
    "in one dimension less no code that was drawn tells both apart, and in as many some do",
    states=1,
    control=0,
    wrong="a width of one less than is needed",
    kind="sampled",
)
def none_is_narrower(less: int) -> bool:
    rng = np.random.default_rng(0)
    for keys, values in product((2, 3), repeat=2):
        width = least_width(keys, values, skip=False) - less
        for _ in range(150):
            a, b = (rng.normal(size=(count, width)) * 10.0 ** rng.uniform(-2, 2, width) for count in (keys, values))
            if told_apart(a, b) and told_apart(b, a):
                return False
    return True


@WIDTH.check(
    "no value skip's key is told apart in one dimension, of three or more, and of two it is",
    states=3,
    control=2,
    wrong="of two keys",
    kind="sampled",
)
def three_are_not_on_a_line(count: int) -> bool:
    rng = np.random.default_rng(0)
    alone = np.zeros((1, 1))
    return least_width(count, 2, skip=True) == 2 and not any(
        told_apart(rng.normal(size=(count, 1)), alone) for _ in range(50)
    )
