"""The theorem at any covariance and width: against isotropy, explicit weights, minimisation and random weights."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import check_random_weights
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import MHA, ORDINARY, SKIP, SKIPV1, Head
from theory.prompts import preconditioned
from theory.prompts.moments import PromptMoments
from theory.prompts.shifts import loss_elsewhere
from theory.skipv1 import gap as skipv1
from theory.skipv1.general import (
    general_loss_gap,
    general_mha_explained,
    general_skipv1_explained,
    mha_heads_needed,
    modes,
    skip_heads_needed,
)
from theory.skipv1.general_weights import general_mha_weights, general_skip_head_weights, general_skipv1_weights
from theory.skipv1.transfer import best_division, explained_at_width, trained_columns
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss

NAMES = ("covariance", "prior_rows", "prior_columns")


def random_task(rng, d, n, sigma, ranks=(0, 0, 0)):
    """Covariances that do not commute, each of the full rank less what `ranks` says."""
    factors = [rng.standard_normal((d, d + 2))[:, : d + 2 if less == 0 else max(0, d - less)] for less in ranks]
    matrices = [f @ f.T / d for f in factors]
    return PromptMoments(d, n, sigma, **{name: (m + m.T) / 2 for name, m in zip(NAMES, matrices, strict=True)})


@st.composite
def tasks(draw, max_d=5, singular=False):
    d = draw(st.integers(1, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    ranks = [draw(st.integers(0, 1)) if singular else 0 for _ in NAMES]
    return random_task(rng, d, draw(st.integers(1, 20)), draw(st.sampled_from([0.0, 0.3, 1.0, 4.0])), ranks)


@st.composite
def ranked(draw, **options):
    moments = draw(tasks(**options))
    return moments, draw(st.integers(0, moments.d))


def value(moments, heads, weights):
    return PopulationLoss(moments, heads).value(weights)


@given(st.integers(1, 6), st.integers(1, 30), st.sampled_from([0.0, 0.3, 4.0]), st.data())
def test_isotropic_tasks_are_those_of_the_theorem(d, n, sigma, data):
    """Also if x is scaled up and W* down, which changes nothing."""
    rank, scale = data.draw(st.integers(0, d)), data.draw(st.sampled_from([1.0, 9.0]))
    moments = PromptMoments(d, n, sigma, covariance=scale * np.eye(d), prior_columns=np.eye(d) / scale)
    isotropic, gap = skipv1.loss_gap(d, n, sigma, rank), general_loss_gap(moments, rank)
    for name in ("mha", "skipv1", "gap", "gap_to_optimum", "gap_of_optima"):
        assert getattr(gap, name) == pytest.approx(getattr(isotropic, name), rel=1e-12, abs=1e-12 * isotropic.mha), name
    assert skip_heads_needed(moments, rank) == 1
    assert mha_heads_needed(moments, rank) == 1


@given(ranked(singular=True), st.integers(0, 99))
def test_rotations_change_nothing(case, seed):
    """x -> O x, with W* -> W* O^T; and W* -> U W*."""
    moments, rank = case
    d = moments.d
    rng = np.random.default_rng(seed)
    o, u = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    turns = dict(zip(NAMES, (o, u, o), strict=True))
    turned = {name: t @ getattr(moments, name) @ t.T for name, t in turns.items()}
    other = PromptMoments(d, moments.n, moments.sigma, **{name: (m + m.T) / 2 for name, m in turned.items()})
    scale = moments.zero_loss
    for loss in (general_mha_explained, general_skipv1_explained):
        assert loss(moments, rank) == pytest.approx(loss(other, rank), abs=1e-9 * scale)


@given(ranked(singular=True))
def test_weights_approach_both_infima_as_one_over_beta_squared(case):
    """With covariances of any rank."""
    moments, rank = case
    gap = general_loss_gap(moments, rank)
    zero = moments.zero_loss
    for approaching, infimum in ((general_skip_head_weights, gap.skipv1), (general_mha_weights, gap.mha)):
        first, second, third = (
            value(moments, *approaching(moments, rank, beta)) - infimum for beta in (1.0, 4.0, 32.0)
        )
        assert first >= -1e-10 * zero
        assert second == pytest.approx(first / 16, rel=1e-6, abs=1e-10 * zero)
        assert third == pytest.approx(first / 1024, rel=1e-6, abs=1e-10 * zero)


@given(ranked(max_d=4, singular=True), st.integers(1, 4), st.integers(0, 999))
def test_no_weights_pass_the_bounds(case, count, seed):
    moments, rank = case
    check_random_weights(general_loss_gap(moments, rank), moments, rank, count=count, seed=seed)


@given(tasks(max_d=6))
def test_the_optimum_is_the_best_linear_map_of_all_of_s_yx(moments):
    assert general_loss_gap(moments, moments.d).skipv1 == pytest.approx(preconditioned.linear(moments), rel=1e-10)


@given(tasks(max_d=6, singular=True))
def test_stronger_modes_explain_more(moments):
    explained = modes(moments).explained
    tiny = 1e-12 * moments.zero_loss
    assert (np.diff(explained, axis=0) <= tiny).all()
    assert (np.diff(explained, axis=1) <= tiny).all()
    assert explained.sum() <= moments.zero_loss - moments.d * moments.sigma**2 + tiny


UNEQUAL = {"prior_rows": np.diag([0.4, 0.05]), "prior_columns": np.diag([0.4, 0.05])}


@pytest.mark.parametrize(
    ("sigma", "eigenvalues", "heads"),
    [
        (1.0, UNEQUAL, 2),
        (0.0, UNEQUAL, 1),
        (1.0, {**UNEQUAL, "prior_rows": np.eye(2)}, 1),
        (1.0, {**UNEQUAL, "prior_columns": np.eye(2)}, 1),
        (1.0, {**UNEQUAL, "prior_rows": np.diag([1.0, 0.0])}, 1),
        (
            1.0,
            {"covariance": np.diag([1.0, 4.0]), "prior_columns": np.diag([4.0, 1.0]), "prior_rows": np.diag([1, 2])},
            1,
        ),
    ],
)
def test_heads_that_are_needed(sigma, eigenvalues, heads):
    """The rank of the multipliers, and the explicit weights have so many of each kind."""
    moments = PromptMoments(2, 3, sigma, **eigenvalues)
    assert skip_heads_needed(moments, 2) == heads
    of, _ = general_skipv1_weights(moments, 2)
    assert (of.count(SKIP), of.count(ORDINARY)) == (heads, heads)
    assert np.linalg.matrix_rank(modes(moments).multipliers, tol=1e-9) == heads


def test_where_the_best_compression_has_a_singular_block():
    """Sigma = diag(1, 4): the best A reads the second coordinate alone, and the minimum is only approached so."""
    moments = PromptMoments(2, 3, 0.5, covariance=np.diag([1.0, 4.0]))
    with pytest.raises(BadInput, match="singular square block"):
        general_skipv1_weights(moments, 1)
    gap = general_loss_gap(moments, 1)
    assert value(moments, *general_skip_head_weights(moments, 1, 1e4)) == pytest.approx(gap.skipv1, abs=1e-6)
    assert minimise(PopulationLoss(moments, SKIPV1), 1, starts=4).value == pytest.approx(gap.skipv1, abs=1e-4)


def test_what_the_theorem_is_not_about():
    eye = np.eye(2)
    for bad, message in (
        (PromptMoments(2, 3, 0.1, eye), "W0 = 0"),
        (PromptMoments(2, 3, 0.1, kurtosis=np.zeros(2)), "normal inputs"),
    ):
        with pytest.raises(BadInput, match=message):
            general_loss_gap(bad, 1)
    for rank, function in product((-1, 3, 1.5), (general_loss_gap, skip_heads_needed, general_skipv1_weights)):
        with pytest.raises(InvalidSize, match="rank must be"):
            function(PromptMoments(2, 3, 0.1), rank)


def task(seed, d, n=4, sigma=0.6):
    factors = np.random.default_rng(seed).standard_normal((2, d, d + 1))
    covariance, columns = ((f @ f.T + (f @ f.T).T) / 2 for f in factors)
    return PromptMoments(d, n, sigma, covariance=covariance, prior_columns=columns, prior_rows=0.7 * np.eye(d))


@given(seed=st.integers(0, 50), d=st.integers(1, 5))
def test_at_width_d_it_is_the_general_theorem(seed, d):
    moments = task(seed, d)
    assert explained_at_width(moments, MHA, d) == pytest.approx(
        max(general_mha_explained(moments, a) for a in range(d + 1))
    )
    assert explained_at_width(moments, SKIPV1, d) == pytest.approx(general_skipv1_explained(moments, d))


@given(seed=st.integers(0, 50), d=st.integers(1, 4), extra=st.integers(0, 6))
def test_the_map_stated_explains_that_and_width_helps(seed, d, extra):
    moments = task(seed, d)
    outputs, inputs = best_division(moments, MHA, d + extra)
    assert outputs + inputs <= d + extra
    rows = np.diag((np.arange(d) < outputs).astype(float))
    explained = moments.zero_loss - loss_elsewhere(moments, rows, trained_columns(moments, inputs))
    here = explained_at_width(moments, MHA, d + extra)
    assert here == pytest.approx(explained, rel=1e-6, abs=1e-9)
    assert here <= explained_at_width(moments, MHA, d + extra + 1) + 1e-9
    assert here <= explained_at_width(moments, SKIPV1, d + extra) + 1e-9


def test_raw_keys_and_bad_input():
    moments = task(0, 3)
    assert explained_at_width(moments, (Head(1, 0, 0, 1),), 3) is None
    assert explained_at_width(moments, (Head(0, 1, 0, 1),), 3) == 0
    with pytest.raises(InvalidSize, match="width"):
        explained_at_width(moments, MHA, 2)
    with pytest.raises(InvalidSize, match="rank"):
        trained_columns(moments, 4)
    with pytest.raises(BadInput, match="multiple of the identity"):
        explained_at_width(PromptMoments(2, 3, 0.1, prior_rows=np.diag([1.0, 2.0])), MHA, 2)
