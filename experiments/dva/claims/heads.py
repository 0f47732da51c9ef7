"""Claims on sections 2.1 and 2.2: what scores say of a pair, what a head does, and what limits their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product

import numpy as np

from experiments.dva.claims.dynamic_values import OF_A_LAYER
from experiments.ledger.claim import Claim, Conditions
from experiments.toys.unjudged import OF_PARAMETERS
from theory.dva import heads, scores
from theory.dva.heads import alone, attended_by, is_linear_alone, on_mean_free, patterns
from theory.dva.paper import PAPER
from theory.dva.scores import factors, form, shares
from theory.errors import BadInput
from theory.plans.accounting import flops, total_parameters
from theory.plans.architecture import Architecture
from theory.plans.depth import Depth
from theory.plans.memory import activations, answered, reads_over_depth
from theory.plans.names import resolve
from theory.plans.presets import gpt2

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
def only_the_product_counts(of_keys: Callable[[np.ndarray], np.ndarray]) -> Conditions:
    rng = np.random.default_rng(20)
    for width, d in ((1, 1), (2, 5), (4, 3)):
        query, key = rng.standard_normal((2, width, d))
        g, (one, other) = rng.standard_normal((width, width)) + 3 * np.eye(width), rng.standard_normal((2, d))
        plain = (query @ one) @ (key @ other)
        yield abs(one @ form(query, key) @ other - plain) <= CLOSE * (1 + abs(plain))
        changed = form(g @ query, of_keys(g) @ key)
        yield np.abs(changed - form(query, key)).max() <= CLOSE * (1 + np.abs(changed).max())


@SCORES.number(
    "the least width of a head whose scores are a given form, of ranks 0 to 4",
    lambda rank: max(rank, 1),
    control=lambda rank: rank + 1,
    wrong="one more than its rank",
    kind="float64",
)
def any_form_of_so_small_a_rank() -> Iterator[tuple[int, int]]:
    rng = np.random.default_rng(21)
    for rank in range(5):
        wanted = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 4))
        yield rank, next(width for width in range(1, 6) if _makes(wanted, width))


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
def what_is_mutual(same: tuple[bool, bool]) -> Conditions:
    rng = np.random.default_rng(22)
    for width, d in ((2, 2), (3, 5)):
        one_map, other_map = rng.standard_normal((2, width, d))
        girl, hot = rng.standard_normal((2, d))
        found = []
        for key in (one_map, other_map):
            m = form(one_map, key)
            apart = float(girl @ m @ hot - hot @ m @ girl)
            yield abs(apart - girl @ (m - m.T) @ hot) <= CLOSE
            found.append(abs(apart) < CLOSE)
        yield tuple(found) == same
        yield girl @ form(one_map, one_map) @ girl >= 0


@SCORES.check(
    "what a token gives to one of one to four keys, with scores from -5 to 5, and with all of them raised alike",
    states=lambda score, others: 1 / (1 + np.exp(others - score).sum()),
    control=lambda score, others: score / (score + others.sum()) if len(others) else score,
    wrong="the score, over the sum of them",
)
def shares_go_with_differences(share: Callable[[float, np.ndarray], float]) -> Conditions:
    rng = np.random.default_rng(23)
    for count in range(4):
        score, others = float(rng.uniform(-5, 5)), rng.uniform(-5, 5, count)
        every = np.append(others, score)
        found = float(shares(every)[-1])
        yield abs(found - share(score, others)) <= CLOSE
        yield all(abs(found - shares(every + more)[-1]) < CLOSE for more in (7, 10_000, -10_000))
        if not count:
            yield found == 1
    yield np.array_equal(shares(np.array([-800.0, 800.0])), [0, 1])


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
def alone_is_quadratic(even: tuple[bool, bool]) -> Conditions:
    """Check which heads have an even part: a dynamic head with a gate, and ordinary ones."""
    rng = np.random.default_rng(5)
    for d, width in ((2, 2), (3, 5), (4, 1)):
        v, query, key = rng.standard_normal((3, width, d))
        x = rng.standard_normal(d)
        x *= np.sqrt(d) / np.linalg.norm(x)
        dynamic = (alone(v, query, key, x) + alone(v, query, key, -x)) / 2
        several = [(rng.standard_normal(d), rng.standard_normal((width, d))) for _ in range(5)]
        ordinary = attended_by(several, x[:, None]) + attended_by(several, -x[:, None])
        summed = np.sum([w for _, w in several], axis=0) @ x
        yield np.allclose(attended_by(several, x[:, None]), summed, atol=CLOSE)
        found = bool((np.abs(dynamic) > CLOSE).any()), bool((np.abs(ordinary) > CLOSE).any())
        yield found == even
        yield np.allclose(dynamic, (query @ x) * (key @ x), atol=CLOSE)
        yield not is_linear_alone(query, key)
        yield is_linear_alone(query * 0, key)
        if width > 1:
            halves = np.where(np.arange(width)[:, None] % 2, query, 0), np.where(np.arange(width)[:, None] % 2, 0, key)
            yield is_linear_alone(*halves)
            yield np.abs(alone(v, *halves, x) - v @ x).max() <= CLOSE


@ONE_HEAD.check(
    "two tokens of one number: score directions, up to sign, that a sum of heads takes, by its least distance from "
    "what none, one or two of them make with any matrices",
    states=patterns,
    control=lambda several: min(1, patterns(several)),
    wrong="one is enough for all",
    kind="descent",
)
def patterns_are_what_it_takes(count: Callable[[list[tuple[np.ndarray, np.ndarray]]], int]) -> Conditions:
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
        yield count(made) == _directions_by_distance(pairs, wanted)


def _directions_by_distance(pairs: np.ndarray, wanted: np.ndarray) -> int | None:
    """Return how many directions c of a grid fit, with the tokens' mean and tanh(c delta / 2) delta.

    The result is None where the fit is neither near nor far.

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
    """Return the relative mean square that the best linear map of features (n, .) leaves of (n,)."""
    by, *_ = np.linalg.lstsq(features, wanted, rcond=None)
    return float(((wanted - features @ by) ** 2).sum() / max(float(wanted @ wanted), 1e-30))


def _far_from_one_head(heads_of_it: list[tuple[np.ndarray, np.ndarray]], tokens: np.ndarray) -> bool | None:
    """Return whether no dynamic head was found to give a query what these heads do; None: one neither near nor far.

    The query is the first of the tokens (n, d); it sees itself and each of them.  The search is over c, with the best U
    for each.
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
    """Return tokens (count, d) as RMSNorm leaves them, or LayerNorm; one has its opposite among them."""
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
def two_heads_of_one_length(dimensions: int) -> Conditions:
    for d in (1, 2, 3):
        a, w = np.arange(1.0, d + 1), np.ones((1, d))
        yield _far_from_one_head([(a, w), (2.5 * a[::-1], w)], _of_one_length(d)) is (d >= dimensions)


@ONE_HEAD.check(
    "what LayerNorm leaves of heads and gates: score directions that no single head makes, and gates of a token alone",
    states=on_mean_free,
    control=lambda rows: rows,
    wrong="all of them, as without a norm",
    kind="descent",
)
def on_tokens_without_a_mean(left: Callable[[np.ndarray], np.ndarray]) -> Conditions:
    """Check that score directions, or rows, that differ by a constant count once, constant ones never, exactly."""
    for d in (3, 4):
        tokens = _of_one_length(d, mean_free=True)
        constant, a, w = np.ones(d), np.array([0.0, 1, 4, 9])[:d], np.arange(d)[None] - 2.0
        other = np.array([1.0, -2, 0, 1])[:d]
        parts = -np.cumsum(tokens, axis=1)[:, :-1]  # of a token, along e_2 - e_1, ..., e_d - e_(d-1)
        yield np.allclose(parts @ on_mean_free(a), tokens @ a, atol=CLOSE)
        for several in (
            [(a, w), (other, w)],
            [(a, w), (a + 3 * constant, 2 * w)],
            [(a, w), (2 * constant - a, w + constant)],
            [(a, w), (other, 0 * w + constant)],
        ):
            count = patterns([(left(direction), left(matrix)) for direction, matrix in several])
            yield _far_from_one_head(several, tokens) is (count > 1)
        for query, key in ((np.ones((2, d)), np.stack([a, other])), (np.stack([a, constant]), np.stack([other, a]))):
            even = [alone(0 * query, query, key, x) for x in tokens]
            yield is_linear_alone(left(query), left(key)) is bool(np.abs(even).max() < CLOSE)


LIMIT = Claim(
    "dva.number-of-heads",
    PAPER.name,
    place="abstract, section 2.2: complexity, or computation, restricts the number of heads",
    statement="The number of heads is limited by what heads cost.",
    assumes="the accounting's parameters, FLOPs and numbers that a training step keeps; GPT-2's blocks; softmaxes "
    "themselves are not among the FLOPs",
    verdict="corrected",
    correction="In a model of one width, as the paper's, parameters and FLOPs are the same for every number of "
    "heads.  Two things grow with it, in proportion: softmaxes, one a pair of tokens and head, and, where no fused "
    "kernel attends, the weights of pairs that are kept.  Only heads of a fixed width cost parameters and FLOPs "
    "each.  What is limited at one width is the width of a head, d / H, and with it the rank of its scores "
    "(dva.scores).",
    proof=flops,
    uses=("dva.scores",),
    unjudged={
        **OF_PARAMETERS,
        **OF_A_LAYER,
        **dict.fromkeys(
            (activations, answered, reads_over_depth, Depth.saved),
            "what is kept is told with fused kernels and without: a difference",
        ),
    },
)
COUNTS = (1, 2, 3, 4, 6, 12)
VOCAB, CONTEXT, FAR = 64, 32, 16  # FAR: tokens that are attended to


def _model(heads: int, head_dim: int = 0, layers: int = 2, d: int = 24) -> Architecture:
    made = gpt2(d_model=d, n_heads=heads, n_layers=layers, vocab=VOCAB, context=CONTEXT, tied=False, qkv_bias=False)
    return replace(made, head_dim=head_dim)


@LIMIT.check(
    "parameters and FLOPs by the accounting with 1 to 12 heads, as counted by hand from how wide they are together: "
    "in a model of width 24 as it divides its width, and of heads that are 8 wide",
    states={0: lambda heads: 24, 8: lambda heads: 8 * heads},
    control={0: lambda heads: 24 * heads, 8: lambda heads: 8 * heads},
    wrong="with their number in either",
    kind="exact",
)
def cost_of_heads(together: Mapping[int, Callable[[int], int]]) -> Conditions:
    """Count the cost by hand for a GPT-2 of width 24; together: its heads' common width, by each head's own."""
    for count, layers, head_dim in product(COUNTS, (1, 2), together):
        sizes = _model(count, head_dim, layers)
        plan, d, wide = resolve("vanilla", sizes.shape), 24, together[head_dim](count)
        matrices = layers * (4 * d * wide + 8 * d * d)
        yield total_parameters(sizes, plan) == matrices + (2 * VOCAB + CONTEXT + layers * (6 + 4) + 2) * d
        attended = layers * FAR * 4 * wide
        yield flops(sizes, plan, FAR) == 2 * (matrices + VOCAB * d) + attended + 2 * d * (2 * layers + 1)


@LIMIT.number(
    "numbers that a training step keeps of a token where no fused kernel attends, less those where one does: with "
    "dropout three for every token, head and layer",
    lambda heads: 3 * 2 * CONTEXT * heads,
    control=lambda heads: 3 * 2 * CONTEXT,
    wrong="whatever the number of heads",
)
def weights_of_pairs() -> Iterator[tuple[int, int]]:
    for count in COUNTS:
        sizes = replace(_model(count), dropout=0.1)
        plan = resolve("vanilla", sizes.shape)
        yield count, activations(sizes, plan) - activations(sizes, plan, fused=True)
