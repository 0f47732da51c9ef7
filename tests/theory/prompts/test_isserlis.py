"""The pairing engines against facts that need no pairing."""

from math import prod

import numpy as np
import pytest
from sympy import expand, symbols

from theory.prompts.isserlis import PromptEngine, gaussian_trace, pairings

d, n = symbols("d n")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 6, 8])
def test_number_of_pairings_is_a_double_factorial(size):
    result = pairings(size)
    assert len(set(result)) == len(result) == (prod(range(size - 1, 0, -2)) if size % 2 == 0 else 0)
    for pairing in result:
        assert sorted(i for pair in pairing for i in pair) == list(range(size))


def test_powers_of_a_wishart_matrix():
    """E tr W, W^2, W^3 for W = X X^T: the last two are standard (Letac and Massam 2004)."""
    assert gaussian_trace("X X'") == n * d
    assert expand(gaussian_trace("X X' X X'") - n * d * (n + d + 1)) == 0
    assert expand(gaussian_trace("X X' X X' X X'") - n * d * (n**2 + d**2 + 3 * n * d + 3 * n + 3 * d + 4)) == 0


def test_odd_words_have_no_mean_and_shapes_must_chain():
    assert gaussian_trace("D") == 0
    assert gaussian_trace("D X X'") == 0
    with pytest.raises(ValueError, match="do not chain"):
        gaussian_trace("X X")


def test_product_of_traces_is_not_a_trace_of_products():
    assert expand(gaussian_trace("X X'", "X X'") - (n * d) ** 2 - 2 * n * d) == 0


def test_entries_agree_with_traces():
    """E ||S_yx||^2 at W0 = 0, entry by entry at d = 2, and by words in d."""
    engine = PromptEngine(2)
    total = sum(engine.expect(("yx", i, j), ("yx", i, j)) for i in range(2) for j in range(2))
    words = gaussian_trace("D X X' X X' D'").subs(d, 2)
    at_zero = total.evaluate([(g, 0) for row in engine.w0 for g in row]).as_expr()
    sigma = symbols("sigma")
    assert expand(at_zero - words - sigma**2 * gaussian_trace("N X' X N'").subs(d, 2)) == 0


def test_scalar_case_by_quadrature():
    """d = 1: E[S_yy S_xx] = E over W* of n^2 (w^2 + sigma^2) + 2 n w^2, w ~ N(w0, 1)."""
    engine = PromptEngine(1)
    mean = engine.expect(("yy", 0, 0), ("xx", 0, 0))
    count, sigma, w0 = engine.n, engine.sigma, engine.w0[0][0]
    assert mean == count**2 * (w0**2 + 1 + sigma**2) + 2 * count * (w0**2 + 1)


def test_moments_of_w_alone():
    engine = PromptEngine(1)
    w0 = engine.w0[0][0]
    assert engine.expect(("w", 0, 0), ("w", 0, 0)) == w0**2 + 1
    assert engine.expect(*[("d", 0, 0)] * 4) == 3
    assert engine.expect() == 1


def test_four_factors_against_sampling():
    """A moment of order eight in the raw variables, within five standard errors."""
    engine = PromptEngine(2)
    factors = (("yy", 0, 1), ("yx", 1, 0), ("xx", 0, 1), ("w", 1, 1))
    values = {"n": 3, "sigma": 0.5, "w_00": 0.5, "w_01": -1.0, "w_10": 0.25, "w_11": 2.0}
    exact = float(engine.expect(*factors).as_expr().subs(values))
    rng = np.random.default_rng(0)
    w = np.array([[0.5, -1.0], [0.25, 2.0]]) + rng.standard_normal((400_000, 2, 2))
    x, e = rng.standard_normal((2, 400_000, 2, 3))
    y = w @ x + 0.5 * e
    yy, yx, xx = y @ y.swapaxes(1, 2), y @ x.swapaxes(1, 2), x @ x.swapaxes(1, 2)
    sample = yy[:, 0, 1] * yx[:, 1, 0] * xx[:, 0, 1] * w[:, 1, 1]
    assert abs(sample.mean() - exact) < 5 * sample.std() / len(sample) ** 0.5
