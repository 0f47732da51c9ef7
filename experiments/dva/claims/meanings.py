"""Claims on section 2.2's example, hot girl drinks hot water: how many meanings heads can separate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, product

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.dva import meanings
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
)
def meanings_of_heads(law: Callable[[int, int, int], int]) -> Conditions:
    rng = np.random.default_rng(1)
    for m, n, h in product(range(1, 6), range(1, 6), (1, 2, 3)):
        shares = list(rng.uniform(0.1, 0.9, (h, m, n)))
        made = pattern(shares)
        yield _rank(made) == law(m, n, h) == independent(m, n, h)
        yield _is_what_nouns_get(made, shares, rng)


def _rank(matrix: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(matrix))


@EXAMPLE.check(
    "linearly independent meanings of one to three heads of width 1 to 7, tables up to 5 x 5: scores free, and of "
    "queries and keys no wider",
    states=lambda m, n, h, w: min(m * n, n + h * min(w, m + n - 1)),
    control=lambda m, n, h, w: min(m * n, n + h * w),
    wrong="no head is too wide for its table",
)
def meanings_of_narrow_heads(law: Callable[[int, int, int, int], int]) -> Conditions:
    rng = np.random.default_rng(14)
    for m, n, h, w in product(range(1, 6), range(1, 6), (1, 2, 3), range(1, 8)):
        of_nouns, of_keys = rng.standard_normal((h, n, w)), rng.standard_normal((h, m + n, w))
        scores = of_keys @ of_nouns.transpose(0, 2, 1)
        differences = scores[:, :m] - np.diagonal(scores[:, m:], axis1=1, axis2=2)[:, None]
        for shares in (rng.uniform(0.1, 0.9, (h, m, n)), 1 / (1 + np.exp(-2 * differences))):
            made = pattern(list(shares))
            narrow = [part @ rng.standard_normal((m + n, w)) for part in np.split(made[:, n:], h, axis=1)]
            rank = _rank(np.hstack([made[:, :n], *narrow]))
            yield rank == law(m, n, h, w) == independent(m, n, h, w)


@EXAMPLE.check(
    "the rank of the matroids' union, its least over all sets of pairs, one to three heads of width 1 to 6, tables up "
    "to 3 x 3 and 5 x 2",
    states=lambda pairs, nouns: nouns,
    control=lambda pairs, nouns: pairs,
    wrong="a noun's own part tells all its pairs apart",
    kind="exact",
)
def least_over_sets_of_pairs(own: Callable[[int, int], int]) -> Conditions:
    """Check the least over sets of pairs; own: the rank of a set of pairs in what is the noun's alone."""
    for m, n in ((1, 3), (2, 2), (3, 2), (4, 2), (5, 2), (2, 4), (3, 3)):
        edges = list(product(range(m), range(m, m + n)))
        sets = [[e for i, e in enumerate(edges) if chosen >> i & 1] for chosen in range(2 ** (m * n))]
        ranks = [(len(some), own(len(some), len({b for _, b in some})), _edges_of_a_forest(some)) for some in sets]
        for h, w in product((1, 2, 3), range(1, 7)):
            yield min(m * n - size + nouns + h * min(w, r) for size, nouns, r in ranks) == independent(m, n, h, w)


def _edges_of_a_forest(edges: list[tuple[int, int]]) -> int:
    """Return the most of these edges that form no circle."""
    part = {x: x for edge in edges for x in edge}
    kept = 0
    for a, b in edges:
        if part[a] != part[b]:
            kept += 1
            part = {x: part[b] if of == part[a] else of for x, of in part.items()}
    return kept


@EXAMPLE.number(
    "model b's own block, random weights: meanings that a dynamic head as wide as the stream tells apart, without an "
    "output matrix, by adjectives, nouns and width",
    lambda m, n, d: min(m * n, d),
    control=lambda m, n, d: min(m * n, n + d),
    wrong="a noun's own part beside the head's",
    kind="float64",
)
def meanings_in_a_narrow_stream() -> Iterator[tuple[tuple[int, int, int], int]]:
    rng = np.random.default_rng(15)
    for m, n, d in ((2, 2, 3), (3, 3, 4), (3, 3, 8), (3, 3, 12), (4, 2, 6), (2, 4, 5), (4, 4, 10)):
        tokens, (v, query, key) = rng.standard_normal((m + n, d)), rng.standard_normal((3, d, d))
        share, rows = rng.uniform(0.1, 0.9, (m, n)), []
        for a, b in product(range(m), range(n)):
            noun, s = tokens[m + b], share[a, b]
            rows.append(noun + (v + (query @ noun)[:, None] * key) @ (s * tokens[a] + (1 - s) * noun))
        yield (m, n, d), _rank(np.array(rows))


def _is_what_nouns_get(made: np.ndarray, shares: list[np.ndarray], rng: np.random.Generator) -> bool:
    """Compare with f_b + sum_h s^h_ab (g^h_a - c^h_b), pair by pair, for vectors of one number."""
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
def tables_of_one_head(least: set[tuple[int, int]]) -> Conditions:
    """Least: with fewer adjectives or fewer nouns one head does."""
    tables = set(product(range(1, 7), range(1, 7)))
    needed = {(m, n): next(h for h in count() if independent(m, n, h) == m * n) for m, n in tables}
    yield needed == {(m, n): heads_needed(m, n) for m, n in tables}
    failing = {table for table in tables if needed[table] > 1}
    yield least == {(m, n) for m, n in failing if not failing & {(m - 1, n), (m, n - 1)}}
    yield all(independent(m, n, 2, width=-(-width_needed(m, n) // 2)) == m * n for m, n in least)


@EXAMPLE.check(
    "meanings that one head with a gate tells apart, width n (m - 1): a coordinate a pair, scaled by the noun's gate",
    states=lambda gate, value: gate * value,
    control=lambda gate, value: 1 + 0 * gate * value + value,
    wrong="a gate that is 1",
)
def gated_head_tells_all_apart(coordinate: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Conditions:
    """Check gates (n, w) and values (m, w) of `dynamic_head`, with s_ab of the adjective's value."""
    rng = np.random.default_rng(2)
    for m, n in ((2, 3), (3, 3), (4, 2), (2, 5)):
        gates, values = dynamic_head(m, n)
        outputs = rng.uniform(0.1, 0.9, (m, n, 1)) * coordinate(gates[None], values[:, None])
        made = _rank(np.hstack([np.tile(np.eye(n), (m, 1)), outputs.reshape(m * n, -1)]))
        yield made == m * n
        lost = least_loss(m, n, independent_of_dynamic(m, n, width_needed(m, n) - 1)), least_loss(m, n, made)
        yield np.allclose(lost, (1 / (m * n), 0))


@EXAMPLE.check(
    "meanings that the constructed dynamic head tells apart, width n (m - 1), and one coordinate fewer",
    states=0,
    control=1,
    wrong="one coordinate fewer is enough",
)
def dynamic_head_tells_all_apart(fewer: int) -> Conditions:
    for m, n in ((2, 2), (3, 3), (4, 2), (2, 5)):
        of_noun, of_adjective = dynamic_head(m, n)
        width = width_needed(m, n) - fewer
        yield of_noun.shape[1] - fewer == width
        both = of_noun[None] * of_adjective[:, None]
        yield np.array_equal(both[1:].reshape(-1, n * (m - 1)), np.eye(n * (m - 1)))
        yield not both[0].any()
        gated = np.random.default_rng(m).uniform(0.1, 0.9, (m, n, 1)) * both[..., :width]
        rows = np.hstack([np.tile(np.eye(n), (m, 1)), gated.reshape(m * n, width)])
        yield _rank(rows) == m * n == independent_of_dynamic(m, n, width)


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
    """Return the rank of what the nouns get from heads with random scores."""
    rng = np.random.default_rng(m + 10 * n + 100 * heads + 1000 * width)
    if not heads:
        return n
    made = pattern(list(rng.uniform(0.1, 0.9, (heads, m, n))))
    parts = [part @ rng.standard_normal((m + n, width)) for part in np.split(made[:, n:], heads, axis=1)]
    return _rank(np.hstack([made[:, :n], *parts]))


@REDUNDANCY.number(
    "wide heads at tables up to 5 x 4: the share of them that can be left out, of as many as are needed and up to "
    "three more",
    lambda needed, heads: 1 - needed / heads,
    control=lambda needed, heads: 0.0,
    wrong="none, however many there are",
    within=1e-12,
)
def share_of_wide_heads() -> Iterator[tuple[tuple[int, int], float]]:
    for m, n in ((3, 3), (4, 2), (4, 4), (5, 4)):
        needed = heads_needed(m, n)
        for heads in range(needed, needed + 4):
            left = next(h for h in range(heads + 1) if _told_apart(m, n, h, m + n) == m * n)
            yield (needed, heads), 1 - left / heads


@REDUNDANCY.check(
    "heads of width 1, as many as tables need of width: how many can be left out",
    states=0,
    control=1,
    wrong="one of them",
)
def none_of_narrow_heads(spare: int) -> Conditions:
    for m, n in ((2, 2), (3, 3), (4, 2), (5, 4)):
        heads = width_needed(m, n)
        left = next(h for h in range(heads + 1) if _told_apart(m, n, h, 1) == m * n)
        yield independent(m, n, heads - spare, 1) == m * n
        yield heads - left == spare
