"""The theorem for other laws of the inputs: weights in fractions, bounds at random, and enumeration."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.laws import LAWS, LIKE_NORMAL, SIGNS, SKEW, SPIKED, excess, grid
from tests.theory.skipv1.w0_tools import check_random_weights
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import ORDINARY, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import unattained_witness
from theory.skipv1.non_gaussian import (
    fourth_moments,
    largest_explained,
    non_gaussian_loss_gap,
    non_gaussian_mha_excess,
    non_gaussian_mha_weights,
    non_gaussian_skipv1_explained,
    non_gaussian_skipv1_weights,
    signal_shares,
    signs_mha_weights,
)
from theory.toy.population import PopulationLoss

SIGMA = Fraction(1, 2)


@settings(max_examples=12)
@given(st.integers(1, 3), st.integers(1, 9), st.data())
def test_weights_have_the_stated_losses(d, n, data):
    """In fractions, by the moments of `PromptMoments`, for unequal kurtoses."""
    kurtosis = sorted(data.draw(st.lists(st.sampled_from([excess(law) for law in LAWS]), min_size=d, max_size=d)))
    rank, beta = data.draw(st.integers(0, d)), Fraction(3)
    moments = PromptMoments(d, n, SIGMA, kurtosis=np.array(kurtosis, dtype=object))
    gap = non_gaussian_loss_gap(fourth_moments(kurtosis), n, SIGMA, rank)
    optimal = non_gaussian_skipv1_weights(kurtosis, n, SIGMA, rank)
    assert PopulationLoss(moments, SKIPV1).value(optimal) == gap.skipv1
    approaching = non_gaussian_mha_weights(kurtosis, n, SIGMA, rank, beta)
    excess_loss = non_gaussian_mha_excess(kurtosis, n, SIGMA, rank, beta)
    assert PopulationLoss(moments, (ORDINARY,)).value(approaching) == gap.mha + excess_loss


@given(st.integers(1, 6), st.integers(1, 30), st.sampled_from([0.0, 0.3, 4.0]), st.data())
def test_normal_inputs_are_those_of_the_theorem(d, n, sigma, data):
    rank = data.draw(st.integers(0, d))
    normal, gap = skipv1.loss_gap(d, n, sigma, rank), non_gaussian_loss_gap((d + 2,) * d, n, sigma, rank)
    for name in ("mha", "skipv1", "gap", "gap_to_optimum", "gap_of_optima"):
        assert getattr(gap, name) == pytest.approx(getattr(normal, name), rel=1e-12, abs=1e-12 * normal.mha), name


@given(st.integers(1, 4), st.lists(st.sampled_from([excess(law) for law in LAWS]), min_size=1, max_size=4), st.data())
def test_no_weights_pass_the_bounds(count, kurtosis, data):
    d, n, sigma = len(kurtosis), data.draw(st.integers(1, 9)), 0.5
    rank = data.draw(st.integers(0, d))
    gap = non_gaussian_loss_gap(fourth_moments(kurtosis), n, sigma, rank)
    moments = PromptMoments(d, n, sigma, kurtosis=np.array([float(k) for k in kurtosis]))
    check_random_weights(gap, moments, rank, count=count, seed=data.draw(st.integers(0, 99)))


def test_dependent_entries_on_a_sphere():
    """x = +-2 e_j at d = 4: |x|^2 = 4 always, so C = 4 I, as for signs; every prompt of two inputs."""
    d, n, sigma = 4, 2, Fraction(1, 2)
    inputs = [s * 2 * np.eye(d, dtype=object)[:, j] for s in (1, -1) for j in range(d)]
    step, second = signal_shares((d,) * d, n, sigma)[0] / n, 0
    loss = Fraction(0)
    for x in product(inputs, repeat=n):
        s = sum(np.outer(v, v) for v in x)
        second = second + s @ s
        off = step * s - np.eye(d, dtype=object)  # given x, W* and the noise have unit and sigma^2 variances
        loss += d * (off * off).sum() + d * sigma**2 * step**2 * s.trace()
    count = len(inputs) ** n
    assert (second == np.eye(d, dtype=object) * count * n * (n + d - 1)).all()
    assert loss / count + d * sigma**2 == non_gaussian_loss_gap((d,) * d, n, sigma, d).skipv1
    assert d**2 - loss / count == largest_explained(d, n, sigma)


@given(st.integers(1, 4), st.integers(1, 9), st.sampled_from([0.0, 0.5]), st.integers(0, 999))
def test_no_law_explains_more_than_one_on_a_sphere(d, n, sigma, seed):
    """Random finite laws, whitened; on the sphere, with equality."""
    rng = np.random.default_rng(seed)
    for on_sphere in (False, True):
        x, p = rng.standard_normal((d, 2 * d)), rng.dirichlet(np.ones(2 * d))
        x = np.sqrt(d) * np.linalg.qr(x)[0] if on_sphere else x
        p = np.full(d, 1 / d) if on_sphere else p
        values, vectors = np.linalg.eigh((x * p) @ x.T)
        x = (vectors / np.sqrt(values)) @ vectors.T @ x
        fourth = np.linalg.eigvalsh((x * p * (x**2).sum(axis=0)) @ x.T)
        explained = non_gaussian_skipv1_explained(list(fourth), n, sigma, d)
        most = largest_explained(d, n, sigma)
        assert explained <= most * (1 + 1e-9)
        assert not on_sphere or explained == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_span_of_inputs(d):
    """The x x^T span all symmetric matrices if and only if at most one entry is a sign."""
    for signs in range(d + 1):
        laws = [SIGNS] * signs + [(SKEW, SPIKED, LIKE_NORMAL)[i % 3] for i in range(d - signs)]
        xi, _ = grid(laws, object)
        rank = sympy.Matrix([np.outer(x, x).ravel() for x in np.unique(xi.astype(float), axis=0)]).rank()
        full = d * (d + 1) // 2
        assert rank == (full if signs <= 1 else full - signs + 1)


def test_the_witness_needs_more_than_signs():
    """The general proof's S has no constant diagonal where A_1 is regular and A_2 != 0."""
    s = unattained_witness(np.array([[1.0, 0.0, 1.0], [0.0, -1.0, 1.0]]))
    assert s[2, 2] != s[0, 0] == 0


def test_bad_input_is_refused():
    with pytest.raises(BadInput, match="at least -2"):
        fourth_moments((-3, 0))
    with pytest.raises(BadInput, match="at least 4"):
        signal_shares((1.0, 2.0), 3, 0.1)
    with pytest.raises(BadInput, match="first 1 entries must be those of least kurtosis"):
        non_gaussian_skipv1_weights((1, 0), 3, 0.1, 1)
    with pytest.raises(InvalidSize, match="from d = 3 on, got 2"):
        signs_mha_weights(2, 3, 0.1)
    with pytest.raises(InvalidSize, match="rank must be"):
        non_gaussian_loss_gap((4, 4), 3, 0.1, 3)
