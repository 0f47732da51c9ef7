"""Each hypothesis dropped by itself, in a stored case: what needs it breaks there, the rest goes on holding."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import softmax

from tests.theory.skipv1.w0_tools import best_loss, exact
from theory.plans.heads import Head
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import PromptMoments
from theory.prompts.setting import signal_share
from theory.resformer import blocks, measures, smoothing, spectra
from theory.resformer.cross_layer import cross_layer_most
from theory.resformer.in_context import biased_one_head_weights, block_distance
from theory.resformer.weights import ONE_HEAD, one_head_weights
from theory.skipv1.bias import skipv1_minimum
from theory.toy.population import PopulationLoss, Weights

EPS = 1e3 * np.finfo(float).eps


# Cross-layer attention and its block form


def variation(weights, moves):
    """Total variation of the block form's weights and what the moves of the scores make of them."""
    true = weights * np.exp(moves)
    return np.abs(true / true.sum() - weights).sum() / 2


def closed_form(eps, w):
    """kappa_w, also for w that `block_form_share` refuses."""
    t = math.exp(eps)
    return (t - math.sqrt(w * t + 1 - w)) ** 2 / (t**2 - 1)


def extreme(eps, w):
    """Weights and moves that attain kappa_w."""
    q = blocks.rising_share(eps, w)
    return np.array([w, (1 - w) * q, (1 - w) * (1 - q)]), np.array([0, eps, -eps])


def holds_in_the_mean(weights, moves):
    return variation(weights, moves) <= blocks.mean_bound(weights[None], moves[None])[0] + EPS


def test_one_mask_for_all_layers():
    """Keys that agree, but a token hidden in the other layer: not the mean of the values; the gates still hold."""
    rng = np.random.default_rng(1)
    own, values = rng.standard_normal((3, 4)), list(rng.standard_normal((2, 4, 2)))
    hidden = own.copy()
    hidden[:, 0] = -np.inf
    off = blocks.cross_layer_attention([own, hidden], values) - blocks.block_attention(own, values)
    assert np.abs(off).max() > 0.05
    assert blocks.block_form_share(0.0) == 0  # scores that both layers see do not move at all
    assert np.abs(off - blocks.block_error([own, hidden], values)).max() < EPS


def test_the_softmax():
    """Linear attention to keys that stand there twice gives the sum of the values, not their mean."""
    rng = np.random.default_rng(2)
    scores, values = rng.standard_normal((3, 4)), rng.standard_normal((2, 4, 2))
    linear = np.concatenate([scores, scores], axis=1) @ np.concatenate(values)
    assert np.abs(linear - scores @ values.mean(axis=0)).max() > 0.1
    assert np.abs(linear - scores @ values.sum(axis=0)).max() < EPS


def test_no_score_moves_by_more_than_eps():
    weights, moves = extreme(1.0, 0.5)
    assert variation(weights, moves) > 1.2 * blocks.block_form_share(0.5)
    assert variation(weights, moves) <= blocks.block_form_share(1.0) + EPS
    assert holds_in_the_mean(weights, moves)


def test_the_layers_own_scores_stay():
    """Own scores move as well, all within eps: as far as for a softmax all of whose scores move, w = 0."""
    weights, moves = (part[1:] for part in extreme(1.0, 0.0))  # the own scores are among those that rise
    assert variation(weights, moves) > 1.2 * blocks.block_form_share(1.0, 0.5)
    assert variation(weights, moves) <= blocks.block_form_share(1.0, 0.0) + EPS
    assert holds_in_the_mean(weights, moves)


def test_the_share_that_stays_is_that_of_the_number_of_layers():
    """Three layers pass the bound for two, and not their own."""
    weights, moves = extreme(1.0, 1 / 3)
    assert blocks.block_form_share(1.0, 1 / 2) * 1.05 < variation(weights, moves)
    assert variation(weights, moves) <= blocks.block_form_share(1.0, 1 / 3) + EPS
    assert holds_in_the_mean(weights, moves)


def test_the_share_that_stays_is_at_most_one_half():
    """w = 0.9: nothing attains the closed form, which is still a bound."""
    w, eps = 0.9, 3.0
    shares = np.linspace(0, 1, 10_001)
    found = max(variation(np.array([w, 0.1 * q, 0.1 * (1 - q)]), np.array([0, eps, -eps])) for q in shares)
    assert found < 0.95 * closed_form(eps, w)
    assert variation(*extreme(eps, 0.5)) == pytest.approx(closed_form(eps, 0.5))


def test_two_tokens_for_the_bound_to_be_attained():
    """One token: its copies' scores differ by one number, so only the smaller bound is attained."""
    weights = np.array([0.5, 0.5])
    found = max(variation(weights, np.array([0, move])) for move in np.linspace(-1, 1, 2001))
    assert found < 0.9 * blocks.block_form_share(1.0)
    assert found == pytest.approx(blocks.together_share(1.0))


def test_scores_that_move_together():
    """Two that move apart pass the bound for those that move together, and not the one for all."""
    weights, moves = extreme(1.0, 0.5)
    assert variation(weights, moves) > 1.1 * blocks.together_share(1.0)
    assert variation(weights, moves) <= blocks.block_form_share(1.0) + EPS
    assert holds_in_the_mean(weights, moves)


def test_the_values_are_those_of_both_forms():
    """The block form with other values too: outputs are apart although no weight moves."""
    scores, values = np.zeros((1, 2)), [np.zeros((2, 1)), np.ones((2, 1))]
    other = blocks.block_attention(scores, [values[0], -values[1]])
    cross = blocks.cross_layer_attention([scores, scores], values)
    assert blocks.block_form_share(0.0) * 2 < np.abs(cross - other).max()
    assert np.abs(cross - blocks.block_attention(scores, values)).max() < EPS


# What is measured of a layer


def test_rows_that_sum_to_one_for_importance_to_be_a_distribution():
    """Rows twice as large: importance sums to two; the entropy, which normalises, is as it was."""
    attention = softmax(np.random.default_rng(3).standard_normal((4, 4)), axis=1)
    importance = measures.token_importance(attention)
    assert measures.token_importance(2 * attention).sum() == pytest.approx(2)
    assert measures.entropy(measures.token_importance(2 * attention)) == pytest.approx(measures.entropy(importance))


# Depth, Theorem 1: every case says which limits are still reached

VALUES = np.random.default_rng(4).standard_normal((4, 3))
CAUSAL = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.3, 0.3, 0.4, 0], [0.25, 0.25, 0.25, 0.25]])
IN_TWO = np.kron(np.eye(2), np.array([[0.7, 0.3], [0.4, 0.6]]))  # 1 is an eigenvalue twice
CYCLE = np.eye(4)[[1, 2, 3, 0]]  # of eigenvalues 1, i, -1 and -i
DISPERSING = np.array([[0.1, 0.9, 0, 0], [0.9, 0.1, 0, 0], [0.2, 0.2, 0.2, 0.4], [0.25, 0.25, 0.25, 0.25]])
HALVED = CAUSAL / 2
KINDS = {"vanilla", "resformer", "svformer", "neutreno"}


def attended(kind, matrices):
    state, first = VALUES, VALUES
    for n, a in enumerate(matrices):
        match kind:
            case "vanilla":
                state = a @ state
            case "resformer":
                state = a @ (state if n == 0 else (state + first) / 2)
            case "svformer":
                state = a @ first
            case "neutreno":
                state = a @ state + 0.4 * (first - state)
    return state


def limit(kind, a):
    match kind:
        case "vanilla":
            eigenvalues, vectors = np.linalg.eig(a.T)
            stationary = vectors[:, np.argmax(eigenvalues.real)].real
            return np.outer(np.ones(4), stationary / stationary.sum()) @ VALUES
        case "resformer":
            return np.linalg.solve(np.eye(4) - a / 2, a @ VALUES / 2)
        case "svformer":
            return a @ VALUES
    return 0.4 * np.linalg.solve(1.4 * np.eye(4) - a, VALUES)


def reached(a):
    """Which of Theorem 1's limits 200 layers of one matrix reach."""
    return {kind for kind in KINDS if np.abs(attended(kind, [a] * 200) - limit(kind, a)).max() < 1e-9}


@pytest.mark.parametrize(
    ("a", "broken"),
    [
        pytest.param(CAUSAL, set(), id="none dropped"),
        pytest.param(IN_TWO, {"vanilla"}, id="1 a simple eigenvalue"),
        pytest.param(CYCLE, {"vanilla", "neutreno"}, id="all others smaller in modulus"),
        pytest.param(DISPERSING, {"neutreno"}, id="mu - lambda below 1 in modulus"),
        pytest.param(HALVED, {"vanilla"}, id="rows that sum to one"),
    ],
)
def test_of_one_matrix(a, broken):
    assert KINDS - reached(a) == broken


def test_two_groups_of_tokens_stay_two():
    """1 twice an eigenvalue: vanilla's output has rank two, ResFormer's that of A V_1 as ever."""
    ranks = [np.linalg.matrix_rank(attended(kind, [IN_TWO] * 200), tol=1e-6) for kind in ("vanilla", "resformer")]
    assert ranks == [2, np.linalg.matrix_rank(IN_TWO @ VALUES)]


def test_one_matrix_in_all_layers():
    """Two in turn: ResFormer's output goes to and fro for ever; vanilla's tokens become one all the same, and Theorem 2
    holds, which is about any matrices."""
    turns = [CAUSAL, DISPERSING] * 100
    even, odd = attended("resformer", turns), attended("resformer", turns[:-1])
    assert np.abs(even - odd).max() > 0.1
    assert blocks.diameter(attended("vanilla", turns)) < 1e-9
    tau = max(map(smoothing.dobrushin, turns))
    assert blocks.diameter(even) <= smoothing.largest_diameters(tau, 200)[-1] * blocks.diameter(VALUES) + EPS


def test_nothing_but_attention():
    """With a residual stream and a projection by -1, I - A in the place of A, tokens do not become alike."""
    apart = {}
    for name, a in (("attention", CAUSAL), ("with a residual", np.eye(4) - CAUSAL)):
        state = VALUES
        for _ in range(60):
            state = a @ state / np.linalg.norm(a @ state)
        apart[name] = blocks.diameter(state)
    assert apart["attention"] < 1e-9
    assert apart["with a residual"] > 0.5


def test_own_below_one():
    """own = 1: ResFormer's output grows with depth, in the eigenvector of 1 alone; own = 1/2 has a limit."""
    own_one, own_half = (
        [smoothing.depth_filters(resolve(name, Shape(n, 1)))[-1] for n in (100, 200)]
        for name in ("resformer-constant:weight=1", "resformer")
    )
    assert own_one[1](1.0) > 1.9 * own_one[0](1.0)
    assert own_one[1](0.5) == pytest.approx(own_one[0](0.5))
    assert own_half[1](1.0) == pytest.approx(own_half[0](1.0))
    bounds = smoothing.largest_diameters(smoothing.dobrushin(CAUSAL), 6, 1.0, 1.0)
    state = np.zeros_like(VALUES)
    for n, bound in enumerate(bounds):
        state = CAUSAL @ (VALUES if n == 0 else state + VALUES)
        assert blocks.diameter(state) <= bound * blocks.diameter(VALUES) + EPS  # Theorem 2 asks own >= 0 alone


@pytest.mark.parametrize(("mu", "later"), [(0.5, True), (-0.3, True), (-0.9, False)])
def test_eigenvalues_that_are_not_negative(mu, later):
    """Half the layer before's values put equality off, but for large negative eigenvalues they hasten it."""
    filters = smoothing.depth_filters(resolve("resformer-previous", Shape(80, 1)))
    falls = (abs(filters[-1](mu) / filters[0](mu))) ** (1 / 79)
    assert (falls > abs(mu)) == later
    expected = smoothing.previous_rate(mu) if mu > 0 else (-mu / 2) ** 0.5
    assert falls == pytest.approx(expected, rel=0.03)


# Depth, Theorem 2


def contracting(tau):
    return np.array([[1 + tau, 1 - tau], [1 - tau, 1 + tau]]) / 2


def diameter_at_depth(matrices, own, first):
    state, values = np.zeros((2, 1)), np.array([[0.0], [1.0]])
    for n, a in enumerate(matrices):
        state = a @ (values if n == 0 else own * state + first * values)
    return blocks.diameter(state)


def test_no_layer_contracts_less_than_tau():
    matrices = [contracting(0.3), contracting(0.3), contracting(0.9)]
    for own, first in ((1.0, 0.0), (0.5, 0.5)):
        found = diameter_at_depth(matrices, own, first)
        assert found > 1.5 * smoothing.largest_diameters(0.3, 3, own, first)[-1]
        assert found <= smoothing.largest_diameters(0.9, 3, own, first)[-1]


def test_weights_that_are_not_negative():
    """own = -1/2 and first = -1/2: the recursion gives less than there is; vanilla's bound stands."""
    matrices = [contracting(0.9)] * 3
    found = diameter_at_depth(matrices, -0.5, -0.5)
    assert found > smoothing.largest_diameters(0.9, 3, -0.5, -0.5)[-1] + 0.1
    assert diameter_at_depth(matrices, 1.0, 0.0) == pytest.approx(smoothing.largest_diameters(0.9, 3, 1.0, 0.0)[-1])


def test_rows_that_sum_to_one_for_diameters():
    """Rows that sum to 1 and 2 tell apart what is common to all tokens."""
    a, same = np.array([[1.0, 0.0], [1.0, 1.0]]), np.ones((2, 1))
    assert blocks.diameter(a @ same) == 1
    assert smoothing.dobrushin(a) * blocks.diameter(same) == 0
    assert blocks.diameter(contracting(0.5) @ same) == 0


# Value spectra before training


@pytest.mark.parametrize(("of_layer_1", "stays"), [(False, True), (True, False)], ids=["none dropped", "W_1 in X_n"])
def test_tokens_that_do_not_depend_on_the_projections(of_layer_1, stays):
    """One number everywhere, X_1 = 1: V = X_n W_n + W_1, with X_n = 2, or what layer 1's value makes of it, W_1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)  # exact for these moments of normal W_n and W_1
    mean = np.outer(weights, weights) / weights.sum() ** 2
    w_n, w_1 = np.meshgrid(nodes, nodes, indexing="ij")
    x_n = w_1 if of_layer_1 else np.full_like(w_1, 2.0)
    values, grams = x_n * w_n + w_1, x_n**2 + 1
    sums, squares = (
        sum(m * f(np.array([[k]]), 1, 1.0) for m, k in zip(mean.ravel(), grams.ravel(), strict=True))
        for f in (spectra.expected_sum, spectra.expected_square_sum)
    )
    assert (mean * values**2).sum() == pytest.approx(sums)
    assert ((mean * values**4).sum() == pytest.approx(squares)) == stays


# In-context regression


def explained_exactly(moments, a, b, *kinds, query=None):
    return moments.zero_loss - best_loss(moments, a, b, kinds, query)


CROSS, BLOCK = ("ordinary", "raw"), ("ordinary", "skip")


@pytest.mark.parametrize("raw", [False, True], ids=["none dropped", "a query of layer 1's making"])
def test_the_query_for_both_forms(raw):
    """Around 5 I, n = 50, a = 1: a raw query lets both forms read more than a d entries."""
    a, b, query = (exact(np.array(m)) for m in ([[3, 0]], [[1, 1]], [[1, 0], [0, 1]]))
    sigma = Fraction(1, 2)
    moments = PromptMoments(2, 50, sigma, 5 * query, centred=True)
    cross, block = (explained_exactly(moments, a, b, *kinds, query=query if raw else None) for kinds in (CROSS, BLOCK))
    assert (cross > 1.5 * cross_layer_most(2, 50, sigma, 1, Fraction(25))) == raw
    assert (block > 1.5 * 2 * signal_share(2, 50, sigma)) == raw


@pytest.mark.parametrize("one_row", [False, True], ids=["none dropped", "W* of covariance I"])
def test_all_of_w_is_random(one_row):
    """Where one row of W* alone is random, B finds it: no gap at W0 = 0, where it is rho a^2."""
    a, b, eye = (exact(np.array(m)) for m in ([[1, 0]], [[1000, 0]], [[1, 0], [0, 1]]))
    sigma, rows = Fraction(1, 2), exact(np.array([[1, 0], [0, 0]]))
    moments = PromptMoments(2, 4, sigma, 0 * eye, prior_rows=rows if one_row else eye, centred=True)
    gap = explained_exactly(moments, a, 0 * b, *BLOCK) - explained_exactly(moments, a, b, *CROSS)
    assert abs(gap - (0 if one_row else signal_share(2, 4, sigma))) < 1e-5


def second_moment(d, n, sigma, readout, keys, **law):
    """E |P|^2 of what cross-layer attention has more than its block form, from the population's polynomial; d = a."""
    heads = (Head(copied=0, raw=1, key_copied=0, key_raw=1, readout="w"), Head(copied=0, raw=1, readout="w"))
    loss = PopulationLoss(PromptMoments(d, n, sigma, **law), heads)
    a, b = np.array([[Fraction(2)]]), np.zeros((0, 1), dtype=object)
    theirs, own = keys
    plus, minus, zero = (
        loss.value(Weights(a=a, b=b, w=sign * readout[None], k=np.stack([theirs, -own]))) for sign in (1, -1, 0)
    )
    into, of = (theirs @ a).T, (own @ a).T
    differences = (-of[:, :1] @ a, into - of[:, 1:] @ b, into - of)
    return (plus + minus) / 2 - zero, block_distance(d, n, sigma, readout, *differences)


def test_w0_at_zero_for_the_distance():
    """Around W0 = 3 the mean square is another; that it is a quadratic form in the distance of the keys still holds."""
    one, theirs, own = (np.array([[Fraction(i)]]) for i in (1, 5, 3))
    found, stated = second_moment(1, 2, Fraction(1, 2), one, (theirs, own))
    assert found == stated
    around = np.array([[Fraction(3)]])
    found, stated = second_moment(1, 2, Fraction(1, 2), one, (theirs, own), w0=around)
    assert found > 2 * stated
    tripled, _ = second_moment(1, 2, Fraction(1, 2), one, (3 * theirs, 3 * own), w0=around)
    assert tripled == 9 * found


def of_one_pair(fourth_of_x, fourth_of_noise, parts):
    """E (w x + e)^2-sums for d = n = 1, by hand: E [(w x + e) (D_x x + D_y (w x + e)) + D_0 x^2]^2, sigma = 1.

    W* normal, E w^2 = 1 and E w^4 = 3; x and e even with unit variance.  Only even powers of w and e are left.
    """
    dx, dy, d0 = parts
    w, e = {0: 1, 2: 1, 4: 3}, {0: 1, 2: 1, 4: fourth_of_noise}
    x = {0: 1, 2: 1, 4: fourth_of_x}
    total = 0
    # y = w x + e; the sum is dx x y + dy y^2 + d0 x^2, each a polynomial in (w, x, e)
    terms = [(dx, 1, 2, 0), (dx, 0, 1, 1), (dy, 2, 2, 0), (2 * dy, 1, 1, 1), (dy, 0, 0, 2), (d0, 0, 2, 0)]
    for left, right in product(terms, repeat=2):
        powers = [i + j for i, j in zip(left[1:], right[1:], strict=True)]
        total += left[0] * right[0] * math.prod(m.get(p, 0) for m, p in zip((w, x, e), powers, strict=True))
    return total


@pytest.mark.parametrize("parts", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 1, -3)])
def test_normal_inputs_and_noise_for_the_distance(parts):
    """Signs in the place of normal inputs break every part; signs in the place of normal noise that of S_yy alone."""
    one = np.array([[1]])
    stated = block_distance(1, 1, 1, one, *(part * one for part in parts))
    assert of_one_pair(3, 3, parts) == stated
    assert of_one_pair(1, 3, parts) != stated
    assert (of_one_pair(3, 1, parts) == stated) == (parts[1] == 0)


@pytest.mark.parametrize(
    ("weights", "free", "attained"),
    [(biased_one_head_weights, True, True), (biased_one_head_weights, False, False), (one_head_weights, True, False)],
    ids=["none dropped", "a free term C x", "the readout that knows W0"],
)
def test_one_head_around_w0(weights, free, attained):
    """At W0 = 0 all three attain the minimum; around W0 the free term and the readout are both needed."""
    d, n, sigma, rank = 2, 3, Fraction(1, 2), 1
    for w0 in (np.array([[Fraction(0)] * 2] * 2), np.array([[Fraction(2), Fraction(0)], [Fraction(1), Fraction(-1)]])):
        extra = (w0,) if weights is biased_one_head_weights else ()
        loss = PopulationLoss(PromptMoments(d, n, sigma, w0, centred=free), ONE_HEAD)
        found = loss.value(weights(d, n, sigma, rank, *extra)) == skipv1_minimum(d, n, sigma, rank)
        assert found == (attained or not w0.any())
