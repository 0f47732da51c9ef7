"""Gradient flow on one head's signal: what it keeps, where it ends, and when it takes its steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.skipv1.claims.dynamics import Signal
from theory.errors import InvalidSize
from theory.plans.heads import MHA, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.skipv1.dynamics import balanced_path, balanced_start, conserved, rank_bounds, step_times
from theory.skipv1.landscape import plateau, signal_loss
from theory.toy.flow import gradient_flow
from theory.toy.population import PopulationLoss, Weights

KINDS = st.sampled_from(["skip", "ordinary"])


@st.composite
def signals(draw, d_max=4):
    kind = draw(KINDS)
    d = draw(st.integers(1 if kind == "skip" else 2, d_max))
    rank = draw(st.integers(1, d if kind == "skip" else d - 1))
    return Signal(kind, d, rank, draw(st.integers(1, 9)), draw(st.sampled_from([0.0, 0.5, 2.0])))


@settings(max_examples=30, deadline=None)
@given(signals(), st.integers(0, 999))
def test_the_checks_own_signal_is_theory_s_and_its_gradient_the_slope(signal, seed):
    flat = np.random.default_rng(seed).standard_normal(signal.size)
    parts = signal.parts(flat)
    c = parts["v"] if signal.kind == "skip" else parts["v"] @ parts["b"]
    assert signal.loss(flat) == pytest.approx(float(signal_loss(*signal.task, c / signal.n, parts["k"], parts["a"])))
    step = 1e-6 * np.random.default_rng(seed + 1).standard_normal(signal.size)
    slope = (signal.loss(flat + step) - signal.loss(flat - step)) / 2
    assert slope == pytest.approx(step @ signal.gradient(flat), rel=1e-5, abs=1e-8)


@settings(max_examples=12, deadline=None)
@given(signals(3), st.integers(0, 999), st.sampled_from([0.2, 1.0, 4.0]))
def test_flows_end_on_plateaus_between_the_bounds(signal, seed, keys):
    rng = np.random.default_rng(seed)
    parts = {name: rng.standard_normal(shape) for name, shape in signal.shapes.items()}
    parts["k"] *= keys
    parts["v"] *= 0
    start = signal.flat(parts)
    end = signal.flow(start, [1e4], 1e-6)[-1]
    last = signal.parts(end)
    assert np.abs(conserved(last["k"], last["a"]) - conserved(parts["k"], parts["a"])).max() < 1e-2 * (1 + keys**2)
    rows = signal.d if signal.kind == "skip" else signal.d - signal.rank
    reached = (signal.zero_loss - signal.loss(end)) / signal.rho / rows
    if np.abs(signal.gradient(end)).max() < 1e-4:
        assert reached == pytest.approx(round(reached), abs=1e-2)
    least, most = rank_bounds(parts["k"], parts["a"])
    assert round(reached) <= most
    if np.linalg.eigvalsh(conserved(parts["k"], parts["a"])).max() > 0.1 or least == 1:
        assert round(reached) >= least or np.abs(signal.gradient(end)).max() > 1e-4


def test_large_symmetric_keys_end_at_their_number_of_eigenvalues_of_the_right_sign():
    rng = np.random.default_rng(5)
    for values in ((1.0, -0.7), (1.0, 0.8), (-1.0, -0.8), (1.0, 0.6, -0.9), (0.9, -0.5, -0.6)):
        d = len(values)
        signal = Signal("skip", d, d, 5, 0.5)
        turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
        a, k = 0.15 * rng.standard_normal((d, d)), turn @ np.diag(values) @ turn.T
        start = signal.flat({"a": a, "k": k, "v": np.zeros((d, d)), "b": np.zeros((0, d))})
        sign = np.sign(np.trace(a.T @ k @ a))
        right = int((sign * np.array(values) > 0).sum())
        assert rank_bounds(k, a) == (1, right)
        end = signal.loss(signal.flow(start, [3e3], 1e-6)[-1])
        assert end == pytest.approx(float(plateau(*signal.task, d, right)), abs=1e-2)


@pytest.mark.parametrize("w", [0.0, 0.5, 1.0])
def test_the_rank_is_bounded_from_where_the_keys_outweigh_the_compression(w):
    """For K = diag(u, -v) + w J and A = alpha 1 the theorem's condition is alpha^2 < 2 v^2, whatever w is."""
    u, v = 1.3, 0.8
    keys = np.array([[u, w], [-w, -v]])
    for factor, most in ((0.98, 1), (1.02, 2), (20.0, 2)):
        least = 2 if factor == 20 else 1
        assert rank_bounds(keys, (factor * 2 * v**2) ** 0.5 * np.eye(2)) == (least, most)
    between = (2 * (u**2 + v**2) / 2 + 2 * w**2) ** 0.5
    assert rank_bounds(keys, between * np.eye(2)) == (1, 2)


@settings(max_examples=15, deadline=None)
@given(signals(), st.integers(0, 99))
def test_balance_is_kept_in_any_directions(signal, seed):
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.2, 0.6, signal.rank)
    start = balanced_start(signal.d, scales, signal.kind)
    v = start["v"] if signal.kind == "skip" else start["v"][:, signal.rank :]
    b = start["b"] if signal.kind == "ordinary" else np.zeros(signal.shapes["b"])
    assert np.abs(conserved(start["k"][: signal.rank], start["a"])).max() < 1e-12
    assert np.sum(v**2) == pytest.approx(np.sum(start["k"] ** 2))
    raw = np.linalg.qr(rng.standard_normal((signal.d, signal.d)))[0]
    turned = {"a": start["a"] @ raw.T, "b": b @ raw.T, "k": start["k"][: signal.rank]}
    turned["v"] = raw @ v @ raw.T if signal.kind == "skip" else raw @ v
    times = [0.1, 1.0, 3.0]
    found = [signal.zero_loss - signal.loss(x) for x in signal.flow(signal.flat(turned), times)]
    np.testing.assert_allclose(found, balanced_path(*signal.task, scales, times, signal.kind), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "d", "scales"), [("skip", 1, (1.0,)), ("skip", 5, (1.0, 0.7)), ("ordinary", 3, (1.0, 0.5))]
)
def test_times_are_those_of_the_flow_the_better_the_smaller_the_start(kind, d, scales):
    rows = d if kind == "skip" else d - len(scales)
    rho = 6 / (6 + d + 1.25)
    errors = []
    for size in (0.2, 0.1, 0.05):
        u = [size * x for x in scales]
        said = step_times(d, 6, 0.5, u, kind)
        times = np.unique(np.concatenate([t + np.linspace(-2, 2, 801) for t in said]).clip(min=1e-6))
        explained = balanced_path(d, 6, 0.5, u, times, kind) / rho / rows
        found = np.array([np.interp(k + 0.5, explained, times) for k in range(len(u))])
        errors.append(np.abs(found / said - 1).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.01


def test_one_direction_has_the_closed_form_of_an_integral():
    assert step_times(4, 9, 0.3, [0.1])[0] == pytest.approx(1 / (8 * 4**0.5 * 0.1**2))
    assert step_times(4, 9, 0.3, [0.1], "ordinary")[0] == pytest.approx(1 / (12 * 0.1**3))


@pytest.mark.parametrize(
    ("heads", "kind", "d", "scales"), [(SKIPV1, "skip", 3, (0.2, 0.1, 0.06)), (MHA, "ordinary", 4, (0.3, 0.15))]
)
def test_the_toy_itself_takes_its_steps_when_the_signal_does(heads, kind, d, scales):
    """Even part and all, from balance, within a fifth."""
    n, sigma, rank = 12, 0.3, len(scales)
    parts = balanced_start(d, scales, kind)
    idle, other = np.zeros((d, d)), 0.1 * np.random.default_rng(0).standard_normal((d, rank))
    order = slice(None, None, 1 if kind == "skip" else -1)
    w, k = np.stack((idle, parts["v"])[order]), np.stack((other, parts["k"])[order])
    loss = PopulationLoss(PromptMoments(d, n, sigma), heads)
    said = step_times(d, n, sigma, scales, kind)
    times = np.linspace(0.01, 1.4 * said[-1], 400)
    rows = d if kind == "skip" else d - rank
    losses = gradient_flow(loss, Weights(parts["a"], parts["b"], w / n, k), list(times), 1e-5).losses
    middles = [(plateau(d, n, sigma, rows, i) + plateau(d, n, sigma, rows, i + 1)) / 2 for i in range(rank)]
    found = np.array([times[np.argmax(losses < middle)] for middle in middles])
    np.testing.assert_allclose(found, said, rtol=0.2)


def test_impossible_sizes_are_refused():
    for kind, scales in (("skip", (1.0,) * 3), ("ordinary", (1.0,) * 2), ("skip", ())):
        with pytest.raises(InvalidSize):
            balanced_start(2, scales, kind)


def test_the_rank_is_bounded_by_signs_only_where_all_keys_outweigh():
    """One eigenvalue of Q is positive, the other negative: the keys' signs say nothing.  And of keys just above A."""
    assert rank_bounds(np.diag([2.0, -0.2]), np.eye(2)) == (1, 2)
    assert rank_bounds(np.diag([1.0, -0.9]), np.diag([1.3, 1.2])) == (1, 1)
