"""Spectra before training: bounds that all sizes keep, and the law's own moments; what measures refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.resformer import measures, spectra

SIZES = st.integers(1, 9)


@settings(max_examples=8)
@given(st.integers(1, 80), st.floats(0.01, 2), st.floats(0, 0.1))
def test_a_norm_keeps_at_most_the_width(width, std, eps):
    found = spectra.normed_square(width, std, eps)
    assert 0 <= found <= width * (1 + 1e-6)
    assert spectra.normed_square(width, std, 0.0) == pytest.approx(width, rel=1e-6)


@pytest.mark.parametrize(("tokens", "width", "values"), [(60, 60, 60), (90, 61, 30), (31, 60, 45)])
def test_quantiles_have_the_law_s_mean_and_square_and_its_zeros(tokens, width, values):
    """Of the free product m_1 = 1 and m_2 = 1 + a + b."""
    found = spectra.quantiles(tokens, width, values)
    a, b = width / tokens, width / values
    assert len(found) == width
    assert np.all(np.diff(found) <= 0)
    assert found[0] < spectra.largest(tokens, width, values)
    assert found.mean() == pytest.approx(1, rel=0.01)
    assert (found**2).mean() == pytest.approx(1 + a + b, rel=0.03)
    assert (found == 0).sum() == pytest.approx(max(0, width - tokens, width - values), abs=1)


@given(SIZES, SIZES, SIZES)
def test_the_end_does_not_depend_on_which_matrix_is_which(tokens, width, values):
    assert spectra.largest(tokens, width, values) == pytest.approx(spectra.largest(values, width, tokens))
    assert spectra.largest(tokens, width, values) > max(1, (1 + (width / tokens) ** 0.5) ** 2)


@given(st.integers(1, 40))
def test_attention_to_oneself_has_the_largest_entropy_and_to_one_token_none(tokens):
    assert measures.entropy(measures.token_importance(np.eye(tokens))) == pytest.approx(np.log(tokens))
    one = np.zeros((tokens, tokens))
    one[:, 0] = 1
    assert measures.entropy(measures.token_importance(one)) == 0
