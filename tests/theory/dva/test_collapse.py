"""Dynamic values are never made: hypothesis over sizes, masks, weights dropped out, groups; a decoder's layer too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.dva.collapse import attended, collapsed, of_one_query, pair_numbers, pair_values
from theory.errors import BadInput

sizes = st.integers(1, 7)
FORMS = ["revised", "initial", "transposed"]


def draws(tokens, width, seed, share):
    """Weights of any sign, a share of them left out as a mask and dropout do, and three projections."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((tokens, tokens)) * (rng.random((tokens, tokens)) > share)
    return (np.tril(weights), *rng.standard_normal((3, tokens, width)))


@given(st.sampled_from(FORMS), sizes, sizes, st.integers(0, 99), st.sampled_from([0.0, 0.3, 1.0]))
def test_both_forms_collapse(form, tokens, width, seed, share):
    s, v, q, k = draws(tokens, width, seed, share)
    np.testing.assert_allclose(
        collapsed(form, s, v, q, k), attended(s, pair_values(form, v, q, k)), rtol=1e-9, atol=1e-9
    )


@given(st.integers(2, 7), st.integers(2, 7), st.integers(0, 99))
def test_forms_are_different(tokens, width, seed):
    """The control: no two of them agree but by chance."""
    drawn = draws(tokens, width, seed, 0.0)
    made = [collapsed(form, *drawn) for form in FORMS]
    apart = [np.abs(a - b).max() for i, a in enumerate(made) for b in made[:i]]
    assert min(apart) > 1e-9


@given(sizes, sizes, sizes, st.integers(0, 99))
def test_grouped_queries_share_values_and_key_gates(group, tokens, width, seed):
    """Each query head has its own weights and gate; v and k^R are the group's."""
    rng = np.random.default_rng(seed)
    v, k = rng.standard_normal((2, tokens, width))
    s = rng.standard_normal((group, tokens, tokens))
    q = rng.standard_normal((group, tokens, width))
    wide = np.concatenate([v, k], axis=1)
    for head in range(group):
        mean_value, mean_gate = np.split(s[head] @ wide, 2, axis=1)
        expected = attended(s[head], pair_values("revised", v, q[head], k))
        np.testing.assert_allclose(mean_value + q[head] * mean_gate, expected, rtol=1e-9, atol=1e-9)


@given(sizes, sizes, sizes, st.integers(0, 99))
def test_one_query_sees_one_value_matrix(tokens, width, d, seed):
    rng = np.random.default_rng(seed)
    value, key, query = rng.standard_normal((3, width, d))
    x, s = rng.standard_normal((d, tokens)), rng.standard_normal(tokens)
    gate = query @ x[:, -1]
    pairs = pair_values("revised", (value @ x).T, np.tile(gate, (tokens, 1)), (key @ x).T)[0]
    np.testing.assert_allclose(of_one_query(value, key, gate) @ x @ s, s @ pairs, rtol=1e-9, atol=1e-9)


def test_the_text_s_two_sides_differ_and_the_other_one_keeps_the_query_s_direction():
    s, v, q, k = draws(5, 4, 0, 0.0)
    other = collapsed("transposed", s, v, q, k)
    across = other / np.linalg.norm(other, axis=1, keepdims=True)
    along = q / np.linalg.norm(q, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs((across * along).sum(1)), 1, rtol=1e-9)


def test_numbers_of_pairs():
    assert pair_numbers("revised", 256, 768, naive=True) == 256**2 * 768
    assert pair_numbers("initial", 256, 768, naive=True) == 256**2 * 768**2
    assert pair_numbers("revised", 256, 768, naive=False) == 256**2


@pytest.mark.parametrize(
    "call",
    [
        lambda: pair_values("revised", np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 2))),
        lambda: pair_values("revised", np.ones(3), np.ones(3), np.ones(3)),
        lambda: pair_values("other", np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3))),
        lambda: collapsed("other", np.ones((2, 2)), np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3))),
        lambda: pair_numbers("revised", 0, 3, naive=True),
        lambda: pair_numbers("revised", 3, 0, naive=False),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()
