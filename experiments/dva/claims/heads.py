"""Claims on heads: what one dynamic head does that ordinary ones cannot, what it cannot, and the paper's example."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np

from experiments.ledger.claim import Claim
from theory.dva import heads, meanings
from theory.dva.heads import alone, attended_by, is_linear_alone, on_mean_free, patterns
from theory.dva.meanings import (
    dynamic_head,
    heads_needed,
    independent,
    independent_of_dynamic,
    least_loss,
    pattern,
    width_needed,
)
from theory.dva.paper import PAPER

CLOSE = 1e-9
APART = 1e-5  # relative mean square that no single head comes below where two patterns are added; it finds 4e-5

ONE_HEAD = Claim(
    "dva.one-head",
    PAPER.name,
    place="abstract, sections 2.2 and 7: one dynamic head replaces all redundant heads",
    statement="A dynamic head makes maps of the sequence that no number of ordinary heads of any width makes, unless "
    "in each coordinate Q or K is zero; and two ordinary heads, neither's matrix zero, whose score directions for some "
    "query are not zero, not equal and not opposite make one that no dynamic head makes.",
    assumes="one causal layer, without positions and biases; inputs of all lengths; or of one, as RMSNorm leaves them, "
    "in two dimensions at least; or as LayerNorm leaves them, in three, with Q, K, score directions and matrices taken "
    "on vectors whose mean is zero; gains, none zero, are in the matrices; the gates' first part: no output matrix",
    verdict="corrected",
    correction="Neither contains the other.  What a dynamic head adds is a product with the query's own token, which "
    "ordinary heads lack; what it lacks is a second softmax: for one query it is one ordinary head.  So heads are not "
    "redundant because of it.",
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


EXAMPLE = Claim(
    "dva.example",
    PAPER.name,
    place="section 2.2, Fig. 1: hot girl drinks hot water",
    statement="A single ordinary head cannot give hot two meanings; two heads, or one dynamic head, can.",
    assumes="one layer; a noun sees its adjective and itself; meanings are read by a linear map of the stream, which "
    "has as many dimensions as are told apart, and an output matrix before it: model b's block, of width d and without "
    "one, tells d apart at most; ordinary heads' scores are free",
    verdict="corrected",
    correction="What a noun gets depends on its own token and on its scores: of m adjectives and n nouns H ordinary "
    "heads tell n + H (m + n - 1) meanings apart, so that one head makes every table of two adjectives, or of three "
    "with two nouns.  The least that it does not make are 3 x 3 and 4 x 2, however wide it is; there one dynamic head "
    "does, and so do two ordinary ones, or one that a gate scales coordinate by coordinate.  Of every kind the widths "
    "have to add up to n (m - 1).",
    proof=meanings,
)


@EXAMPLE.check(
    "linearly independent meanings of one to three heads with scores at random, tables up to 5 x 5",
    states=lambda m, n, h: min(m * n, n + h * (m + n - 1)),
    control=lambda m, n, h: min(m * n, n + h),
    wrong="a head adds one meaning",
    kind="float64",
)
def meanings_of_heads(law: Callable[[int, int, int], int]) -> bool:
    rng = np.random.default_rng(1)
    for m in range(1, 6):
        for n in range(1, 6):
            for h in (1, 2, 3):
                shares = list(rng.uniform(0.1, 0.9, (h, m, n)))
                made = pattern(shares)
                rank = int(np.linalg.matrix_rank(made))
                if not rank == law(m, n, h) == independent(m, n, h) or not _is_what_nouns_get(made, shares, rng):
                    return False
    return True


@EXAMPLE.check(
    "linearly independent meanings of one to three heads of width 1 to 7, tables up to 5 x 5: scores free, and of "
    "queries and keys no wider",
    states=lambda m, n, h, w: min(m * n, n + h * min(w, m + n - 1)),
    control=lambda m, n, h, w: min(m * n, n + h * w),
    wrong="no head is too wide for its table",
)
def meanings_of_narrow_heads(law: Callable[[int, int, int, int], int]) -> bool:
    rng = np.random.default_rng(14)
    for m, n, h, w in product(range(1, 6), range(1, 6), (1, 2, 3), range(1, 8)):
        of_nouns, of_keys = rng.standard_normal((h, n, w)), rng.standard_normal((h, m + n, w))
        scores = of_keys @ of_nouns.transpose(0, 2, 1)
        differences = scores[:, :m] - np.diagonal(scores[:, m:], axis1=1, axis2=2)[:, None]
        for shares in (rng.uniform(0.1, 0.9, (h, m, n)), 1 / (1 + np.exp(-2 * differences))):
            made = pattern(list(shares))
            narrow = [part @ rng.standard_normal((m + n, w)) for part in np.split(made[:, n:], h, axis=1)]
            rank = int(np.linalg.matrix_rank(np.concatenate([made[:, :n], *narrow], axis=1)))
            if not rank == law(m, n, h, w) == independent(m, n, h, w):
                return False
    return True


@EXAMPLE.check(
    "the rank of the matroids' union, its least over all sets of pairs, one to three heads of width 1 to 6, tables up "
    "to 3 x 3 and 5 x 2",
    states=lambda pairs, nouns: nouns,
    control=lambda pairs, nouns: pairs,
    wrong="a noun's own part tells all its pairs apart",
    kind="exact",
)
def least_over_sets_of_pairs(own: Callable[[int, int], int]) -> bool:
    """own: the rank of a set of pairs in what is the noun's alone."""
    for m, n in ((1, 3), (2, 2), (3, 2), (4, 2), (5, 2), (2, 4), (3, 3)):
        edges = list(product(range(m), range(m, m + n)))
        sets = [[e for i, e in enumerate(edges) if chosen >> i & 1] for chosen in range(2 ** (m * n))]
        ranks = [(len(some), own(len(some), len({b for _, b in some})), _edges_of_a_forest(some)) for some in sets]
        for h, w in product((1, 2, 3), range(1, 7)):
            if min(m * n - size + nouns + h * min(w, r) for size, nouns, r in ranks) != independent(m, n, h, w):
                return False
    return True


def _edges_of_a_forest(edges: list[tuple[int, int]]) -> int:
    """The most edges of these without a circle."""
    part = {x: x for edge in edges for x in edge}
    kept = 0
    for a, b in edges:
        if part[a] != part[b]:
            kept += 1
            part = {x: part[b] if of == part[a] else of for x, of in part.items()}
    return kept


@EXAMPLE.check(
    "model b's own block, random weights: meanings that a dynamic head as wide as the stream tells apart, without an "
    "output matrix, by adjectives, nouns and width",
    states=lambda m, n, d: min(m * n, d),
    control=lambda m, n, d: min(m * n, n + d),
    wrong="a noun's own part beside the head's",
)
def meanings_in_a_narrow_stream(law: Callable[[int, int, int], int]) -> bool:
    rng = np.random.default_rng(15)
    for m, n, d in ((2, 2, 3), (3, 3, 4), (3, 3, 8), (3, 3, 12), (4, 2, 6), (2, 4, 5), (4, 4, 10)):
        tokens, (v, query, key) = rng.standard_normal((m + n, d)), rng.standard_normal((3, d, d))
        share = rng.uniform(0.1, 0.9, (m, n))
        rows = []
        for a, b in product(range(m), range(n)):
            noun, s = tokens[m + b], share[a, b]
            rows.append(noun + (v + (query @ noun)[:, None] * key) @ (s * tokens[a] + (1 - s) * noun))
        if int(np.linalg.matrix_rank(np.array(rows))) != law(m, n, d):
            return False
    return True


def _is_what_nouns_get(made: np.ndarray, shares: list[np.ndarray], rng: np.random.Generator) -> bool:
    """f_b + sum_h s^h_ab (g^h_a - c^h_b), pair by pair, for vectors of one number."""
    m, n = shares[0].shape
    f, g, c = rng.standard_normal(n), rng.standard_normal((len(shares), m)), rng.standard_normal((len(shares), n))
    expected = f + sum(s * (g[h][:, None] - c[h]) for h, s in enumerate(shares))
    vectors = np.concatenate([f, *(np.concatenate([g[h], c[h]]) for h in range(len(shares)))])
    return bool(np.allclose(made @ vectors, expected.ravel(), atol=CLOSE))


@EXAMPLE.check(
    "the least tables that one ordinary head does not make, however wide it is",
    states={(3, 3), (4, 2)},
    control={(1, 2), (2, 2)},
    wrong="the paper's, of one adjective or two",
    kind="exact",
)
def tables_of_one_head(least: set[tuple[int, int]]) -> bool:
    """Least: with fewer adjectives or fewer nouns one head does."""

    def made(m: int, n: int) -> bool:
        return m < 1 or n < 1 or independent(m, n, 1) == m * n

    failing = {(m, n) for m in range(1, 7) for n in range(1, 7) if not made(m, n)}
    border = {(m, n) for m, n in failing if made(m - 1, n) and made(m, n - 1)}
    counts = all((heads_needed(m, n) > 1) == ((m, n) in failing) for m in range(1, 7) for n in range(1, 7))
    two = all(independent(m, n, 2, width=-(-width_needed(m, n) // 2)) == m * n for m, n in border)
    return counts and two and border == least


@EXAMPLE.check(
    "meanings that one head with a gate tells apart, width n (m - 1): a coordinate a pair, scaled by the noun's gate",
    states=lambda gate, value: gate * value,
    control=lambda gate, value: 1 + 0 * gate * value + value,
    wrong="a gate that is 1",
)
def gated_head_tells_all_apart(coordinate: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> bool:
    """With s_ab of the adjective's value: (n, w) gates and (m, w) values are `dynamic_head`'s."""
    rng = np.random.default_rng(2)
    for m, n in ((2, 3), (3, 3), (4, 2), (2, 5)):
        gates, values = dynamic_head(m, n)
        share = rng.uniform(0.1, 0.9, (m, n, 1))
        outputs = (share * coordinate(gates[None], values[:, None])).reshape(m * n, -1)
        made = int(np.linalg.matrix_rank(np.concatenate([np.tile(np.eye(n), (m, 1)), outputs], axis=1)))
        width = width_needed(m, n)
        lost = least_loss(m, n, independent_of_dynamic(m, n, width - 1)), least_loss(m, n, made)
        if not (made == m * n and np.allclose(lost, (1 / (m * n), 0))):
            return False
    return True


@EXAMPLE.check(
    "meanings that the constructed dynamic head tells apart, width n (m - 1), and one coordinate fewer",
    states=0,
    control=1,
    wrong="one coordinate fewer is enough",
)
def dynamic_head_tells_all_apart(fewer: int) -> bool:
    for m, n in ((2, 2), (3, 3), (4, 2), (2, 5)):
        of_noun, of_adjective = dynamic_head(m, n)
        width = width_needed(m, n) - fewer
        if of_noun.shape[1] - fewer != width:
            return False
        both = of_noun[None] * of_adjective[:, None]
        if not np.array_equal(both[1:].reshape(-1, n * (m - 1)), np.eye(n * (m - 1))) or both[0].any():
            return False
        share = np.random.default_rng(m).uniform(0.1, 0.9, (m, n, 1))
        gated = (share * both)[..., :width].reshape(m * n, width)
        rows = np.concatenate([np.tile(np.eye(n), (m, 1)), gated], axis=1)
        if not int(np.linalg.matrix_rank(rows)) == m * n == independent_of_dynamic(m, n, width):
            return False
    return True
