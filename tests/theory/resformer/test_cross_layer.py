"""Cross-layer attention around any W0, and its block form: bounds that no values and no scores pass."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from tests.theory.skipv1.w0_tools import best_loss, exact
from theory.errors import BadInput
from theory.plans.heads import ORDINARY, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.prompts.setting import signal_share
from theory.resformer import blocks, cross_layer
from theory.resformer.cross_layer_weights import RAW_PAIR
from theory.toy.enough_heads import EnoughHeads
from theory.toy.value_maps import explained_entries

KINDS = (ORDINARY, RAW_PAIR)


@settings(max_examples=30)
@given(st.data(), st.integers(0, 999))
def test_no_values_pass_the_bounds(data, seed):
    """In float64, up to d = 4; W0 at random, and c I, whose bound is lower."""
    d, rng = data.draw(st.integers(1, 4)), np.random.default_rng(seed)
    rank, n = data.draw(st.integers(1, d)), data.draw(st.sampled_from([1, 4, 500]))
    sigma = data.draw(st.sampled_from([0.0, 0.3, 2.0]))
    a, b = rng.standard_normal((rank, d)), 10 ** rng.uniform(-1, 1) * rng.standard_normal((d - rank, d))
    w0 = 3 * rng.standard_normal((d, d))
    left, _, right = np.linalg.svd(w0)
    power = np.linalg.norm(w0, 2) ** 2
    about = EnoughHeads(PromptMoments(d, n, sigma, w0, centred=True), KINDS)
    most = cross_layer.cross_layer_most(d, n, sigma, rank, power)
    read = signal_share(d, n, sigma) * cross_layer.read_at(a, b, w0, cross_layer.noise_of_products(d, n, sigma))
    assert about.zero_loss - about.value(a, b) <= read + 1e-6
    assert read <= most + 1e-6
    best = cross_layer.read_at(right[:1], left.T[1:], w0, cross_layer.noise_of_products(d, n, sigma))
    assert signal_share(d, n, sigma) * best == pytest.approx(cross_layer.cross_layer_most(d, n, sigma, 1, power))
    at_c = EnoughHeads(PromptMoments(d, n, sigma, power**0.5 * np.eye(d), centred=True), KINDS)
    lower = cross_layer.explained_around_identity(d, n, sigma, rank, power)[1]
    assert at_c.zero_loss - at_c.value(a, b) <= lower + 1e-9
    assert lower <= most + 1e-9


def test_bounds_around_identity():
    for d in range(1, 9):
        for rank in range(1, d + 1):
            limit = cross_layer.most_around_identity(d, rank)
            found = rank * d - Fraction(rank * (rank - 1), 2)
            assert found <= limit <= rank * d - cross_layer.never_read(d, rank)
            assert (found == limit) == (rank in (1, d))
            least, most = cross_layer.explained_around_identity(d, 5, Fraction(1), rank, Fraction(10**12))
            share = signal_share(d, 5, Fraction(1))
            assert 0 < share * found - least < Fraction(1, 10**9) > share * limit - most > 0


def test_inputs_that_are_not_normal():
    """An excess kurtosis k adds k to n + d + 1; d = 2, A = I."""
    n, sigma, k, s = 3, Fraction(1, 2), Fraction(3, 2), (2, 1)
    eye = exact(np.eye(2, dtype=int))
    moments = PromptMoments(2, n, sigma, exact(np.diag(s)), centred=True, kurtosis=np.array([k, k]))
    size, noise = n + 3 + k, sigma**2
    least = (2 * size + 4 * noise + noise**2) / (size + noise)  # 2 g^2
    pairs = [Fraction(s[i] ** 2 + s[j] ** 2) for i, j in ((0, 0), (0, 1), (1, 1))]
    explained = moments.zero_loss - best_loss(moments, eye, eye[:0], ("ordinary", "raw"))
    assert explained == n / (size + noise) * sum(pair / (pair + least) for pair in pairs)


def test_tokens_that_need_not_choose_leave_no_gap():
    for d, rank in ((1, 1), (2, 1), (3, 2)):
        assert explained_entries(KINDS, d, rank, rows=d) == explained_entries(SKIPV1, d, rank, rows=d) == rank * d
        assert explained_entries(KINDS, d, rank) == rank * (d - rank)


EPS = np.finfo(float).eps
SEEDS = st.integers(0, 2**32 - 1)
MOVES = st.floats(1e-6, 30)


def moved(seed, tokens, layers, eps, extreme):
    """Scores of layers of which all but the first differ from it by eps at most, and the rows of weights."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((1, tokens)) * rng.choice([0.1, 1, 5])
    moves = rng.uniform(-eps, eps, (layers - 1, tokens))
    if extreme:
        moves = np.sign(moves) * eps
    scores = [own, *(own + row for row in moves)]
    return scores, softmax(np.concatenate(scores, axis=-1), axis=-1), np.concatenate([0 * own[0], *moves])


def no_counterexample(seed, tokens, layers, eps, extreme):
    """Of weights, in the whole and in the mean; of outputs; and of moves that are all one number."""
    scores, true, moves = moved(seed, tokens, layers, eps, extreme)
    block = np.tile(softmax(scores[0], axis=-1), layers) / layers
    variation, largest = np.abs(true - block).sum() / 2, blocks.block_form_share(eps, 1 / layers)
    assert variation <= largest * (1 + 1e-9) + 1e2 * EPS
    assert variation <= blocks.mean_bound(block, moves[None])[0] * (1 + 1e-9) + 1e-7
    values = list(np.random.default_rng(seed).standard_normal((layers, tokens, 2)))
    apart = np.linalg.norm(blocks.block_error(scores, values))
    assert apart <= largest * blocks.diameter(np.concatenate(values)) * (1 + 1e-9) + 1e3 * EPS
    alike = [scores[0], *(scores[0] + moves[tokens] for _ in range(layers - 1))]
    together = np.abs(softmax(np.concatenate(alike, axis=-1), axis=-1) - block).sum() / 2
    assert together <= blocks.together_share(eps, 1 / layers) * (1 + 1e-9) + 1e2 * EPS


CASES = given(SEEDS, st.integers(1, 9), st.integers(2, 5), MOVES, st.booleans())
test_no_scores_pass_the_bounds = CASES(no_counterexample)
test_no_scores_pass_the_bounds_in_ten_thousand_draws = pytest.mark.slow(
    settings(max_examples=10_000, deadline=None)(CASES(no_counterexample))
)


@given(MOVES, st.integers(2, 5))
def test_the_bound_for_moves_that_are_alike_is_attained_and_a_tighter_one_is_broken(eps, layers):
    """One token, whose score falls in all layers but the first."""
    scores = [np.zeros((1, 1)), *(np.full((1, 1), -eps) for _ in range(layers - 1))]
    variation = np.abs(blocks.gates(scores)[:, 0] - 1 / layers).sum() / 2
    assert variation == pytest.approx(blocks.together_share(eps, 1 / layers), rel=1e-9, abs=1e2 * EPS)
    assert variation > 0.99 * blocks.together_share(eps, 1 / layers)


def extreme_case(eps, unmoved, q):
    """Rows (own, rising, falling) of the configuration of the theorem, and the two outputs of values +-1/2."""
    t, v = math.exp(eps), 1 - unmoved
    block = np.array([unmoved, v * q, v * (1 - q)])
    true = block * [1, t, 1 / t]
    true /= true.sum()
    return np.abs(true - block).sum() / 2, (true - block) @ [-0.5, 0.5, -0.5]


@given(MOVES, st.sampled_from([0.0, 0.1, 1 / 3, 0.5]))
def test_the_bound_is_attained_and_a_tighter_one_is_broken(eps, unmoved):
    share = blocks.block_form_share(eps, unmoved)
    variation, gap = extreme_case(eps, unmoved, blocks.rising_share(eps, unmoved))
    assert variation == pytest.approx(share, rel=1e-9, abs=1e2 * EPS)
    assert gap == pytest.approx(share, rel=1e-9, abs=1e2 * EPS)  # of values whose diameter is 1
    assert variation > 0.99 * share


def test_half_the_weight_moves_at_an_eps_below_two_and_all_in_the_end():
    assert blocks.block_form_share(0.0) == 0.0
    assert blocks.block_form_share(1.845) < 0.5 < blocks.block_form_share(1.855)
    assert blocks.block_form_share(1000.0) == 1.0


def test_what_a_larger_unmoved_share_would_break():
    """w <= 1/2 is needed: beyond, the share that would have to rise is more than all."""
    with pytest.raises(BadInput, match="from 0 to 1/2"):
        blocks.block_form_share(1.0, 0.9)
    t, w = math.exp(3.0), 0.9
    root = math.sqrt(w * t + 1 - w)
    assert root * (t - root) / ((1 - w) * (t**2 - 1)) > 1
