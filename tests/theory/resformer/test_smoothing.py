"""Depth as a filter of attention's spectrum, layer by layer, and spectra before training."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.resformer import measures, smoothing, spectra
from theory.resformer.blocks import diameter

EPS = np.finfo(float).eps
SEEDS = st.integers(0, 2**32 - 1)


def attention(rng, tokens, causal=True, sharpness=2.0):
    scores = sharpness * rng.standard_normal((tokens, tokens))
    if causal:
        scores[np.triu_indices(tokens, 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def layer_by_layer(kind, matrices, values):
    """H_1, ..., H_L straight from the definitions."""
    state, out = values, []
    for n, a in enumerate(matrices, 1):
        state = {
            "vanilla": lambda a=a, s=state: a @ s,
            "resformer": lambda a=a, s=state, n=n: a @ (s if n == 1 else (s + values) / 2),
            "resformer-constant:weight=3": lambda a=a, s=state, n=n: a @ (s if n == 1 else s + 3 * values),
            "svformer": lambda a=a: a @ values,
            "neutreno": lambda a=a, s=state: a @ s + 0.4 * (values - s),
            "resformer-all": lambda a=a, n=n: a @ (sum(([values, *out])[:n]) / n),
        }[kind]()
        out.append(state)
    return out


KINDS = ("vanilla", "resformer", "resformer-constant:weight=3", "svformer", "neutreno", "resformer-all")


@pytest.mark.parametrize("kind", KINDS)
@given(SEEDS, st.integers(1, 6), st.integers(1, 5), st.booleans())
@settings(max_examples=10)
def test_a_plan_is_its_filter(kind, seed, tokens, layers, causal):
    rng = np.random.default_rng(seed)
    a, values = attention(rng, tokens, causal), rng.standard_normal((tokens, 3))
    states = layer_by_layer(kind, [a] * layers, values)
    for f, state in zip(smoothing.depth_filters(resolve(kind, Shape(layers, 2))), states, strict=True):
        power, expected = np.eye(tokens), 0
        for coefficient in f.coef:
            expected, power = expected + coefficient * power @ values, power @ a
        assert np.abs(expected - state).max() <= 1e4 * EPS * max(1, np.abs(state).max())


@given(SEEDS, st.integers(2, 6), st.floats(0.1, 0.9), st.floats(0.1, 2))
def test_resformer_keeps_the_rank_of_one_layer_where_vanilla_keeps_one_token(seed, tokens, own, first):
    rng = np.random.default_rng(seed)
    a, values = attention(rng, tokens, sharpness=0.5), rng.standard_normal((tokens, tokens + 2))
    vanilla = np.linalg.matrix_power(a, 20_000) @ values
    assert np.abs(vanilla - values[0]).max() <= 1e-6
    limit = np.linalg.solve(np.eye(tokens) - own * a, first * a @ values)
    singular = np.linalg.svd(limit, compute_uv=False)
    at_least = first / (1 + own * np.linalg.norm(a, 2)) * np.linalg.svd(a @ values, compute_uv=False)
    assert np.all(singular >= at_least * (1 - 1e-9))
    mu = np.diag(a)
    assert np.allclose(
        np.sort(np.linalg.eigvals(np.linalg.solve(np.eye(tokens) - own * a, first * a)).real),
        np.sort(smoothing.resformer_limit(mu, own, first)),
        atol=1e-6,
    )


def diameters(seed, tokens, layers, causal, own, first):
    """Both statements of Theorem 2, layer by layer."""
    rng = np.random.default_rng(seed)
    matrices = [attention(rng, tokens, causal, rng.choice([0.1, 0.5, 3.0])) for _ in range(layers)]
    values = rng.standard_normal((tokens, 3))
    tau, whole = max(map(smoothing.dobrushin, matrices)), diameter(values)
    for mine, theirs in ((1.0, 0.0), (0.5, 0.5), (own, first)):
        state, before = np.zeros_like(values), 0.0
        bounds = smoothing.largest_diameters(tau, layers, mine, theirs)
        for n, (a, bound) in enumerate(zip(matrices, bounds, strict=True)):
            state = a @ (values if n == 0 else mine * state + theirs * values)
            found, left = diameter(state), (1.0 if n == 0 else theirs) * diameter(a @ values)
            assert found <= bound * whole * (1 + 1e-9) + 1e-12
            assert abs(found - left) <= (mine * tau * before) * (1 + 1e-9) + 1e-12 * max(1, found)
            before = bound * whole


STACKS = given(SEEDS, st.integers(1, 6), st.integers(1, 8), st.booleans(), st.floats(0, 1.5), st.floats(0, 2))
test_diameters_of_changing_layers = STACKS(diameters)
test_diameters_of_changing_layers_in_ten_thousand_draws = pytest.mark.slow(
    settings(max_examples=10_000, deadline=None)(STACKS(diameters))
)


@given(st.floats(0.05, 0.95), st.integers(1, 30))
def test_other_sources_are_forgotten_and_layer_1_is_not(mu, layers):
    """Theorem 1 (g) and (h), by their recursions; at great depth what is left is in the order of Fig. 9."""
    kept, previous = [1.0], [1.0]
    for n in range(1, layers + 1):
        kept.append(mu * sum(kept) / n)
        previous.append(mu * (previous[-1] + (previous[-2] if n > 1 else 1.0)) / 2)
    assert smoothing.mean_filter(mu, layers) == pytest.approx(kept[-1], rel=1e-12)
    rate = smoothing.previous_rate(mu)
    assert mu < rate < 1
    assert rate**2 == pytest.approx(mu * (rate + 1) / 2)
    assert previous[-1] <= rate ** (layers - 1) * (1 + 1e-12)  # f_1 = mu <= 1, f_2 <= rate


SIZES = st.integers(1, 9)


@settings(max_examples=8)
@given(st.integers(1, 80), st.floats(0.01, 2), st.floats(0, 0.1))
def test_a_norm_keeps_at_most_the_width(width, std, eps):
    found = spectra.normed_square(width, std, eps)
    assert 0 <= found <= width * (1 + 1e-6)
    assert spectra.normed_square(width, std, 0.0) == pytest.approx(width, rel=1e-6)


@pytest.mark.parametrize(("tokens", "width", "values"), [(60, 60, 60), (90, 61, 30), (31, 60, 45)])
def test_quantiles_have_the_law_s_mean_and_square_and_its_zeros(tokens, width, values):
    """Of the free product m_1 = 1 and m_2 = 1 + a + b."""
    found = spectra.quantiles(tokens, width, values)
    a, b = width / tokens, width / values
    assert len(found) == width
    assert np.all(np.diff(found) <= 0)
    assert found[0] < spectra.largest(tokens, width, values)
    assert found.mean() == pytest.approx(1, rel=0.01)
    assert (found**2).mean() == pytest.approx(1 + a + b, rel=0.03)
    assert (found == 0).sum() == pytest.approx(max(0, width - tokens, width - values), abs=1)


@given(SIZES, SIZES, SIZES)
def test_the_end_does_not_depend_on_which_matrix_is_which(tokens, width, values):
    assert spectra.largest(tokens, width, values) == pytest.approx(spectra.largest(values, width, tokens))
    assert spectra.largest(tokens, width, values) > max(1, (1 + (width / tokens) ** 0.5) ** 2)


@given(st.integers(1, 40))
def test_attention_to_oneself_has_the_largest_entropy_and_to_one_token_none(tokens):
    assert measures.entropy(measures.token_importance(np.eye(tokens))) == pytest.approx(np.log(tokens))
    one = np.zeros((tokens, tokens))
    one[:, 0] = 1
    assert measures.entropy(measures.token_importance(one)) == 0
