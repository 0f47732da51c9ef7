"""Sums of few products against a constant: the loss against pairings and sampling, the floor, the families."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from tests.theory.skipv1.w0_tools import decomposed, exact, orthogonal, whole_numbers
from theory.errors import InvalidSize
from theory.prompts.isserlis import PromptEngine
from theory.prompts.wishart import wishart_sandwich
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


def test_loss_against_sampling():
    d, n, terms, samples = 3, 2, 2, 200_000
    rng = np.random.default_rng(3)
    left, right, target = rng.standard_normal((terms, d, d)), rng.standard_normal((terms, d, d)), np.eye(d)
    x = rng.standard_normal((samples, d, n))
    s = x @ x.swapaxes(1, 2)
    losses = ((sum(lhs @ s @ rhs for lhs, rhs in zip(left, right, strict=True)) - target) ** 2).sum((1, 2))
    assert abs(losses.mean() - terms_loss(left, right, n, target)) < 5 * losses.std() / samples**0.5


@given(st.data(), st.integers(1, 4), st.integers(0, 5), st.sampled_from([1, 2, 3, 10]))
def test_nothing_undercuts_the_floor(data, d, terms, n):
    """Random whole-number terms, each family with its best scale: the loss is a parabola in it.  In fractions."""
    u, s, v = data.draw(decomposed(d))
    target = u @ np.diag(s) @ v.T
    left, right = whole_numbers(data.draw, terms, d, d), whole_numbers(data.draw, terms, d, d)
    none, once, twice = (terms_loss(scale * left, right, n, target) for scale in (0, 1, 2))
    curvature = twice - 2 * once + none  # of a parabola through 0, 1, 2
    slope = once - none - curvature / 2
    best = none - slope**2 / (2 * curvature) if curvature else none
    floor = term_floor(s**2, n, terms)
    assert none == sum(s**2)
    assert best >= floor
    assert terms or best == floor


def lowest_loss(target, n, terms, starts, seed=0):
    """Descent in the N_r, the L_r solved for: what sums of so many terms reach."""
    d, rng, ends = len(target), np.random.default_rng(seed), []

    def objective(flat):
        right = flat.reshape(terms, d, d)
        gram = wishart_sandwich(right[:, None] @ right.swapaxes(1, 2)[None], np.eye(d), n)  # E[S N_r N_s^T S]
        gram = gram.transpose(0, 2, 1, 3).reshape(terms * d, terms * d)
        cross = n * np.concatenate([target @ block.T for block in right], axis=1)
        solved = cross @ np.linalg.pinv(gram, rcond=1e-12, hermitian=True)
        left = solved.reshape(d, terms, d).transpose(1, 0, 2)
        inner = wishart_sandwich(left.swapaxes(1, 2)[:, None] @ left[None], np.eye(d), n)
        gradient = 2 * (np.einsum("rsij,sjk->rik", inner, right) - n * left.swapaxes(1, 2) @ target)
        return float((target**2).sum() - (solved * cross).sum()), gradient.ravel()

    for _ in range(starts):
        start = rng.standard_normal(terms * d * d)
        ends.append(minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).fun)
    return min(ends)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize("terms", [1, 2, 3, 4])
def test_descent_meets_the_floor_just_where_there_are_families(d, terms):
    """Around I: all but (3, 2), (3, 3) and d = 5 with more than one; (3, 4) is a part of the quaternions."""
    lowest = lowest_loss(np.eye(d), 2, terms, starts=6)
    floor = float(term_floor([Fraction(1)] * d, 2, terms))
    assert lowest >= floor * (1 - 1e-9)
    assert (lowest <= floor * (1 + 1e-6)) == (terms == 1 or d in (2, 4) or (d, terms) == (3, 4))


def test_the_floor_around_the_identity_is_lemma_1_s_elsewhere():
    for d in range(1, 8):
        for terms in range(d + 3):
            lemma_1 = term_floor([Fraction(1)] * d, 3, terms)
            assert (identity_floor(d, 3, terms) > lemma_1) == (terms == d and d in (3, 5, 7))
            assert identity_floor(d, 3, terms) >= lemma_1


@pytest.mark.parametrize(("d", "n"), [(3, 1), (3, 2), (3, 9), (5, 2)])
def test_lemma_3_is_about_products_and_not_about_rank(d, n):
    """tr(S) I has rank d, as sums of d products have, and loses less than any of these: it is a sum of more.  Exact."""
    units, eye = exact(np.eye(d * d, dtype=int).reshape(-1, d, d)), exact(np.eye(d, dtype=int))
    trace = terms_loss(units / (n * d + 2), units.swapaxes(1, 2), n, eye)
    assert trace == term_floor([Fraction(1)] * d, n, d) == Fraction(2 * d, n * d + 2)
    assert trace < identity_floor(d, n, d) == Fraction(7 * d, (3 * d - 1) * n + 7)
    assert trace >= identity_floor(d, n, d + 1)


@given(st.data(), st.sampled_from([(3, 1), (3, 2), (3, 3), (5, 5)]), st.sampled_from([1, 2, 9]))
def test_products_do_not_undercut_the_floor_around_the_identity(data, size, n):
    """Random whole-number sums, or these beside parts of the best sum that is known, at their best scale.  Exact."""
    d, terms = size
    left, right = whole_numbers(data.draw, terms, d, d), whole_numbers(data.draw, terms, d, d)
    if data.draw(st.booleans()):
        family = exact(quaternions(d)[:terms])
        left[: len(family)], right[: len(family)] = family, family.swapaxes(1, 2)
    none, once, twice = (terms_loss(scale * left, right, n, np.eye(d, dtype=int)) for scale in (0, 1, 2))
    curvature = twice - 2 * once + none
    slope = once - none - curvature / 2
    assert none - (slope**2 / (2 * curvature) if curvature else 0) >= identity_floor(d, n, terms)


@given(st.data())
def test_two_pencils_on_a_circle(data):
    """The heart of Lemma 3 at d = 3, in fractions: E ||phi||^2 >= 3/8 (E tr phi)^2 for a product of two pencils."""
    one, two, three, four = (whole_numbers(data.draw, 3, 3) for _ in range(4))
    cc, ss, cs = one @ three, two @ four, one @ four + two @ three  # phi = cc cos^2 + ss sin^2 + cs cos sin
    mean, wave = (cc + ss) / 2, (cc - ss) / 2
    power = (mean**2).sum() + ((wave**2).sum() + (cs**2).sum() / 4) / 2
    assert power >= Fraction(3, 8) * np.trace(mean) ** 2


def test_floor_of_a_trace():
    """With many terms the floor is what W0 tr(S) / (nd + 2) loses; a matrix unit sum makes that trace."""
    d, n = 3, 4
    units = exact(np.eye(d * d, dtype=int).reshape(-1, d, d))
    w0 = exact(np.array([[1, 2, 0], [0, 0, 3], [0, 0, 0]]))
    left = np.array([w0 @ e / (n * d + 2) for e in units])
    loss = terms_loss(left, units.swapaxes(1, 2), n, w0)
    assert loss == term_floor([9, 5, 0], n, d * d) == term_floor([9, 5, 0], n, 2)
    assert term_floor([9, 5, 0], n, 1) > loss


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


@pytest.mark.parametrize("d", range(1, 14))
def test_quaternion_families(d):
    """Each row is as the module says, and the floor of four terms attained for d = 1, 2 and d divisible by 4 only."""
    family, rest = quaternions(d), d % 4
    assert (family.swapaxes(1, 2) @ family == np.eye(d)).all()
    last = {0: [], 1: [d + 7], 2: [d + 2] * 2, 3: [d + 3] * 2 + [d + 9]}[rest]
    assert list(4 * spreads(family)) == [d - 2] * (d - rest) + last
    loss = family_loss(family, 2, Fraction(1))
    floor = term_floor([Fraction(1)] * d, 2, 4)
    assert (loss == floor) == (rest == 0 or d <= 2)
    assert loss >= floor
    left, eye = family_scale(family, 2, Fraction(1))[:, None] * family, np.eye(d, dtype=int)
    assert loss == terms_loss(left, family.swapaxes(1, 2), 2, eye)


@settings(max_examples=15)
@given(st.integers(1, 6))
def test_sums_over_quaternions_are_traces(blocks):
    """sum_r O_r S O_r^T = tr(S) I within each four coordinates."""
    d = 4 * blocks
    rng = np.random.default_rng(blocks)
    s = rng.integers(-5, 6, (d, d))
    s = s + s.T
    total = sum(o @ s @ o.T for o in quaternions(d))
    for at in range(0, d, 4):
        part = slice(at, at + 4)
        assert (total[part, part] == np.trace(s[part, part]) * np.eye(4)).all()


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
