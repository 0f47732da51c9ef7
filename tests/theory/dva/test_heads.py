"""What heads and dynamic heads can make: parity, patterns, meanings; gates and the toy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.dva import meanings
from theory.dva.feed_forward import as_attention, embedding_width, embeddings
from theory.dva.gate import as_gated, most_of_coordinate, query_of_ratio, ratio
from theory.dva.heads import alone, attended_by, is_linear_alone, on_mean_free, patterns
from theory.dva.in_context import answer
from theory.errors import BadInput

sizes = st.integers(1, 6)
seeds = st.integers(0, 99)


@given(sizes, sizes, seeds)
def test_a_token_alone_gets_a_linear_part_and_a_product(width, d, seed):
    v, query, key = np.random.default_rng(seed).standard_normal((3, width, d))
    x = np.random.default_rng(seed + 1).standard_normal(d)
    plus, minus = alone(v, query, key, x), alone(v, query, key, -x)
    np.testing.assert_allclose((plus - minus) / 2, v @ x, atol=1e-12)
    np.testing.assert_allclose((plus + minus) / 2, (query @ x) * (key @ x), atol=1e-12)
    assert not is_linear_alone(query, key)
    one = np.arange(width)[:, None] == 0
    assert is_linear_alone(np.where(one, 0, query), np.where(one, key, 0))


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=5), seeds)
def test_heads_of_equal_patterns_are_told_apart_by_nothing_else(several, seed):
    """Adding up heads of one direction leaves the map and the count as they are."""
    made = [(np.array([float(a)]), np.array([[float(w)]])) for a, w in several]
    joined = {}
    for a, w in several:
        joined[a] = joined.get(a, 0) + w
    few = [(np.array([float(a)]), np.array([[float(w)]])) for a, w in joined.items()]
    tokens = np.random.default_rng(seed).standard_normal((1, 4))
    np.testing.assert_allclose(attended_by(made, tokens), attended_by(few, tokens), atol=1e-12)
    assert patterns(made) == patterns(few) <= len({abs(a) for a in joined if a})


def test_patterns_are_score_directions_that_carry_something():
    one = np.array([[1.0]])
    assert patterns([(np.array([1.0]), one), (np.array([3.0]), one), (np.array([0.0]), one)]) == 2
    assert patterns([(np.array([1.0]), one), (np.array([-1.0]), one)]) == 0  # the mean of both, whatever the scores
    assert patterns([(np.array([1.0]), one), (np.array([-1.0]), 2 * one)]) == 1
    with pytest.raises(BadInput):
        patterns([(np.array([1.0]), one), (np.ones(2), np.ones((1, 2)))])


@given(st.integers(2, 6), seeds)
def test_layer_norm_hides_constant_rows(d, seed):
    """Gates whose rows are constant, and score directions that differ by a constant."""
    rng = np.random.default_rng(seed)
    tokens = rng.standard_normal((d, 5))
    tokens -= tokens.mean(axis=0)
    ones, key = np.ones((2, d)), rng.standard_normal((2, d))
    assert not is_linear_alone(ones, key)
    assert is_linear_alone(on_mean_free(ones), on_mean_free(key))
    np.testing.assert_allclose(alone(0 * key, ones, key, tokens[:, 0]), 0, atol=1e-12)
    a, first, second = (rng.integers(-9, 9, (n, d)).astype(float) + np.arange(d) * 20 for n in (1, 2, 2))
    several = [(a[0], first), (a[0] + 3, second)]
    one = [(a[0], first + second)]
    np.testing.assert_allclose(attended_by(several, tokens), attended_by(one, tokens), rtol=1e-9, atol=1e-9)
    assert patterns(several) == 2
    assert patterns([(on_mean_free(direction), on_mean_free(w)) for direction, w in several]) == 1


def test_in_one_dimension_two_heads_of_one_length_are_one():
    c = np.arctanh((np.tanh(1) + np.tanh(2.5)) / 2)
    one = np.array([[1.0]])
    two, single = [(np.array([1.0]), one), (np.array([2.5]), one)], [(np.array([c]), 2 * one)]
    assert patterns(two) == 2  # of free tokens
    for tokens in ([1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]):
        there = np.array([tokens])
        np.testing.assert_allclose(attended_by(two, there), attended_by(single, there), atol=1e-12)
    free = np.array([[0.5, 1.0]])
    assert np.abs(attended_by(two, free) - attended_by(single, free)).max() > 1e-3


@given(sizes, sizes, st.integers(1, 3), seeds)
def test_meanings_are_as_many_as_the_rank_says(m, n, heads, seed):
    shares = list(np.random.default_rng(seed).uniform(0.05, 0.95, (heads, m, n)))
    rank = int(np.linalg.matrix_rank(meanings.pattern(shares)))
    assert rank == meanings.independent(m, n, heads)
    assert meanings.heads_needed(m, n) <= max(1, heads) or rank < m * n


@given(sizes, sizes, st.integers(1, 3), sizes, seeds)
def test_narrow_heads_tell_fewer_apart(m, n, heads, width, seed):
    rng = np.random.default_rng(seed)
    made = meanings.pattern(list(rng.uniform(0.05, 0.95, (heads, m, n))))
    narrow = [part @ rng.standard_normal((m + n, width)) for part in np.split(made[:, n:], heads, axis=1)]
    rank = int(np.linalg.matrix_rank(np.concatenate([made[:, :n], *narrow], axis=1)))
    assert rank == meanings.independent(m, n, heads, width)


@given(sizes, sizes)
def test_enough_heads_and_width_are_just_enough(m, n):
    heads, width = meanings.heads_needed(m, n), meanings.width_needed(m, n)
    assert meanings.independent(m, n, heads) == m * n
    if heads:
        assert meanings.independent(m, n, heads - 1) < m * n
    if width:
        assert meanings.independent_of_dynamic(m, n, width) == m * n
    if width > 1:
        assert meanings.independent_of_dynamic(m, n, width - 1) == m * n - 1
    assert meanings.dynamic_head(m, n)[0].shape == (n, width)


def test_the_example_of_the_paper_needs_one_head_at_most():
    assert meanings.heads_needed(1, 2) == 0
    assert meanings.heads_needed(2, 2) == meanings.heads_needed(2, 50) == meanings.heads_needed(3, 2) == 1
    assert meanings.heads_needed(3, 3) == meanings.heads_needed(4, 2) == 2


@given(st.integers(1, 4), st.integers(1, 9), seeds)
def test_a_feed_forward_is_attention_to_fixed_pairs(d, inner, seed):
    rng = np.random.default_rng(seed)
    x, up, down = rng.standard_normal((3, d)), rng.standard_normal((d, inner)), rng.standard_normal((inner, d))
    np.testing.assert_allclose(as_attention(np.tanh, x, up, down), np.tanh(x @ up) @ down, atol=1e-12)
    e, k, v = embeddings(up, down)
    assert e.shape == (inner, embedding_width(up, down)) == (inner, min(inner, 2 * d))
    np.testing.assert_allclose(e @ k, up.T, atol=1e-10)
    np.testing.assert_allclose(e @ v, down, atol=1e-10)


@given(st.floats(-50, 50).map(lambda x: round(x, 2)), seeds)
def test_a_gate_makes_any_ratio(wanted, seed):
    v, k, one, other = np.random.default_rng(seed).standard_normal((4, 5))
    assert ratio(v + query_of_ratio(v, k, one, other, wanted) * k, one, other) == pytest.approx(wanted, abs=1e-6)


def test_but_one():
    """That of K_k, which the gate approaches as it grows."""
    v, k, one, other = np.random.default_rng(0).standard_normal((4, 5))
    far = ratio(v + 1e9 * k, one, other)
    assert far == pytest.approx(ratio(k, one, other), rel=1e-6)
    same = np.ones(5)
    with pytest.raises(BadInput, match="no gate makes the ratio 3"):
        query_of_ratio(same, 2 * same, np.eye(5)[0], np.eye(5)[1], 3.0)
    with pytest.raises(BadInput, match="both numbers are 0"):
        query_of_ratio(np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.array([1.0, 0]), np.array([0, 1.0]), 2.0)


def test_a_gate_where_both_products_are_zero():
    """Every gate then makes the ratio that leaves a number to have it, if one does."""
    one, other, third = np.eye(3)
    assert query_of_ratio(3 * one + other, third, one, other, 3.0) == 0
    assert query_of_ratio(third, 3 * one + other, one, other, 3.0) == 1
    assert query_of_ratio(3 * one + other, -3 * one - other, one, other, 3.0) == 0
    with pytest.raises(BadInput, match="both numbers are 0"):
        query_of_ratio(third, 0 * third, one, other, 3.0)


@given(sizes, sizes, seeds)
def test_a_wide_gate_is_a_dynamic_head(width, d, seed):
    rng = np.random.default_rng(seed)
    v, k, query = rng.standard_normal((3, width, d))
    x, other = rng.standard_normal((2, d))
    values, out = as_gated(v, k)
    assert (values.shape, out.shape) == ((2 * width, d), (width, 2 * width))
    gates = np.append(np.ones(width), 1 + query @ x)
    np.testing.assert_allclose(out @ (gates * (values @ other)), (v + (query @ x)[:, None] * k) @ other, atol=1e-9)


@given(sizes, st.floats(0.1, 5), seeds)
def test_no_coordinate_exceeds_its_bound(d, length, seed):
    rng = np.random.default_rng(seed)
    v, query, key = rng.standard_normal((3, d))
    x = rng.standard_normal((d, 4))
    x *= length / np.linalg.norm(x, axis=0)
    mean = x @ rng.dirichlet(np.ones(4))
    assert abs(v @ mean + (query @ x[:, 0]) * (key @ mean)) <= most_of_coordinate(v, query, key, length) * (1 + 1e-12)


@given(st.sampled_from(["revised", "initial"]), sizes, sizes, sizes, seeds)
def test_a_gate_s_term_is_even_in_the_query(form, d, width, tokens, seed):
    rng = np.random.default_rng(seed)
    score, gate = rng.standard_normal((2, width, d))
    keys, values, gate_keys = rng.standard_normal((3, tokens, width))
    x = rng.standard_normal(d)
    plus, minus = (answer(form, sign * x, score, keys, values, gate, gate_keys) for sign in (1, -1))
    bare = keys @ (score @ x) @ values if form == "revised" else np.zeros(width)
    np.testing.assert_allclose((plus - minus) / 2, bare, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: meanings.independent(0, 2, 1),
        lambda: meanings.independent(2, 2, -1),
        lambda: meanings.independent(2, 2, 1, width=0),
        lambda: meanings.independent_of_dynamic(2, 2, 0),
        lambda: meanings.heads_needed(2, 0),
        lambda: meanings.width_needed(2000, 2000),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()
