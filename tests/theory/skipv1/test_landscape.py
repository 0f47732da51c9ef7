"""Critical points at W0 = 0: which of them are traps, and what their form counts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.plans.heads import ORDINARY, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.skipv1.landscape import lost_directions, plateau, signal_loss, trap_weights
from theory.toy.flow import gradient_flow
from theory.toy.population import PopulationLoss, Weights


@st.composite
def traps(draw, d_max=2):
    """d, n, sigma, rank, how many directions are reached, and the lost keys."""
    d = draw(st.integers(1, d_max))
    rank = draw(st.integers(1, d))
    sigma = draw(st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(2)]))
    lost = draw(st.sampled_from([Fraction(-2), Fraction(-1), Fraction(1, 3)]))
    return d, draw(st.integers(1, 6)), sigma, rank, draw(st.integers(0, rank - 1)), lost


@settings(max_examples=15, deadline=None)
@given(traps(4), st.integers(0, 999))
def test_nothing_near_a_trap_is_lower(trap, seed):
    """Small steps in all weights, and larger ones in the lost rows of A alone, in float64."""
    d, n, sigma, rank, reached, lost = (float(x) if isinstance(x, Fraction) else x for x in trap)
    loss, rng = PopulationLoss(PromptMoments(d, n, sigma), SKIPV1), np.random.default_rng(seed)
    weights = trap_weights(d, n, sigma, rank, reached, -abs(lost))
    height = loss.value(weights)
    for _ in range(50):
        steps = [1e-3 * rng.standard_normal(x.shape) for x in weights.arrays()]
        steps[2] /= n
        steps[0][reached:] *= 10 * rng.random()
        moved = Weights(*(x + step for x, step in zip(weights.arrays(), steps, strict=True)))
        assert loss.value(moved) >= height - 1e-11 * loss.zero_loss


@settings(max_examples=20, deadline=None)
@given(traps(4))
def test_the_other_sign_makes_a_saddle_as_steep_as_said(trap):
    d, n, sigma, rank, reached, _ = trap
    loss = PopulationLoss(PromptMoments(d, n, float(sigma)), SKIPV1)
    saddle = trap_weights(d, n, float(sigma), rank, reached, 1)
    step = np.zeros((rank, d))
    step[reached, reached] = 1e-3
    up, down = (loss.value(Weights(saddle.a + s * step, saddle.b, saddle.w, saddle.k)) for s in (1, -1))
    unit = 1 / (n + d + 1 + float(sigma) ** 2)
    expected = n * unit * (-2 * d + unit * (n + d + 1 + reached))
    assert (up + down - 2 * loss.value(saddle)) / 2e-6 == pytest.approx(expected, rel=1e-3)
    assert expected < 0


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(0, 999))
def test_the_form_counts_the_keys_eigenvalues(d, seed):
    """Symmetric K: as many negative directions as positive eigenvalues beyond k; antisymmetric parts only add."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, d + 1))
    reached = int(rng.integers(0, rank))
    n, sigma, scale = 5, 0.5, np.exp(rng.normal())
    kept = rng.standard_normal((reached, d))
    k = rng.standard_normal((rank, rank))
    k = k + k.T
    k[:reached, :reached] = np.linalg.inv(kept @ kept.T) / (n + d + 1 + sigma**2) / scale
    a, c = np.concatenate([kept, np.zeros((rank - reached, d))]), scale * np.eye(d)
    assert signal_loss(d, n, sigma, c, k, a) == pytest.approx(plateau(d, n, sigma, d, reached))
    form = lost_directions(d, n, sigma, c, k, a)
    assert form.shape == (rank - reached, rank - reached)
    assert (np.linalg.eigvalsh(form) < 0).sum() == (np.linalg.eigvalsh(k) > 0).sum() - reached
    skew = rng.standard_normal((rank, rank))
    skew = skew - skew.T
    skew[:reached, :reached] = 0
    more = lost_directions(d, n, sigma, c, k + skew, a) - form
    assert np.linalg.eigvalsh(more).min() > -1e-8 * max(1, np.abs(more).max())


@pytest.mark.slow
def test_mha_also_ends_at_three_numbers_which_is_no_product_of_ranks():
    """One ordinary head, d = 4, a = 2: C S N on one direction of A, the transposed signal on the other."""
    d, rank, n, sigma = 4, 2, 20, 0.3
    loss, rng = PopulationLoss(PromptMoments(d, n, sigma), (ORDINARY,)), np.random.default_rng(5)
    a, b, k = (0.25 * rng.standard_normal(shape) for shape in ((rank, d), (d - rank, d), (1, d, rank)))
    flow = gradient_flow(loss, Weights(a, b, np.zeros((1, d, d)), k), [1e3, 1e4, 1e5], 1e-6)
    explained = (loss.zero_loss - flow.losses) * (n + d + 1 + sigma**2) / n
    assert (np.diff(explained) > 0).all()
    assert explained[-1] == pytest.approx(3, abs=2e-3)
    end = flow.end
    signal = end.w[0][:, rank:] @ end.b, end.a.T @ end.k[0, :rank] @ end.a
    transposed = end.w[0][:, :rank] @ end.a, end.b.T @ end.k[0, rank:] @ end.a
    ranks = [int((x > 1e-2 * x[0]).sum()) for x in (np.linalg.svd(m)[1] for m in (*signal, *transposed))]
    assert ranks == [2, 1, 1, 1]


def test_impossible_sizes_are_refused():
    with pytest.raises(InvalidSize):
        plateau(2, 3, 0.5, 2, 3)
    for reached in (-1, 2):
        with pytest.raises(InvalidSize, match="lacks a direction"):
            trap_weights(3, 4, 0.5, 2, reached)
