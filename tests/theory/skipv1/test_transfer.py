"""Covariances at every width: against the general theorem at m = d, and the map that is stated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput, InvalidSize
from theory.plans.heads import MHA, SKIPV1, Head
from theory.prompts.moments import PromptMoments
from theory.prompts.shifts import loss_elsewhere
from theory.skipv1.general import general_mha_explained, general_skipv1_explained
from theory.skipv1.transfer import best_division, explained_at_width, trained_columns


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
