"""Trained steps on other tasks: closed forms against the general loss, and what needs no formula."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.prompts.moments import PromptMoments
from theory.prompts.preconditioned import after_step
from theory.prompts.setting import signal_share
from theory.prompts.shifts import learned_step, loss_elsewhere, on_average, share_elsewhere

SIGMAS = st.floats(0, 3)


@given(d=st.integers(1, 6), n=st.integers(1, 40), sigma=SIGMAS)
def test_where_it_was_trained_a_step_explains_rho(d, n, sigma):
    step = learned_step(d, n, sigma)
    assert share_elsewhere(d, n, sigma, step) == pytest.approx(signal_share(d, n, sigma))
    assert share_elsewhere(d, n, sigma, step) >= share_elsewhere(d, n, sigma, 1.1 * step)
    assert learned_step(d, n, sigma, test_n=n) == pytest.approx(step)


@given(d=st.integers(1, 4), n=st.integers(1, 6), seed=st.integers(0, 99))
def test_all_outputs_are_a_preconditioned_step(d, n, seed):
    rng = np.random.default_rng(seed)
    factor, columns = rng.standard_normal((2, d, d))
    moments = PromptMoments(d, n, 0.5, rng.standard_normal((d, d)), covariance=factor @ factor.T + (0 * np.eye(d)))
    assert loss_elsewhere(moments, np.eye(d), columns) == pytest.approx(after_step(moments, columns))


def test_the_sphere_is_a_kurtosis_of_minus_two_only_where_nothing_has_a_direction():
    d, n, step = 3, 5, Fraction(1, 9)
    zero = np.full((d, d), Fraction(0), dtype=object)
    eye = np.diag([Fraction(1)] * d).astype(object)
    columns = step * np.diag([Fraction(1), 0, 0]).astype(object)
    signs = np.array([Fraction(-2)] * d, dtype=object)
    for w0, same in ((zero, True), (np.diag([Fraction(3), 0, 0]).astype(object) + zero, False)):
        sphere = loss_elsewhere(PromptMoments(d, n, Fraction(1), w0), eye, columns, sphere=True)
        independent = loss_elsewhere(PromptMoments(d, n, Fraction(1), w0, kurtosis=signs), eye, columns)
        assert (sphere == independent) is same


def test_bad_input():
    with pytest.raises(BadInput, match="sphere"):
        loss_elsewhere(PromptMoments(2, 3, 0.1, kurtosis=np.zeros(2)), np.eye(2), np.eye(2), sphere=True)
    with pytest.raises(BadInput, match="kurtosis"):
        share_elsewhere(2, 3, 0.1, 0.1, kurtosis=-3)
    with pytest.raises(InvalidSize, match="entries"):
        share_elsewhere(2, 3, 0.1, 0.1, entries=5)
    with pytest.raises(InvalidSize, match="rank"):
        on_average(PromptMoments(2, 3, 0.1), 0.1, 3, 1)
    with pytest.raises(InvalidSize):
        learned_step(2, 3, 0.1, test_n=0)
