"""What first tells which value belongs to which key: shares, contrasts and the two layers that they describe."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.plans.mix import v
from theory.plans.plan import Shape, plan
from theory.toy import pairing
from theory.toy.pairing import Weights

TWO = Shape(2, 2)


def drawn(seed, *, keys=2, values=3, d=4, width=2, heads=2):
    rng = np.random.default_rng(seed)
    maps = rng.normal(size=(3, 2, heads, width, d))
    codes = (rng.normal(size=(count, d)) for count in (keys, values, values))
    return Weights(*codes, *maps, output=rng.normal(size=(2, heads, d, width)))


@given(st.integers(2, 9), st.data())
def test_shares_of_every_query(n, data):
    query = data.draw(st.integers(1, n))
    t = 2 * n + query
    harmonic = sum(Fraction(1, q) for q in range(1, n + 1))
    assert pairing.lookup_share(n, query) == (harmonic - 1) / (2 * n * t)
    assert pairing.lookup_share(n, query) > -pairing.elimination_share(n, query) > 0
    assert 0 <= pairing.blurred_share(n, query) < pairing.lookup_share(n, query)
    assert 0 <= pairing.copied_query(n, query) <= Fraction(1, t)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 5))
@settings(max_examples=20)
def test_contrasts_are_of_equal_symbols_against_others(seed, keys, values):
    rng = np.random.default_rng(seed)
    square, found, read = (
        rng.normal(size=(keys, keys)),
        rng.normal(size=(keys, values)),
        rng.normal(size=(values, keys)),
    )
    same = np.eye(keys, dtype=bool)
    assert pairing.contrast(square) == pytest.approx(square[same].mean() - square[~same].mean())
    product_of = np.einsum("kv,wl->klvw", found, read)
    equal_key, equal_value = same, np.eye(values, dtype=bool)
    means = {
        (a, b): product_of[equal_key == a][:, equal_value == b].mean() for a, b in product((False, True), repeat=2)
    }
    wanted = means[True, True] - means[True, False] - means[False, True] + means[False, False]
    assert pairing.joint_contrast(found, read) == pytest.approx(wanted)


def lead(weights, values_of, *, size, n=2):
    """Of two layers written out, with values of layer 2 as given, at each query, over every prompt."""
    keys, values = len(weights.keys), len(weights.values)
    leads = np.zeros(n)
    prompts = list(product(*(permutations(range(count), n) for count in (keys, values, n))))
    for some_keys, some_values, asked in prompts:
        pairs = [
            code for a, b in zip(some_keys, some_values, strict=True) for code in (weights.keys[a], weights.values[b])
        ]
        x = np.stack([*pairs, *(weights.keys[some_keys[q]] for q in asked)])
        state = x + layer(weights, 0, x, [weights.value[0, h] @ x.T for h in (0, 1)], size)
        state = state + layer(weights, 1, state, values_of(weights, x, state), size)
        scores = state[2 * n :] @ weights.readout[list(some_values)].T
        leads += scores[range(n), asked] - scores.mean(1)
    return leads / len(prompts)


def layer(weights, n, state, values, size):
    out = np.zeros_like(state)
    for h, value in enumerate(values):
        scores = (state @ weights.query[n, h].T) @ (state @ weights.key[n, h].T).T * size**2 / 2**0.5
        shares = np.tril(np.exp(scores))
        out += size**2 * (shares / shares.sum(1, keepdims=True)) @ value.T @ weights.output[n, h].T
    return out


def own(weights, _x, state):
    return [weights.value[1, h] @ state.T for h in (0, 1)]


def first(weights, x, _state):
    return [weights.value[0, h] @ x.T for h in (0, 1)]


@pytest.mark.parametrize(
    ("of", "values_of"), [(plan(TWO), own), (plan(TWO, values=lambda n, h: v(1, h)), first)], ids=["own", "first"]
)
@given(st.integers(0, 10**6))
@settings(max_examples=4, deadline=None)
def test_the_lead_is_of_order_six(of, values_of, seed):
    weights = drawn(seed)
    coarse, fine = (lead(weights, values_of, size=size) / size**6 for size in (0.04, 0.02))
    stated = [pairing.leading_lead(of, weights, 2, query) for query in (1, 2)]
    scale = sum(abs(pairing.uniform_slope(of, weights, 2, query)) for query in (1, 2)) + 1
    np.testing.assert_allclose((4 * fine - coarse) / 3, stated, atol=2e-3 * scale)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_head_on_the_first_values_reads_no_copy(seed):
    """So for it nothing depends on what layer 1 copies of values but through the scores."""
    weights = drawn(seed)
    shared = plan(TWO, values=lambda n, h: v(1, h))
    other = replace(weights, value=np.stack([weights.value[0], 0 * weights.value[1]]))
    assert pairing.leading_lead(shared, weights, 3, 2) == pairing.leading_lead(shared, other, 3, 2)
    nothing_copied = replace(weights, output=np.stack([0 * weights.output[0], weights.output[1]]))
    assert pairing.leading_lead(plan(TWO), nothing_copied, 3, 2) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("refused", "n", "query", "why"),
    [
        (plan(TWO), 1, 1, "n must be a whole number from 2, got 1"),
        (plan(TWO), 2, 3, "there are 2 queries, got number 3"),
        (plan(TWO), 2, 0, "query must be a whole number from 1, got 0"),
        (plan(Shape(3, 2)), 2, 1, "for two layers with a residual stream"),
        (plan(TWO, beside=lambda n, h: v(1, h)), 2, 1, "nothing beside the attention"),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(refused, n, query, why):
    with pytest.raises(BadInput, match=why):
        pairing.leading_lead(refused, drawn(0), n, query)
