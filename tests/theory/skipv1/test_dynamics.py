"""Gradient flow on one head's signal: where it ends, and when the toy itself takes its steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.skipv1.claims.dynamics import Signal
from theory.errors import InvalidSize
from theory.plans.heads import MHA, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.skipv1.dynamics import balanced_start, conserved, rank_bounds, step_times
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
