"""A gate in the first layer of the in-context toy: what is exact of it, and sizes that make no sense."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.dva.first_layer import best_scale, bounds, explained_by_squares, gated_tokens, loss_of_products
from theory.errors import BadInput
from theory.plans.setting import Setting

fractions = st.fractions(-3, 3, max_denominator=7)


@given(st.integers(1, 6), fractions.map(abs), fractions)
def test_squares_explain_a_share_whatever_the_sign_of_alpha(n, sigma, alpha):
    found = explained_by_squares(n, sigma, alpha)
    assert isinstance(found, Fraction | int)
    assert 0 <= found < Setting(1, n, sigma).signal_share
    assert found == explained_by_squares(n, sigma, -alpha)
    assert (found == 0) == (alpha == 0)


@given(st.integers(1, 5), st.integers(1, 9), fractions.map(abs), fractions)
def test_the_least_loss_is_where_it_is_said_to_be(d, n, sigma, scale):
    setting = Setting(d, n, sigma)
    assert loss_of_products(setting, scale) >= loss_of_products(setting, best_scale(setting))
    assert setting.zero_loss - loss_of_products(setting, best_scale(setting)) == d * setting.signal_share


def test_the_numbers_of_the_derivation():
    alphas = np.linspace(0.3, 0.5, 21)
    shares = [explained_by_squares(8, 0.5, alpha) for alpha in alphas]
    assert alphas[int(np.argmax(shares))] == pytest.approx(0.40, abs=0.006)
    assert max(shares) == pytest.approx(0.130, abs=5e-4)
    assert Setting(1, 8, 0.5).signal_share == pytest.approx(0.780, abs=5e-4)
    wins = {(d, rank) for d in range(1, 7) for rank in range(d + 1) if bounds(d, rank)[0] > rank * (d - rank)}
    assert wins == {(d, rank) for d in range(1, 7) for rank in range(d + 1) if d <= 3 or rank in (0, 1, d - 1, d)}


def test_tokens_are_copies_and_products():
    x, y = np.array([[2.0], [3.0]]), np.array([[5.0], [7.0]])
    copies = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    key = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert gated_tokens(x, y, *copies, np.eye(2), key).tolist() == [[2 + 5 * 3], [7 + 7 * 2]]


@pytest.mark.parametrize(
    "call", [lambda: bounds(0, 0), lambda: bounds(2, 3), lambda: bounds(2, -1), lambda: explained_by_squares(0, 0.5, 1)]
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()
