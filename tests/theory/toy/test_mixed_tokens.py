"""Tokens that mix x and y: closed forms against exact moments at random sizes, and their limits."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.prompts.moments import PromptMoments
from theory.toy.mixed_tokens import (
    best_of_one_head,
    best_square,
    mixed_entries,
    mixed_head,
    mixed_tokens,
    of_one_head,
)


@st.composite
def sizes(draw):
    d = draw(st.integers(1, 4))
    return d, draw(st.integers(d, 2 * d)), draw(st.integers(1, 9)), draw(st.floats(0, 2))


@settings(max_examples=30)
@given(size=sizes(), eta=st.floats(0.1, 2), beta=st.floats(0.1, 1), root=st.sampled_from([0.0, 1.0, 2.0]))
def test_one_head_explains_the_closed_form(size, eta, beta, root):
    d, width, n, sigma = size
    for constant in (False, True):
        moments = PromptMoments(d, n, sigma, centred=constant)
        tokens, (readout, keys) = mixed_tokens(d, width, eta, root), mixed_head(d, n, sigma, width, eta, beta)
        terms = [(readout @ t, t.T @ keys) for t in tokens]
        meets = sum(np.trace(right.T @ moments.target_right(left.T)) for left, right in terms)
        power = sum(np.trace(l2.T @ l1 @ moments.sandwich(r1 @ r2.T)) for l1, r1 in terms for l2, r2 in terms)
        rho = n / (n + d + 1 + sigma**2)
        entries = of_one_head(d, n, sigma, width, beta, square=eta**2, tau=root**2, constant=constant)
        assert 2 * meets - power == pytest.approx(rho * entries, rel=1e-9, abs=1e-9)


@given(size=sizes(), tau=st.sampled_from([0.0, 4.0]), constant=st.booleans())
def test_one_head_explains_no_more_than_many_and_none_more_than_all(size, tau, constant):
    d, width, n, sigma = size
    square = best_square(d, n, sigma, tau)
    for scale in (0.5, 1, 2):
        how = {"square": square * scale, "tau": tau, "constant": constant}
        many = mixed_entries(d, n, sigma, width, **how)
        assert max(of_one_head(d, n, sigma, width, beta / 20, **how) for beta in range(1, 25)) <= many + 1e-9
        assert 0 <= many <= min(d * d, width * (width + 1) / 2) + 1e-9
        assert many <= mixed_entries(d, n, sigma, width, **{**how, "constant": True}) + 1e-9


@settings(max_examples=20)
@given(size=sizes())
def test_the_search_ends_no_lower_than_a_grid(size):
    d, width, n, sigma = size
    grid = max(
        of_one_head(d, n, sigma, width, beta / 20, square=best_square(d, n, sigma) * scale)
        for beta in range(1, 21)
        for scale in (0.25, 0.5, 1, 2, 4)
    )
    assert best_of_one_head(d, n, sigma, width) >= grid - 1e-6


def test_an_assumed_copy_s_bound_falls():
    assert mixed_entries(1, 4, 0.1, 1, tau=4) > 0
    assert mixed_entries(3, 50, 0.1, 3, tau=4, constant=True) > 9 // 4


def test_exact_numbers_stay_exact():
    for width in (2, 3, 4):
        assert isinstance(mixed_entries(2, 3, Fraction(1, 2), width, square=Fraction(1, 9)), int | Fraction)


@pytest.mark.parametrize("width", [1, 5])
def test_widths(width):
    with pytest.raises(InvalidSize):
        mixed_entries(2, 3, 0.1, width)
