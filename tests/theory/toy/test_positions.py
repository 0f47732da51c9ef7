"""Two layers whose first one sees positions: explicit weights token by token, exact moments, ranks of the bounds."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidSize
from theory.plans.heads import MHA, SKIP, SKIPV1
from theory.prompts.isserlis import PromptEngine, pairings
from theory.prompts.setting import signal_share
from theory.toy.positions import copying_weights, explained_by_rotating, most_entries_with_positions, rotating_weights
from theory.toy.width import most_entries_at_width


def prompt(d, n, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((d, n)), rng.standard_normal((d, n)), rng.standard_normal(d)


def predict(weights, x, y, query):
    """MHA token by token: every token asks every other one, in plain loops."""
    tokens = [column for pair in zip(x.T, y.T, strict=True) for column in pair] + [query]
    read = [weights.read_in @ token for token in tokens]
    last = len(read) - 1
    first = [
        sum(
            bias[s, t] * value @ read[s]
            for bias, value in zip(weights.bias, weights.value, strict=True)
            for s in range(len(read))
            if s < last or t == last
        )
        for t in range(len(read))
    ]
    return sum(
        out @ first[t] * (first[t] @ match @ first[last])
        for out, match in zip(weights.readout, weights.key_query, strict=True)
        for t in range(last)
    )


def anticommuting(d):
    """An orthonormal basis of the symmetric matrices M with J M = -M J, from a null space: (rank, d, d)."""
    j = np.kron(np.array([[0.0, -1.0], [1.0, 0.0]]), np.eye(d // 2))
    eye = np.eye(d)
    transpose = np.array(
        [[float(a == s and b == r) for r in range(d) for s in range(d)] for a in range(d) for b in range(d)]
    )
    equations = np.concatenate([np.kron(j, eye) + np.kron(eye, j.T), transpose - np.eye(d * d)])
    _, singular, vt = np.linalg.svd(equations)
    return vt[(singular < 1e-9).argmax() if (singular < 1e-9).any() else len(singular) :].reshape(-1, d, d)


@given(half=st.integers(1, 3), n=st.integers(1, 6), seed=st.integers(0, 99))
def test_rotating_mha_predicts_by_the_projection_of_s_yx(half, n, seed):
    d, sigma = 2 * half, 0.5
    basis = anticommuting(d)
    assert len(basis) == d**2 // 4 + d // 2
    x, y, query = prompt(d, n, seed)
    s_yx = y @ x.T
    projected = np.einsum("k,kij->ij", np.einsum("kij,ij->k", basis, s_yx), basis)
    expected = signal_share(d, n, sigma) / n * projected @ query
    prediction = predict(rotating_weights(d, n, sigma), x, y, query)
    size = (np.sum(x**2) + np.sum(y**2)) * np.linalg.norm(query)
    np.testing.assert_allclose(prediction, expected, rtol=0, atol=1e-14 * d * n * (1 + size))


@given(d=st.integers(1, 4), n=st.integers(1, 5), extra=st.integers(0, 4), seed=st.integers(0, 99))
def test_copying_mha_predicts_by_a_block_of_s_yx(d, n, extra, seed):
    width, sigma = d + min(extra, d), 0.5
    x, y, query = prompt(d, n, seed)
    block = y @ x.T
    upper = width // 2
    block[:, upper:] = 0
    block[: d - (width - upper)] = 0
    expected = signal_share(d, n, sigma) / n * block @ query
    prediction = predict(copying_weights(d, n, sigma, width), x, y, query)
    np.testing.assert_allclose(prediction, expected, rtol=0, atol=1e-14 * (1 + np.abs(block).sum()) * d * n)


def test_what_the_projection_explains_is_exact_at_d_2():
    """E [2 <P, W*> - |P|^2] for P = lambda Pi S_yx by pairing, at rational n and sigma: rho times the rank, 2."""
    engine = PromptEngine(2)
    n, sigma = 5, Fraction(1, 3)
    basis = [((0, 0, 1), (1, 1, -1)), ((0, 1, 1), (1, 0, 1))]  # diag(1, -1) and the swap, each of norm sqrt 2
    meets = power = engine.ring.zero
    for element in basis:
        for (*one, a), (*other, b) in product(element, repeat=2):
            meets += a * b * engine.expect(("yx", *one), ("w", *other))
            power += a * b * engine.expect(("yx", *one), ("yx", *other))
    at = {str(engine.n): n, str(engine.sigma): sympy.Rational(1, 3), **{f"w_{i}{j}": 0 for i in (0, 1) for j in (0, 1)}}
    step = signal_share(2, n, sigma) / n
    value = [Fraction(str(p.as_expr().subs(at))) / 2 for p in (meets, power)]
    explained = explained_by_rotating(2, n, sigma)
    assert 2 * step * value[0] - step**2 * value[1] == explained == 2 * signal_share(2, n, sigma)


def gaussian_mean(polynomial, symbols):
    """E of a polynomial in independent standard normal symbols."""
    terms = sympy.Poly(polynomial, *symbols).terms()
    return sum(c * prod(0 if k % 2 else len(pairings(k)) for k in powers) for powers, c in terms)


@pytest.mark.parametrize(("s", "r"), [(0, 1), (1, 0), (0, 0)])
def test_the_rest_of_the_signal_is_uncorrelated_with_every_pair(s, r):
    """Step (3): W* - lambda S_yx against y_s x_r^T, d = n = 2, exactly; a step size of 1/n is rejected at s = r."""
    d = n = 2
    sigma = sympy.Rational(1, 2)
    w, x, e = (sympy.symbols(f"{name}(:2)(:2)") for name in "wxe")
    symbols = (*w, *x, *e)
    w, x, e = (sympy.Matrix(2, 2, entries) for entries in (w, x, e))
    y = w * x + sigma * e
    s_yx = y * x.T
    rho = sympy.Rational(n, 1) / (n + d + 1 + sigma**2)
    for i, j, row, column in [(0, 1, 0, 1), (0, 0, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1)]:
        pair = y[row, s] * x[column, r]
        assert gaussian_mean(sympy.expand((w[i, j] - rho / n * s_yx[i, j]) * pair), symbols) == 0
        if s == r and (i, j) == (row, column):
            assert gaussian_mean(sympy.expand((w[i, j] - s_yx[i, j] / n) * pair), symbols) != 0


def rank_of_what_layer_2_sees(d, n, width, skip, seed):
    """The rank of (y_s x_r^T)_sr -> the odd part of G, random first layers: sum_t f_t f_t^T, or sum_t e_t f_t^T."""
    rng = np.random.default_rng(seed)
    of_x, of_y = rng.standard_normal((2, n, 2 * n, width, d))  # from pair s to token t
    raw_x, raw_y = (np.zeros((n, 2 * n, d, d)) for _ in range(2))
    for s in range(n):
        raw_x[s, 2 * s] = raw_y[s, 2 * s + 1] = np.eye(d)
    images = []
    for s, r, i, j in product(range(n), range(n), range(d), range(d)):
        left, right = (raw_y, of_x) if skip else (of_y, of_x)
        half = sum(np.outer(left[s, t, :, i], right[r, t, :, j]) for t in range(2 * n))
        other = sum(np.outer(raw_x[r, t, :, j], of_y[s, t, :, i]) for t in range(2 * n)) if skip else half.T
        images.append((half + other).ravel())
    return np.linalg.matrix_rank(np.array(images))


@given(d=st.integers(1, 3), extra=st.integers(0, 2), seed=st.integers(0, 20))
def test_an_ordinary_head_sees_a_symmetric_matrix_and_a_skip_head_does_not(d, extra, seed):
    """Step (4): m (m+1)/2 numbers with enough pairs, and never more; a skip head's d m are not bounded by it."""
    width = d + extra
    n = 4
    assert rank_of_what_layer_2_sees(d, n, width, False, seed) == min(width * (width + 1) // 2, n * n * d * d)
    assert rank_of_what_layer_2_sees(d, n, width, True, seed) == d * width
    assert rank_of_what_layer_2_sees(d, 1, width, False, seed) <= min(width * (width + 1) // 2, d * d)


@given(d=st.integers(1, 10), extra=st.integers(0, 12))
def test_no_construction_is_above_the_bound(d, extra):
    width = d + extra
    bound = most_entries_with_positions(MHA, d, width)
    assert most_entries_at_width(MHA, d, width) <= bound <= d * d
    assert most_entries_with_positions(SKIPV1, d, width) == most_entries_with_positions((SKIP,), d, width) == d * d
    if d % 2 == 0:
        share = explained_by_rotating(d, 5, Fraction(1)) / signal_share(d, 5, Fraction(1))
        assert most_entries_at_width(MHA, d, d) < share <= most_entries_with_positions(MHA, d, d)


def test_sizes():
    with pytest.raises(InvalidSize, match="even d, got 3"):
        rotating_weights(3, 4, 0.1)
    with pytest.raises(InvalidSize, match="even d, got 1"):
        explained_by_rotating(1, 4, 0.1)
    with pytest.raises(InvalidSize, match="width must be a whole number from 3, got 2"):
        most_entries_with_positions(MHA, 3, 2)
    with pytest.raises(InvalidSize, match="from width 2d = 4 on"):
        copying_weights(2, 4, 0.1, 5)
