"""Bounds on both losses for any task, with a term C x too: against exact minimisation, and against the theorems."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import theory
from tests.theory.skipv1.w0_tools import whole_numbers
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, NotCovered, theorem_heads
from theory.prompts.moments import PromptMoments
from theory.skipv1 import general, non_gaussian, w0, w0_heads
from theory.skipv1.bias import mha_infimum, mha_weights, skipv1_minimum, skipv1_weights
from theory.skipv1.bounds import loss_bounds
from theory.toy.enough_heads import EnoughHeads

HEADLINE = PromptMoments(4, 2, 0.1, 10 * np.eye(4))


def test_the_headline_s_numbers():
    """Two heads, W0 = 10 I, d = 4: MHA's infimum is attained, and SkipV1Former reaches nothing near it."""
    found = theory.loss_bounds(HEADLINE)
    assert found.mha.lower == found.mha.upper == pytest.approx(w0_heads.mha_loss_around(4, 2, 0.1, 10.0))
    assert found.mha.attained
    assert found.skipv1.lower == pytest.approx(w0_heads.skipv1_few_heads_floor(4, 2, 0.1, 10.0))
    assert found.ahead == "mha"
    assert found.gap_most == pytest.approx(96.04 - 144.80842605801)
    assert found.assumed
    assert theory.loss_bounds(HEADLINE, heads=32).ahead == "skipv1"


def test_with_a_bias_the_gap_is_that_of_w0_zero():
    biased, plain = PromptMoments(4, 2, 0.1, 10 * np.eye(4), centred=True), PromptMoments(4, 2, 0.1)
    for rank in (None, 0, 1, 2, 3, 4):
        ours, theirs = theory.loss_bounds(biased, rank=rank), theory.loss_bounds(plain, rank=rank)
        assert (ours.gap_least, ours.gap_most) == pytest.approx((theirs.gap_least, theirs.gap_most))
        assert ours.mha.attained
        assert theirs.mha.attained == (rank in (0, 4))
    with pytest.raises(NotCovered, match="a bias"):
        theory.loss_bounds(PromptMoments(2, 3, 0.1, kurtosis=np.ones(2), centred=True))


@pytest.mark.parametrize("heads", [MHA, SKIPV1, (ORDINARY, SKIP, SKIP)])
@pytest.mark.parametrize(
    "law",
    [
        {"w0": 5 * np.eye(2)},
        {"w0": np.array([[1.0, -2.0], [0.5, 3.0]])},
        {"covariance": np.diag([1.0, 3.0])},
        {"kurtosis": np.array([2.0, -1.0])},
        {},
        {"w0": np.array([[1.0, -2.0], [0.5, 3.0]]), "centred": True},
    ],
    ids=str,
)
@pytest.mark.long
def test_minimisation_goes_below_no_lower_bound_and_down_to_what_is_known(law, heads):
    moments, skips = PromptMoments(2, 3, 0.5, **law), sum(head.raw > 0 for head in heads)
    for rank in (1, 2):
        found = loss_bounds(moments, rank=rank, heads=len(heads), skips=skips or None)
        between = found.skipv1 if skips else found.mha
        loss = theory.minimise(theory.PopulationLoss(moments, heads), rank, starts=6).value
        assert loss >= between.lower - 1e-8 * found.zero_loss
        if between.lower == between.upper:
            assert loss <= between.upper + 1e-3 * found.zero_loss


@given(
    st.integers(1, 4),
    st.integers(1, 9),
    st.floats(0, 3),
    st.integers(0, 99),
    st.integers(2, 40),
    st.sampled_from(["w0", "c", "covariance", "kurtosis", "none"]),
)
@settings(max_examples=60)
def test_bounds_are_in_order(d, n, sigma, seed, heads, kind):
    rng = np.random.default_rng(seed)
    matrix = 3 * rng.standard_normal((d, d))
    law = {
        "w0": {"w0": matrix},
        "c": {"w0": matrix[0, 0] * np.eye(d)},
        "covariance": {"covariance": matrix @ matrix.T},
        "kurtosis": {"kurtosis": rng.uniform(-1, 3, d)},
        "none": {},
    }[kind]
    moments = PromptMoments(d, n, sigma, **law)
    over_all = loss_bounds(moments, heads=heads)
    for found in [over_all, *(loss_bounds(moments, rank=a, heads=heads) for a in range(d + 1))]:
        for between in (found.mha, found.skipv1):
            assert 0 <= between.lower <= between.upper <= found.zero_loss * (1 + 1e-12)
        assert over_all.mha.lower <= found.mha.lower
        assert over_all.skipv1.upper <= found.skipv1.upper
        assert found.gap_least <= found.gap_most
        assert {"skipv1": found.gap_most >= 0, "mha": found.gap_most < 0}.get(str(found.ahead), True)


def test_each_task_has_its_theorem():
    covariance, kurtosis = np.diag([1.0, 2.0, 4.0]), [0.5, 1.0, 3.0]
    of_gap, wide = theory.loss_gap(3, 8, 0.3, 2), PromptMoments(3, 8, 0.3, covariance=covariance)
    central = loss_bounds(PromptMoments(3, 8, 0.3), rank=2)
    assert (central.mha.upper, central.skipv1.upper) == (of_gap.mha, of_gap.skipv1)
    assert (central.mha.attained, central.skipv1.attained) == (False, True)
    assert loss_bounds(wide, rank=2).gap_least == pytest.approx(general.general_loss_gap(wide, 2).gap)
    other = loss_bounds(PromptMoments(3, 8, 0.3, kurtosis=kurtosis), rank=2)
    fourth = non_gaussian.fourth_moments(kurtosis)
    assert other.gap_least == pytest.approx(non_gaussian.non_gaussian_loss_gap(fourth, 8, 0.3, 2).gap)
    enough = loss_bounds(PromptMoments(2, 8, 0.3, np.diag([3.0, 1.0])), rank=1, heads=4)
    assert enough.gap_least == enough.gap_most == pytest.approx(theory.loss_gap(2, 8, 0.3, 1).gap)
    assert enough.skipv1.upper == w0.skipv1_enough_heads_loss(2, 8, 0.3, [9.0, 1.0], 1)


def test_few_heads_are_not_enough_for_two_distinct_modes():
    """One skip head cannot approach the infimum where rows and columns have two variances each."""
    law = {"covariance": np.diag([1.0, 4.0]), "prior_rows": np.diag([1.0, 4.0])}
    moments = PromptMoments(2, 3, 0.5, **law)
    two, four = (loss_bounds(moments, rank=2, heads=heads).skipv1 for heads in (2, 4))
    assert two.lower == four.lower == four.upper < two.upper


def test_what_no_theorem_is_about_is_refused_in_words():
    for law in ({"w0": np.eye(2), "kurtosis": [1, 1]}, {"covariance": 2 * np.eye(2), "kurtosis": [1, 1]}):
        with pytest.raises(NotCovered, match="more than one of W0, a covariance and a kurtosis"):
            loss_bounds(PromptMoments(2, 3, 0.1, **law))
    for wrong in ({"heads": 1}, {"skips": 2}, {"skips": 0}, {"rank": 5}):
        with pytest.raises(InvalidSize):
            loss_bounds(HEADLINE, **wrong)
    with pytest.raises(InvalidSize, match="for d up to 128, got 200"):
        loss_bounds(PromptMoments(200, 3, 0.1, np.eye(200)))


def test_which_plans_the_theorem_is_about():
    shape = theory.Shape(2, 4)
    found = {
        name: theorem_heads(theory.resolve(name, shape)) for name in ("vanilla", "skipv1", "svformer", "resformer")
    }
    assert found == {"vanilla": (4, 0), "skipv1": (2, 2), "svformer": (0, 4), "resformer": None}
    assert theorem_heads(theory.resolve("neutreno", shape)) is None


@pytest.mark.long
def test_predict_minimises_around_w0():
    task = {"d": 2, "n": 3, "sigma": 0.5, "rank": 2}
    bounds = loss_bounds(PromptMoments(2, 3, 0.5, 2 * np.eye(2)), rank=2)
    found = theory.predict("skipv1", w0=2 * np.eye(2), **task)
    assert bounds.skipv1.lower - 1e-9 <= found.loss <= bounds.skipv1.upper
    assert found.method == "exact minimisation"
    for wrong in ({"w0": np.eye(3)}, {"kurtosis": [np.nan, 0]}, {"covariance": -np.eye(2)}, {"heads": 10**6}):
        with pytest.raises(BadInput):
            theory.predict("skipv1", **task, **wrong)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_without_meaning_are_refused_below_too(number):
    with pytest.raises(BadInput, match="squared singular values of W0 are finite"):
        w0.mha_floor(2, 3, 0.1, [1.0, number], 1)
    with pytest.raises(BadInput, match="an excess kurtosis is finite"):
        non_gaussian.fourth_moments([0.0, number])


SIGMAS = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(3)])


@st.composite
def tasks(draw, d_max=4):
    """d, n, sigma, rank, W0 in whole numbers."""
    d = draw(st.integers(1, d_max))
    return d, draw(st.integers(1, 6)), draw(SIGMAS), draw(st.integers(0, d)), whole_numbers(draw, d, d)


@settings(max_examples=30)
@given(tasks(3), st.integers(0, 999))
def test_no_weights_go_below_with_any_number_of_heads(task, seed):
    d, n, sigma, rank, w0 = task
    if rank == 0:
        return
    rng = np.random.default_rng(seed)
    moments = PromptMoments(d, n, float(sigma), w0.astype(float), centred=True)
    a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
    floors = {(ORDINARY,): mha_infimum, (ORDINARY, SKIP): skipv1_minimum}
    for kinds, floor in floors.items():
        value = EnoughHeads(moments, kinds).value(a, b)
        assert value >= float(floor(d, n, sigma, rank)) - 1e-9 * moments.zero_loss
        if kinds != (ORDINARY,):  # and at generic A and B skip heads reach theirs
            assert value <= float(floor(d, n, sigma, rank)) + 1e-5 * moments.zero_loss


def test_bad_sizes_are_refused():
    for weights in (skipv1_weights, mha_weights):
        with pytest.raises(InvalidSize, match="W0 must be 2 x 2"):
            weights(2, 3, 0.1, 1, np.zeros((3, 3)))
    for value in (skipv1_minimum, mha_infimum):
        with pytest.raises(InvalidSize):
            value(2, 3, 0.1, 3)
