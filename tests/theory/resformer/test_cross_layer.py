"""Cross-layer attention around any W0: bounds that no values pass, and what other inputs and tokens change."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import best_loss, exact
from theory.plans.heads import ORDINARY, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.prompts.setting import signal_share
from theory.resformer import cross_layer
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
