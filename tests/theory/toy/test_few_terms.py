"""Sums of few products against a constant: the loss against pairings, floors, families, and how many read a trace."""

from fractions import Fraction
from math import comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import decomposed, exact, orthogonal, whole_numbers
from theory.errors import InvalidSize
from theory.prompts.isserlis import PromptEngine
from theory.toy.composition import (
    composition,
    composition_count,
    composition_excess,
    composition_floor,
    hurwitz_radon,
    least_products,
    radon_number,
)
from theory.toy.few_terms import (
    cyclic,
    family_loss,
    family_scale,
    identity_floor,
    quaternions,
    spreads,
    term_floor,
    terms_loss,
)


@pytest.mark.parametrize(("d", "terms"), [(1, 1), (2, 0), (2, 1), (2, 2), (2, 3)])
def test_loss_equals_the_sum_of_all_pairings(d, terms):
    rng = np.random.default_rng(d + 10 * terms)
    left, right = (exact(rng.integers(-3, 4, (terms, d, d))) for _ in range(2))
    target = exact(rng.integers(-3, 4, (d, d)))
    engine = PromptEngine(d)
    cells = [(p, q) for p in range(d) for q in range(d)]
    loss = 0
    for i, j in cells:
        entries = [(sum(left[:, i, p] * right[:, q, j]), ("xx", p, q)) for p, q in cells]
        loss += target[i, j] ** 2 - 2 * sum(c * target[i, j] * engine.expect(s) for c, s in entries)
        loss += sum(c * e * engine.expect(s, t) for c, s in entries for e, t in entries)
    for n in (1, 2, 7):
        assert terms_loss(left, right, n, target) == (loss if not terms else loss.evaluate(engine.n, n))


@given(st.data(), st.integers(1, 4), st.integers(0, 5), st.sampled_from([1, 2, 3, 10]))
def test_nothing_undercuts_the_floor(data, d, terms, n):
    """Random whole-number terms, each family with its best scale: the loss is a parabola in it.  In fractions."""
    u, s, v = data.draw(decomposed(d))
    target = u @ np.diag(s) @ v.T
    left, right = whole_numbers(data.draw, terms, d, d), whole_numbers(data.draw, terms, d, d)
    best, floor = best_scaled(left, right, n, target), term_floor(s**2, n, terms)
    assert terms_loss(0 * left, right, n, target) == sum(s**2)
    assert best >= floor
    assert terms or best == floor


@given(st.data(), st.sampled_from([(3, 1), (3, 2), (3, 3), (5, 5)]), st.sampled_from([1, 2, 9]))
def test_products_do_not_undercut_the_floor_around_the_identity(data, size, n):
    """Random whole-number sums, or these beside parts of the best sum that is known, at their best scale.  Exact."""
    d, terms = size
    left, right = whole_numbers(data.draw, terms, d, d), whole_numbers(data.draw, terms, d, d)
    if data.draw(st.booleans()):
        family = exact(quaternions(d)[:terms])
        left[: len(family)], right[: len(family)] = family, family.swapaxes(1, 2)
    assert best_scaled(left, right, n, np.eye(d, dtype=int)) >= identity_floor(d, n, terms)


@given(st.data())
def test_two_pencils_on_a_circle(data):
    """The heart of Lemma 3 at d = 3, in fractions: E ||phi||^2 >= 3/8 (E tr phi)^2 for a product of two pencils."""
    one, two, three, four = (whole_numbers(data.draw, 3, 3) for _ in range(4))
    cc, ss, cs = one @ three, two @ four, one @ four + two @ three  # phi = cc cos^2 + ss sin^2 + cs cos sin
    mean, wave = (cc + ss) / 2, (cc - ss) / 2
    power = (mean**2).sum() + ((wave**2).sum() + (cs**2).sum() / 4) / 2
    assert power >= Fraction(3, 8) * np.trace(mean) ** 2


def test_floor_of_nothing():
    assert term_floor([0, 0], 3, 2) == 0
    assert term_floor([4, 1], 3, 0) == 5


@given(st.data(), st.integers(1, 4), st.integers(1, 3), st.sampled_from([1, 2, 9]))
def test_family_loss_is_the_loss_with_the_best_diagonal(data, d, count, n):
    family = np.array([data.draw(orthogonal(d)) for _ in range(count)])
    c = Fraction(3, 2)
    scale = family_scale(family, n, c)

    def loss(scale):
        return terms_loss(scale[:, None] * family, family.swapaxes(1, 2), n, c * exact(np.eye(d, dtype=int)))

    best = loss(scale)
    assert best == family_loss(family, n, c)
    for i in range(d):
        for step in (Fraction(-1, 100), Fraction(1, 100)):
            moved = scale.copy()
            moved[i] += step
            assert loss(moved) > best
    assert family_loss(family.astype(float), n, 1.5) == pytest.approx(float(best), rel=1e-12)


@pytest.mark.parametrize(("d", "count"), [(1, 1), (3, 1), (3, 2), (5, 3), (8, 4), (11, 6), (20, 5)])
def test_cyclic_families(d, count):
    family = cyclic(d, count)
    assert (family.swapaxes(1, 2) @ family == np.eye(d)).all()
    assert set(spreads(family)) == {Fraction(d + 1, count)}
    assert family_loss(family, 3, 1) >= term_floor([Fraction(1)] * d, 3, count)


def test_bad_input():
    with pytest.raises(InvalidSize, match="spread evenly for d > 4 only, got d = 4"):
        cyclic(4, 3)
    with pytest.raises(InvalidSize, match="count must be a whole number from 1"):
        cyclic(4, 0)
    with pytest.raises(InvalidSize, match="d must be a whole number from 1"):
        quaternions(0)
    with pytest.raises(InvalidSize, match="terms must be a whole number from 0"):
        term_floor([1], 2, -1)
    with pytest.raises(InvalidSize, match="n must be a whole number from 1"):
        term_floor([1], 0, 1)


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
    """The loss at the best scale, of which it is a parabola."""
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
