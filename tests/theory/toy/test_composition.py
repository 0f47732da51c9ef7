"""How many products read a trace: families in whole numbers, the floor against random products and descents."""

from fractions import Fraction
from math import comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import exact, whole_numbers
from theory.errors import InvalidSize
from theory.toy.composition import (
    composition,
    composition_count,
    composition_excess,
    composition_floor,
    hurwitz_radon,
    least_products,
    radon_number,
)
from theory.toy.few_terms import identity_floor, terms_loss


@given(st.integers(1, 3000))
def test_counts(d):
    """Stiefel's condition by binomial coefficients where they are small; 2^k for d <= 9, and o(d^2)."""
    least, count = least_products(d), composition_count(d)
    assert d <= least < 2 * d
    assert least & (least - 1) == 0
    assert least <= count
    if d <= 9:
        assert count == least
    if d > 1:
        assert count < d**2 / log2(d) + 2 * d
    if d <= 60:
        assert least == next(r for r in range(d, 2 * d) if all(comb(r, i) % 2 == 0 for i in range(r - d + 1, d)))


@given(st.data(), st.integers(1, 4), st.sampled_from([1, 2, 5]))
def test_too_few_products_stay_above_the_floor(data, d, n):
    """Random whole-number products with their best scale, and compositions with products left out: in fractions."""
    products = data.draw(st.integers(0, least_products(d) - 1))
    eye = exact(np.eye(d, dtype=int))
    left, right = (whole_numbers(data.draw, products, d, d) for _ in range(2))
    assert best_scaled(left, right, n, eye) >= composition_floor(d, n, products)
    part = exact(composition(d)[:products])
    assert best_scaled(part, part.swapaxes(1, 2), n, eye) >= composition_floor(d, n, products)
    whole = exact(composition(d))
    assert best_scaled(whole, whole.swapaxes(1, 2), n, eye) == composition_floor(d, n, len(whole))


def best_scaled(left, right, n, target):
    none, once, twice = (terms_loss(scale * left, right, n, target) for scale in (0, 1, 2))
    curvature = twice - 2 * once + none
    slope = once - none - curvature / 2
    return none - slope**2 / (2 * curvature) if curvature else none


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 80))
def test_floor_is_the_larger_of_two(d, n, products):
    floor, best = composition_floor(d, n, products), Fraction(2 * d, n * d + 2)
    assert floor >= identity_floor(d, n, products)
    assert (floor == best) == (products >= least_products(d))
    assert floor >= best + composition_excess(d, n) or products >= least_products(d)


def test_impossible_sizes():
    for size in (0, -1, 1.5, True):
        for function in (least_products, radon_number, hurwitz_radon, composition, composition_count):
            with pytest.raises(InvalidSize):
                function(size)
    with pytest.raises(InvalidSize, match="GB of memory"):
        composition(10**4)
    with pytest.raises(InvalidSize):
        composition_excess(2, 0)
    with pytest.raises(InvalidSize):
        composition_floor(2, 1, -1)
