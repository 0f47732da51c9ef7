"""Claims on what scores say of a pair of tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.ledger.claim import Claim
from theory.dva import scores
from theory.dva.paper import PAPER
from theory.dva.scores import factors, form, shares
from theory.errors import BadInput

CLOSE = 1e-9

SCORES = Claim(
    "dva.scores",
    PAPER.name,
    place="section 2.1, Eqns. (1) and (2)",
    statement="A product of tokens measures similarity, that of a query and a key the strength of a relation; these "
    "two are to be read together; a token gets another's value, weighted by the strength.",
    assumes="similarity: a symmetric form, not negative of a token with itself; strength: a number for each ordered "
    "pair; of the display of Eqn. (2) what the sentences around it say",
    verdict="corrected",
    correction="The two maps do count together alone, in W_Q^T W_K, any matrix of rank at most the head's width.  A "
    "plain product is one such form, and symmetric: it cannot say that girl draws on hot and hot not on girl.  Two "
    "maps that are equal make symmetric forms again, so strength is similarity for some weights.  Under a softmax a "
    "score by itself weighs nothing: differences of scores do, and a single key has the share 1 whatever its score.",
    proof=scores,
)


@SCORES.check(
    "scores of random tokens, of queries and keys and of both changed by an invertible matrix",
    states=lambda g: np.linalg.inv(g).T,
    control=lambda g: g,
    wrong="both changed alike",
)
def only_the_product_counts(of_keys: Callable[[np.ndarray], np.ndarray]) -> bool:
    rng = np.random.default_rng(20)
    for width, d in ((1, 1), (2, 5), (4, 3)):
        query, key = rng.standard_normal((2, width, d))
        g, (one, other) = rng.standard_normal((width, width)) + 3 * np.eye(width), rng.standard_normal((2, d))
        plain = (query @ one) @ (key @ other)
        if abs(one @ form(query, key) @ other - plain) > CLOSE * (1 + abs(plain)):
            return False
        changed = form(g @ query, of_keys(g) @ key)
        if np.abs(changed - form(query, key)).max() > CLOSE * (1 + np.abs(changed).max()):
            return False
    return True


@SCORES.check(
    "the least width of a head whose scores are a given form, of ranks 0 to 4",
    states=lambda rank: max(rank, 1),
    control=lambda rank: rank + 1,
    wrong="one more than its rank",
)
def any_form_of_so_small_a_rank(least: Callable[[int], int]) -> bool:
    rng = np.random.default_rng(21)
    for rank in range(5):
        wanted = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 4))
        found = next(width for width in range(1, 6) if _makes(wanted, width))
        if found != least(rank):
            return False
    return True


def _makes(wanted: np.ndarray, width: int) -> bool:
    try:
        made = factors(wanted, width)
    except BadInput:
        return False
    return made[0].shape == (width, 4) and bool(np.abs(form(*made) - wanted).max() < CLOSE)


@SCORES.check(
    "scores of a pair both ways: of one map for queries and keys, and of two",
    states=(True, False),
    control=(False, False),
    wrong="never the same",
)
def what_is_mutual(same: tuple[bool, bool]) -> bool:
    rng = np.random.default_rng(22)
    for width, d in ((2, 2), (3, 5)):
        one_map, other_map = rng.standard_normal((2, width, d))
        girl, hot = rng.standard_normal((2, d))
        found = []
        for key in (one_map, other_map):
            m = form(one_map, key)
            apart = float(girl @ m @ hot - hot @ m @ girl)
            if abs(apart - girl @ (m - m.T) @ hot) > CLOSE:
                return False
            found.append(abs(apart) < CLOSE)
        if tuple(found) != same or girl @ form(one_map, one_map) @ girl < 0:
            return False
    return True


@SCORES.check(
    "what a token gives to one of one to four keys, with scores from -5 to 5, and with all of them raised alike",
    states=lambda score, others: 1 / (1 + np.exp(others - score).sum()),
    control=lambda score, others: score / (score + others.sum()) if len(others) else score,
    wrong="the score, over the sum of them",
)
def shares_go_with_differences(share: Callable[[float, np.ndarray], float]) -> bool:
    rng = np.random.default_rng(23)
    for count in range(4):
        score, others = float(rng.uniform(-5, 5)), rng.uniform(-5, 5, count)
        every = np.append(others, score)
        found = float(shares(every)[-1])
        if abs(found - share(score, others)) > CLOSE:
            return False
        if not all(abs(found - shares(every + more)[-1]) < CLOSE for more in (7, 10_000, -10_000)):
            return False
        if not count and found != 1:
            return False
    return np.array_equal(shares(np.array([-800.0, 800.0])), [0, 1])
