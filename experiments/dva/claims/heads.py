"""Claims on heads: what one dynamic head does that ordinary ones cannot, and what it cannot."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from experiments.ledger.claim import Claim
from theory.dva import heads
from theory.dva.heads import alone, attended_by, is_linear_alone, on_mean_free, patterns
from theory.dva.paper import PAPER

CLOSE = 1e-9
APART = 1e-5  # relative mean square that no single head comes below where two patterns are added; it finds 4e-5

ONE_HEAD = Claim(
    "dva.one-head",
    PAPER.name,
    place="abstract, sections 2.2 and 7: one dynamic head replaces all redundant heads",
    statement="Over inputs in all of R^d, or on a sphere, a dynamic head without an output matrix makes maps of the "
    "sequence that no number of ordinary heads of any width makes, unless in each coordinate Q or K is zero; and two "
    "ordinary heads, neither's matrix zero, whose score directions for some query are not zero, not equal and not "
    "opposite make one that no dynamic head makes.",
    assumes="one causal layer, without positions and biases; inputs of all lengths; or of one, as RMSNorm leaves them, "
    "in two dimensions at least; or as LayerNorm leaves them, in three, with Q, K, score directions and matrices taken "
    "on vectors whose mean is zero; gains, none zero, are in the matrices; the gates' first part: no output matrix",
    verdict="corrected",
    correction="Neither contains the other.  What a dynamic head adds is a product with the query's own token, which "
    "ordinary heads lack; what it lacks is a second softmax: for one query it is one ordinary head.  So heads are not "
    "redundant because of it.  Of a finite vocabulary, or of an output matrix, the first part says nothing: in the "
    "paper's example two ordinary heads do what the dynamic one does (dva.example).",
    proof=heads,
)


@ONE_HEAD.check(
    "a token that sees itself alone: parts that are odd and even in it, of a dynamic head and of five ordinary ones",
    states=(True, False),
    control=(False, False),
    wrong="linear for both",
)
def alone_is_quadratic(even: tuple[bool, bool]) -> bool:
    """Whether the even part is there: of a dynamic head with a gate, and of ordinary ones."""
    rng = np.random.default_rng(5)
    for d, width in ((2, 2), (3, 5), (4, 1)):
        v, query, key = rng.standard_normal((3, width, d))
        x = rng.standard_normal(d)
        x *= np.sqrt(d) / np.linalg.norm(x)
        dynamic = (alone(v, query, key, x) + alone(v, query, key, -x)) / 2
        several = [(rng.standard_normal(d), rng.standard_normal((width, d))) for _ in range(5)]
        ordinary = attended_by(several, x[:, None]) + attended_by(several, -x[:, None])
        summed = np.sum([w for _, w in several], axis=0) @ x
        if not np.allclose(attended_by(several, x[:, None]), summed, atol=CLOSE):
            return False
        found = bool((np.abs(dynamic) > CLOSE).any()), bool((np.abs(ordinary) > CLOSE).any())
        if found != even or not np.allclose(dynamic, (query @ x) * (key @ x), atol=CLOSE):
            return False
        if is_linear_alone(query, key) or not is_linear_alone(query * 0, key):
            return False
        if width > 1:
            halves = np.where(np.arange(width)[:, None] % 2, query, 0), np.where(np.arange(width)[:, None] % 2, 0, key)
            if not is_linear_alone(*halves) or np.abs(alone(v, *halves, x) - v @ x).max() > CLOSE:
                return False
    return True


@ONE_HEAD.check(
    "two tokens of one number: score directions, up to sign, that a sum of heads takes, by its least distance from "
    "what none, one or two of them make with any matrices",
    states=patterns,
    control=lambda several: min(1, patterns(several)),
    wrong="one is enough for all",
    kind="descent",
)
def patterns_are_what_it_takes(count: Callable[[list[tuple[np.ndarray, np.ndarray]]], int]) -> bool:
    one = np.array([[1.0]])
    pairs = np.random.default_rng(0).standard_normal((40, 2)) * 2
    cases = [
        [(1.0, one)],
        [(1.0, one), (1.0, 2 * one)],
        [(1.0, one), (-1.0, 3 * one)],
        [(1.0, one), (2.5, one)],
        [(0.5, one), (-2.0, one)],
        [(1.0, one), (-3.0, -2 * one)],
        [(1.0, one), (-1.0, one)],
        [(1.0, one), (1.0, -one)],
        [(1.0, one), (0.0, one)],
    ]
    for several in cases:
        made = [(np.array([a]), w) for a, w in several]
        wanted = np.array([attended_by(made, pair[None]) for pair in pairs])[:, 0]
        if count(made) != _directions_by_distance(pairs, wanted):
            return False
    return True


def _directions_by_distance(pairs: np.ndarray, wanted: np.ndarray) -> int | None:
    """With the mean of the tokens and tanh(c delta / 2) delta for directions c of a grid; None: neither near nor far.

    One direction is tried on a fine grid, two on its twentieth part.
    """
    grid, apart = np.linspace(0, 6, 601)[1:], pairs[:, 0] - pairs[:, 1]
    bent = {c: np.tanh(c * apart / 2) * apart for c in grid}
    for many in (0, 1, 2):
        chosen = combinations(grid if many < 2 else grid[49::50], many)
        left = min(_left_over(np.stack([pairs.mean(1), *(bent[c] for c in some)], axis=1), wanted) for some in chosen)
        if left <= CLOSE:
            return many
        if left < APART:
            return None
    return None


def _left_over(features: np.ndarray, wanted: np.ndarray) -> float:
    """Relative mean square that the best linear map of features (n, .) leaves of (n,)."""
    by, *_ = np.linalg.lstsq(features, wanted, rcond=None)
    return float(((wanted - features @ by) ** 2).sum() / max(float(wanted @ wanted), 1e-30))


def _far_from_one_head(heads_of_it: list[tuple[np.ndarray, np.ndarray]], tokens: np.ndarray) -> bool | None:
    """Whether no dynamic head was found to give a query what these heads do; None: one neither near nor far.

    The query is the first of the tokens (n, d); it sees itself and each of them.  c is sought, U the best for it.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    query, apart = tokens[0], tokens - tokens[0]
    wanted = np.array([attended_by(heads_of_it, np.stack([x, query], axis=1))[0] for x in tokens])

    def left(c: np.ndarray) -> float:
        return _left_over(query + expit(apart @ c)[:, None] * apart, wanted)

    starts = np.random.default_rng(0).standard_normal((6, tokens.shape[1])) * 2
    least = min(float(minimize(left, start, method="BFGS", options={"gtol": 1e-12}).fun) for start in starts)
    return True if least > APART else False if least <= CLOSE else None


def _of_one_length(d: int, count: int = 30, mean_free: bool = False) -> np.ndarray:
    """Tokens (count, d), as RMSNorm leaves them, or LayerNorm; there is one and its opposite."""
    x = np.random.default_rng(20 + d).standard_normal((count, d))
    x[1] = -x[0]
    if mean_free:
        x -= x.mean(axis=1, keepdims=True)
    return np.asarray(x * np.sqrt(d) / np.linalg.norm(x, axis=1, keepdims=True))


@ONE_HEAD.check(
    "tokens of one length, in one to three dimensions: from how many on no dynamic head makes what two heads do",
    states=2,
    control=1,
    wrong="in one dimension as well",
    kind="descent",
)
def two_heads_of_one_length(dimensions: int) -> bool:
    for d in (1, 2, 3):
        a, w = np.arange(1.0, d + 1), np.ones((1, d))
        if _far_from_one_head([(a, w), (2.5 * a[::-1], w)], _of_one_length(d)) is not (d >= dimensions):
            return False
    return True


@ONE_HEAD.check(
    "what LayerNorm leaves of heads and gates: score directions that no single head makes, and gates of a token alone",
    states=on_mean_free,
    control=lambda rows: rows,
    wrong="all of them, as without a norm",
    kind="descent",
)
def on_tokens_without_a_mean(left: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Score directions, and rows, that differ by a constant are one, and constant ones none; by whole numbers."""
    for d in (3, 4):
        tokens = _of_one_length(d, mean_free=True)
        constant, a, w = np.ones(d), np.array([0.0, 1, 4, 9])[:d], np.arange(d)[None] - 2.0
        other = np.array([1.0, -2, 0, 1])[:d]
        parts = -np.cumsum(tokens, axis=1)[:, :-1]  # of a token, along e_2 - e_1, ..., e_d - e_(d-1)
        if not np.allclose(parts @ on_mean_free(a), tokens @ a, atol=CLOSE):
            return False
        for several in (
            [(a, w), (other, w)],
            [(a, w), (a + 3 * constant, 2 * w)],
            [(a, w), (2 * constant - a, w + constant)],
            [(a, w), (other, 0 * w + constant)],
        ):
            count = patterns([(left(direction), left(matrix)) for direction, matrix in several])
            if _far_from_one_head(several, tokens) is not (count > 1):
                return False
        for query, key in ((np.ones((2, d)), np.stack([a, other])), (np.stack([a, constant]), np.stack([other, a]))):
            even = [alone(0 * query, query, key, x) for x in tokens]
            if is_linear_alone(left(query), left(key)) is not bool(np.abs(even).max() < CLOSE):
                return False
    return True
