"""Claims on how many of a model's heads are redundant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.ledger.claim import Claim
from theory.dva import meanings
from theory.dva.meanings import heads_needed, independent, pattern, width_needed
from theory.dva.paper import PAPER

REDUNDANCY = Claim(
    "dva.redundancy",
    PAPER.name,
    place="abstract: all the redundant heads, which several heads are with static values",
    statement="The more heads there are, the more of them are redundant.",
    assumes="for what is proved: the paper's example, adjectives and nouns, and redundant: without it every meaning is "
    "still told apart",
    verdict="inconclusive",
    correction="Proved is no direction.  Of heads wide enough the share that can be left out of a given table does "
    "grow with their number H, as 1 - h / H with the h that are needed; but of n (m - 1) heads of width 1, however "
    "many that is, none can be.  In trained models of width 64 with 1, 2, 4 and 8 heads, on 2.4 tokens per parameter, "
    "the share that can be left out at a cost of 0.02 nats changes by 0.001 +- 0.051 a doubling (results/earlier): no "
    "growth is seen, and one of 0.05 is not excluded.",
    proof=meanings,
    uses=("dva.example",),
)


def _told_apart(m: int, n: int, heads: int, width: int) -> int:
    """By heads with scores at random: the rank of what the nouns get."""
    rng = np.random.default_rng(m + 10 * n + 100 * heads + 1000 * width)
    made = pattern(list(rng.uniform(0.1, 0.9, (heads, m, n)))) if heads else np.tile(np.eye(n), (m, 1))
    parts = (
        [part @ rng.standard_normal((m + n, width)) for part in np.split(made[:, n:], heads, axis=1)] if heads else []
    )
    return int(np.linalg.matrix_rank(np.concatenate([made[:, :n], *parts], axis=1)))


@REDUNDANCY.check(
    "wide heads at tables up to 5 x 4: the share of them that can be left out, of as many as are needed and up to "
    "three more",
    states=lambda needed, heads: 1 - needed / heads,
    control=lambda needed, heads: 0.0,
    wrong="none, however many there are",
)
def share_of_wide_heads(law: Callable[[int, int], float]) -> bool:
    for m, n in ((3, 3), (4, 2), (4, 4), (5, 4)):
        needed = heads_needed(m, n)
        for heads in range(needed, needed + 4):
            left = next(h for h in range(heads + 1) if _told_apart(m, n, h, m + n) == m * n)
            if abs(1 - left / heads - law(needed, heads)) > 1e-12:
                return False
    return True


@REDUNDANCY.check(
    "heads of width 1, as many as tables need of width: how many can be left out",
    states=0,
    control=1,
    wrong="one of them",
)
def none_of_narrow_heads(spare: int) -> bool:
    for m, n in ((2, 2), (3, 3), (4, 2), (5, 4)):
        heads = width_needed(m, n)
        left = next(h for h in range(heads + 1) if _told_apart(m, n, h, 1) == m * n)
        if independent(m, n, heads - spare, 1) != m * n or heads - left != spare:
            return False
    return True
