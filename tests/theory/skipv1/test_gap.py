"""The theorem: the witness, what a minimum is told from, the paper's bound, and sizes that are refused."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.plans.heads import MHA, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import skipv1_weights, unattained_witness
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss


@given(st.integers(2, 6), st.data(), st.integers(0, 999))
def test_witness_has_the_three_properties(d, data, seed):
    rank = data.draw(st.integers(1, d - 1))
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((rank, d))
    match data.draw(st.sampled_from(["general", "singular", "no rest", "zero column"])):
        case "singular":
            a[:, :rank] = np.outer(a[:, 0], a[0, :rank]) if rank > 1 else 0
        case "no rest":
            a[:, rank:] = 0
        case "zero column":
            a[:, 0] = 0
    s = unattained_witness(a)
    size = np.linalg.norm(s)
    assert np.array_equal(s, s.T)
    assert not s[:rank, :rank].any()
    assert np.linalg.norm(s[:rank, rank:]) > 1e-9 * size
    assert np.linalg.norm(a @ s @ a.T) <= 1e-12 * (1 + np.linalg.norm(a) ** 2) * size * np.linalg.cond(
        s[:rank, rank:] + 0
    )


def test_witness_needs_room():
    for shape in ((0, 3), (3, 3)):
        with pytest.raises(InvalidSize):
            unattained_witness(np.ones(shape))


def test_certificate_tells_a_minimum_from_an_infimum():
    """Both gradients are small; SkipV1Former's weights stay where they are while MHA's B runs away."""
    d, n, sigma, a = 3, 8, 0.3, 1
    moments = PromptMoments(d, n, sigma)
    mha = minimise(PopulationLoss(moments, MHA), a)
    skip = minimise(PopulationLoss(moments, SKIPV1), a)
    assert mha.gradient_norm < 1e-3
    assert skip.gradient_norm < 1e-3
    assert mha.scale > 50
    assert mha.distance is None
    assert mha.agreeing >= 2
    assert mha.starts == 8


def test_paper_bound_states_its_error_truly():
    """Two estimates from many and from few samples differ by no more than their errors say."""
    many, few = (skipv1.paper_bound(4, 6, 0.5, 2, samples=s) for s in (8_000, 200))
    assert abs(many.value - few.value) <= 5 * few.stderr
    assert many.stderr < few.stderr / 4
    assert skipv1.paper_bound(4, 6, 0.5, 4) == skipv1.paper_bound(4, 6, 0.5, 0)


def test_paper_bound_does_not_grow_with_the_context():
    """n = 10^9 costs what n = 10 does, and the share of the gap has a limit."""
    long, longer = (skipv1.paper_bound(4, n, 0.5, 2, samples=2000) for n in (10**7, 10**9))
    assert long.value == pytest.approx(longer.value, rel=1e-3)
    with pytest.raises(InvalidSize, match="at least 8 samples"):
        skipv1.paper_bound(4, 8, 0.5, 2, samples=2)
    with pytest.raises(InvalidSize, match="up to 1024"):
        skipv1.paper_bound(2000, 3000, 0.5, 2)


def test_gaps_do_not_drown_in_large_losses():
    """At sigma = 10^5 the losses agree to 17 digits; the gap is still rho a^2."""
    gap = skipv1.loss_gap(3, 8, 1e5, 2)
    assert gap.gap == pytest.approx(8 * 4 / 1e10, rel=1e-6)


def test_numpy_sizes_are_welcome():
    assert skipv1.loss_gap(np.int64(3), np.int32(8), np.float64(0.3), np.int64(2)) == skipv1.loss_gap(3, 8, 0.3, 2)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ((3, 8, 0.3, 4), "rank must be a whole number from 0 to d = 3, got 4"),
        ((3, 8, 0.3, -1), "rank must be"),
        ((0, 8, 0.3, 0), "d must be a whole number from 1 to 1e+09, got 0"),
        ((3, 0, 0.3, 1), "n must be a whole number from 1 to 1e+09, got 0"),
        ((3, 8, -0.1, 1), "sigma must be a number from 0 to 1e+09, got -0.1"),
        ((3, 8, float("nan"), 1), "sigma must be a number from 0"),
        ((3, 8, float("inf"), 1), "sigma must be a number from 0"),
        ((True, 8, 0.1, 1), "d must be a whole number"),
        ((10**400, 8, 0.1, 1), "d must be a whole number from 1 to 1e+09, got 10000000000000000000..."),
        ((3, 8, 1e200, 1), "sigma must be a number from 0 to 1e+09, got 1e+200"),
    ],
)
def test_bad_input_has_one_clear_message(task, message):
    for function in (skipv1.loss_gap, skipv1.paper_bound, skipv1.mha_explained, skipv1_weights):
        with pytest.raises(InvalidSize, match=re.escape(message)):
            function(*task)
