"""Bounds on sublayers' outputs against sublayers written out in numpy, against simpler bounds, and the sharper one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.attnres.written_out import attention, feed_forward, largest, unit
from theory.attnres import quartic, sublayers
from theory.attnres.quartic import gated_bound, one_number_maximum
from theory.attnres.sublayers import attention_attained, attention_bound, feed_forward_bound

SLACK = 1 + 1e-12
seeds = st.integers(0, 2**16)
scales = st.sampled_from([0.01, 1.0, 30.0])
sizes = st.integers(1, 6)


def random_heads(heads, width, d, seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) for shape in ((heads, width, d), (heads, d, width), d))


def silu(a):
    return a / (1 + math.exp(-a))


def gelu(a):
    return a * math.erfc(-a / math.sqrt(2)) / 2


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), scales, seeds, st.booleans())
def test_attention_is_bounded(d, heads, width, scale, seed, centred):
    value, output, gain = random_heads(heads, width, d, seed)
    rng = np.random.default_rng(seed)
    x, logits = rng.standard_normal((7, d)) * 10.0 ** rng.integers(-3, 4), 5 * rng.standard_normal((heads, 7, 7))
    normed = gain * unit(x, 1e-5, centred)
    bound = attention_bound(scale * value, output, gain)
    assert largest(attention(scale * value, output, normed, logits)) <= bound * SLACK


@given(sizes, st.integers(1, 4), st.integers(1, 4), seeds)
def test_attention_bound_is_at_most_the_simple_ones(d, heads, width, seed):
    value, output, gain = random_heads(heads, width, d, seed)
    apart = sum(np.linalg.norm(o @ v * gain, 2) for o, v in zip(output, value, strict=True))
    together = np.linalg.norm(np.hstack(output), 2) * np.linalg.norm([np.linalg.norm(v * gain, 2) for v in value])
    assert attention_bound(value, output, gain) <= math.sqrt(d) * min(apart, together) * SLACK


def test_heads_that_put_out_nothing():
    value, output = np.array([[[1.0, 0], [0, 0]]]), np.array([[[0.0, 1], [0, 0]]])
    assert attention_bound(value, output, np.ones(2)) == 0
    assert attention_attained(value, output, np.ones(2)) == 0


@given(st.integers(1, 5), sizes, scales, seeds, st.booleans(), st.booleans())
def test_feed_forward_is_bounded(d, inner, scale, seed, gated, centred):
    rng = np.random.default_rng(seed)
    gate = scale * rng.standard_normal((inner, d)) if gated else None
    up, down, gain = scale * rng.standard_normal((inner, d)), rng.standard_normal((d, inner)), rng.standard_normal(d)
    out = feed_forward(gate, up, down, gain * unit(rng.standard_normal((50, d)), 1e-5, centred))
    assert largest(out) <= feed_forward_bound(gate, up, down, gain) * SLACK


@given(st.integers(2, 5), sizes, scales, seeds)
def test_feed_forward_bounds_are_at_most_the_simple_ones(d, inner, scale, seed):
    rng = np.random.default_rng(seed)
    gate, up, down = (scale * rng.standard_normal(shape) for shape in ((inner, d), (inner, d), (d, inner)))
    columns, rows, size = np.linalg.norm(down, axis=0), np.linalg.norm(up, axis=1), np.linalg.norm(down, 2)
    ungated = math.sqrt(d) * min(size * np.linalg.norm(up, 2), columns @ rows)
    linear = math.sqrt(d) * (np.linalg.norm(down @ up, 2) + size * np.linalg.norm(up, 2)) / 2
    assert feed_forward_bound(None, up, down, np.ones(d)) <= min(ungated, linear) * SLACK
    forms = (np.linalg.norm(gate, axis=1) * rows + abs((gate * up).sum(1))) / 2
    of_gram = size * math.sqrt(np.linalg.norm(sublayers.gram(gate, up), 2))
    assert feed_forward_bound(gate, up, down, np.ones(d)) <= d * min(of_gram, columns @ forms) * SLACK


@given(sizes, sizes, seeds)
def test_grams_are_inner_products_of_symmetric_matrices(d, inner, seed):
    a, b = np.random.default_rng(seed).standard_normal((2, inner, d))
    forms = (np.einsum("fi,fj->fij", a, b) + np.einsum("fi,fj->fij", b, a)) / 2
    np.testing.assert_allclose(sublayers.gram(a, b), np.einsum("fij,gij->fg", forms, forms), atol=1e-12)


def orthogonal(rows, columns, rng):
    return np.linalg.qr(rng.standard_normal((columns, columns)))[0][:rows]


@given(st.integers(1, 5), st.integers(0, 4), scales, seeds, st.booleans())
def test_orthogonal_numbers_attain_their_bound(inner, more, scale, seed, gated):
    """The best number alone, in closed form: at its own row.  Without the gate's 1/2 + s it would be larger."""
    rng = np.random.default_rng(seed)
    d = inner + more
    directions = orthogonal(inner, d, rng)
    up = directions * rng.uniform(0.1, 2, (inner, 1))
    gate = directions * rng.uniform(0.1, 2, (inner, 1)) * scale if gated else None
    down = orthogonal(inner, d, rng).T * rng.uniform(0.1, 2, inner)
    columns, rows, root = np.linalg.norm(down, axis=0), np.linalg.norm(up, axis=1), math.sqrt(d)
    if gate is None:
        each = [k * gelu(root * b) for k, b in zip(columns, rows, strict=True)]
    else:
        reach = np.linalg.norm(gate, axis=1)
        each = [k * root * b * silu(root * a) for k, a, b in zip(columns, reach, rows, strict=True)]
    assert feed_forward_bound(gate, up, down, np.ones(d)) == pytest.approx(max(each), rel=1e-9)
    assert largest(feed_forward(gate, up, down, root * directions)) == pytest.approx(max(each), rel=1e-9)


def test_an_activation_that_is_not_said_has_the_larger_bound():
    up, down, gain = np.eye(3), np.eye(3), np.ones(3)
    bounds = {name: feed_forward_bound(None, up, down, gain, name) for name in ("gelu", "silu", None)}
    assert bounds["silu"] < bounds["gelu"] == bounds[None]


def test_numbers_that_are_nothing_count_for_nothing():
    rng = np.random.default_rng(0)
    gate, up, down, gain = *(rng.standard_normal((5, 3)) for _ in range(2)), rng.standard_normal((3, 5)), np.ones(3)
    gate[0], up[1], down[:, 2] = 0, 0, 0
    kept = feed_forward_bound(gate[3:], up[3:], down[:, 3:], gain)
    assert feed_forward_bound(gate, up, down, gain) == pytest.approx(kept)
    assert feed_forward_bound(0 * gate, up, down, gain) == 0
    assert feed_forward_bound(None, up, 0 * down, gain) == 0


OF_TENSORS = 1 + 1e-9
quartic_scales = st.sampled_from([0.1, 1.0, 30.0])


def weights(d, inner, scale, seed):
    rng = np.random.default_rng(seed)
    gate, up = scale * rng.standard_normal((2, inner, d))
    return gate, up, rng.standard_normal((d, inner)), rng.standard_normal(d)


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 6), quartic_scales, seeds, st.booleans())
def test_swiglu_is_bounded_and_no_looser_than_before(d, inner, scale, seed, centred):
    gate, up, down, gain = weights(d, inner, scale, seed)
    inputs = gain * unit(np.random.default_rng(seed).standard_normal((200, d)), 1e-5, centred)
    bound = gated_bound(gate, up, down, gain)
    assert largest(feed_forward(gate, up, down, inputs)) <= bound * OF_TENSORS
    assert bound <= feed_forward_bound(gate, up, down, gain)


@given(st.integers(1, 4), st.integers(1, 5), seeds)
def test_the_map_is_the_sum_that_the_proof_writes(d, inner, seed):
    """And at u u^T its form is q^T G q, whatever the shift."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, inner, d))
    form, x, u = rng.standard_normal((inner, inner)), rng.standard_normal((d, d)), rng.standard_normal(d)
    form, x = form + form.T, x + x.T
    forms = (np.einsum("fi,fj->fij", a, b) + np.einsum("fi,fj->fij", b, a)) / 2
    said = np.einsum("fg,fij,jk,gkl->il", form, forms, x, forms) + 0.7 * (x - np.trace(x) * np.eye(d))
    several = quartic.quartic_map(a, b, form, 0.7)(np.stack([x, 2 * x]))
    np.testing.assert_allclose(several, [said, 2 * said], atol=1e-9)
    q, outer = (a @ u) * (b @ u), np.outer(u, u)
    for shift in (0.0, 3.0):
        found = np.sum(outer * quartic.quartic_map(a, b, form, shift)(outer))
        assert found == pytest.approx(q @ form @ q, rel=1e-8, abs=1e-8)


def test_lanczos_finds_what_the_whole_matrix_has(monkeypatch):
    gate, up, down, gain = weights(8, 12, 0.3, 0)
    whole = gated_bound(gate, up, down, gain, tries=3)
    monkeypatch.setattr(quartic, "WHOLE", 4)
    assert gated_bound(gate, up, down, gain, tries=3) == pytest.approx(whole, rel=1e-4)


@given(st.integers(1, 5), quartic_scales, seeds)
def test_one_number_is_exact(d, scale, seed):
    """Against a fine search in the plane of gate and up, with both signs; its bound is h d ||k|| ||M||."""
    gate, up, down, _ = (x[..., 0] if i == 2 else x for i, x in enumerate(weights(d, 1, scale, seed)))
    gate, up = gate[0], up[0]
    exact = one_number_maximum(gate, up, down)
    plane = np.linalg.qr(np.stack([gate, up], 1))[0]
    angles = np.linspace(0, 2 * np.pi, 20_001)
    inputs = np.stack([np.cos(angles), np.sin(angles)], 1)[:, : plane.shape[1]] @ plane.T
    found = largest(feed_forward(gate[None], up[None], down[:, None], math.sqrt(d) * inputs))
    assert found <= exact * (1 + 1e-9)
    assert found == pytest.approx(exact, rel=1e-4)
    bound = gated_bound(gate[None], up[None], down[:, None], np.ones(d))
    a, b = np.linalg.norm(gate), np.linalg.norm(up)
    share = 1 / (1 + math.exp(-math.sqrt(d) * a))
    assert exact <= bound * OF_TENSORS
    assert bound == pytest.approx(share * d * np.linalg.norm(down) * (a * b + abs(gate @ up)) / 2, rel=1e-6)


def test_nothing_is_bounded_by_nothing():
    one = np.ones((3, 4))
    assert gated_bound(0 * one, one, one.T, np.ones(4)) == 0
    assert one_number_maximum(np.zeros(4), np.ones(4), np.ones(4)) == 0
