"""The sharper bound on SwiGLU: below the other, above what is attained, exact for one number and in its tensor."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.attnres.written_out import feed_forward, largest, unit
from theory.attnres import quartic
from theory.attnres.quartic import gated_bound, one_number_maximum
from theory.attnres.sublayers import feed_forward_bound

SLACK = 1 + 1e-9
seeds = st.integers(0, 2**16)
scales = st.sampled_from([0.1, 1.0, 30.0])


def weights(d, inner, scale, seed):
    rng = np.random.default_rng(seed)
    gate, up = scale * rng.standard_normal((2, inner, d))
    return gate, up, rng.standard_normal((d, inner)), rng.standard_normal(d)


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 6), scales, seeds, st.booleans())
def test_swiglu_is_bounded_and_no_looser_than_before(d, inner, scale, seed, centred):
    gate, up, down, gain = weights(d, inner, scale, seed)
    inputs = gain * unit(np.random.default_rng(seed).standard_normal((200, d)), 1e-5, centred)
    bound = gated_bound(gate, up, down, gain)
    assert largest(feed_forward(gate, up, down, inputs)) <= bound * SLACK
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


@given(st.integers(1, 5), scales, seeds)
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
    assert exact <= bound * SLACK
    assert bound == pytest.approx(share * d * np.linalg.norm(down) * (a * b + abs(gate @ up)) / 2, rel=1e-6)


def test_nothing_is_bounded_by_nothing():
    one = np.ones((3, 4))
    assert gated_bound(0 * one, one, one.T, np.ones(4)) == 0
    assert one_number_maximum(np.zeros(4), np.ones(4), np.ones(4)) == 0
