"""Shares of a read keep within their ranges, and the query for a share is the inverse of a range."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from theory.attnres import dilution
from theory.attnres.bounds import weight_floor
from theory.errors import BadInput

EXACT = 1e-12
seeds = st.integers(0, 2**16)
members = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(st.integers(1, 6), st.integers(1, 5), seeds, st.floats(0.1, 10))
def test_projections_add_up_and_do_not_see_scale(k, d, seed, scale):
    rng = np.random.default_rng(seed)
    outputs, weights = rng.standard_normal((k, d)), rng.standard_normal(k)
    shares = dilution.projection_shares(weights, outputs)
    assert shares.sum() == pytest.approx(1)
    assert dilution.projection_shares(scale * weights, outputs) == pytest.approx(shares)
    norms = dilution.norm_shares(weights, outputs)
    assert dilution.norm_shares(scale * weights, outputs) == pytest.approx(norms)
    assert norms.sum() >= 1 - EXACT
    assert (abs(shares) <= norms * (1 + EXACT)).all()


def test_shares_have_no_bound_where_outputs_cancel():
    nearly = np.array([[1.0, 0], [-0.999, 0]])
    assert dilution.projection_shares([1, 1], nearly).max() > 999
    assert dilution.projection_shares([1, 1], nearly).min() < -900
    with pytest.raises(BadInput):
        dilution.norm_shares([1, 1], np.array([[1.0], [-1.0]]))


def share(counts, logits, source):
    """The coefficient of one output of a source over all outputs', from a softmax over sources."""
    weights = softmax(logits)
    return weights[source] / (weights @ counts)


@given(members, st.data(), st.floats(0, 2), st.integers(1, 6), seeds)
def test_shares_keep_within_their_range(counts, data, size, d, seed):
    rng = np.random.default_rng(seed)
    source = data.draw(st.integers(0, len(counts) - 1))
    query = rng.standard_normal(d)
    query *= size / np.linalg.norm(query)
    v = rng.standard_normal((len(counts), d))
    logits = sqrt(d) * v @ query / np.linalg.norm(v, axis=1)
    low, high = dilution.share_range(counts, source, size, d)
    assert low * (1 - EXACT) <= share(counts, logits, source) <= high * (1 + EXACT)
    assert high <= 1 / counts[source] * (1 + EXACT)


@given(st.integers(1, 9), st.floats(0.01, 1), st.integers(1, 6))
def test_floor_and_ceiling_of_full(k, size, d):
    low, high = dilution.share_range([1] * k, 0, size, d)
    floor = weight_floor(k, size, d)
    assert low == pytest.approx(floor, rel=1e-9)
    others = 1 - (k - 1) * floor
    assert high <= others * (1 + EXACT)
    assert (high < others * (1 - 1e-6)) == (k > 2)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.data(), st.floats(1e-3, 2.0), st.integers(1, 64))
def test_query_for_share_is_the_inverse_of_the_range(members, data, length, d):
    source = data.draw(st.integers(0, len(members) - 1))
    length /= d**0.5  # so that the ends are apart from 0 and 1 / m_b in float64
    for end in dilution.share_range(members, source, length, d):
        assert dilution.query_for_share(end, members[source], sum(members), d) == pytest.approx(length, rel=1e-6)


def test_query_for_share_at_the_edges():
    assert dilution.query_for_weight(1, 0.9, 3) == 0
    assert dilution.query_for_share(0.25, 4, 4, 16) == 0
    assert 0 < dilution.query_for_share(1.0, 1, 2, 16) < 10


@given(st.integers(2, 10**6), st.floats(0.01, 0.99), st.integers(1, 4096))
def test_query_for_weight(k, weight, d):
    """The ceiling at that length is the weight, unless the equal share is already more."""
    needed = dilution.query_for_weight(k, weight, d)
    assert dilution.share_range([1] * k, 0, needed, d)[1] == pytest.approx(max(weight, 1 / k), rel=1e-9)
