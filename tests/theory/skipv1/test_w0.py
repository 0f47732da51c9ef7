"""Theorems 1 to 3 around W0 != 0: the gap with enough heads, the floors and what meets them, two heads for small W0.

The exact tests need no closed form of `theory`: with enough heads the best P is a least-squares problem in fractions
(`w0_tools.best_loss`), at given A and B.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.theory.skipv1.w0_tools import (
    best_loss,
    decomposed,
    exact,
    grams,
    in_span,
    loss_of_map,
    solve,
    symmetrised,
    whole_numbers,
)
from theory.errors import InvalidSize
from theory.plans.heads import MHA, SKIPV1
from theory.prompts import setting
from theory.prompts.moments import PromptMoments
from theory.skipv1 import gap as skipv1
from theory.skipv1.w0 import (
    constant_share,
    mha_compressions,
    mha_enough_heads_loss,
    mha_floor,
    skipv1_enough_heads_loss,
    skipv1_floor,
    small_power,
    two_heads_loss,
)
from theory.toy.exact import exact_loss, prompt_map, random_weights
from theory.toy.population import Weights

MHA_ONLY, BOTH = ("ordinary",), ("ordinary", "skip")
SIGMAS = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(3, 2), Fraction(4)])


def eye(d):
    return exact(np.eye(d, dtype=int))


@st.composite
def compressions(draw, d, rank):
    """Whole-number A of full rank, and B."""
    a, b = whole_numbers(draw, rank, d), whole_numbers(draw, d - rank, d)
    assume(rank == np.linalg.matrix_rank(a.astype(float)))
    return a, b


def entries_of_s(d):
    """S_ij as linear maps of vec M."""
    return np.array([np.outer(row, col).ravel() for row in np.eye(d, 2 * d) for col in np.eye(d, 2 * d)]).astype(int)


def s_is_available(a, b):
    return in_span(symmetrised(exact(entries_of_s(a.shape[1]))), symmetrised(grams(a, b, BOTH)))


# Theorem 1


@settings(max_examples=7)
@given(st.data(), st.sampled_from([(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)]), st.integers(1, 4), SIGMAS)
@pytest.mark.long
def test_skip_heads_gain_at_least_rho_a_squared_at_the_same_compressions(data, size, n, sigma):
    (d, rank), w0 = size, whole_numbers(data.draw, size[0], size[0], bound=6)
    a, b = data.draw(compressions(d, rank))
    assume(s_is_available(a, b))
    moments = PromptMoments(d, n, sigma, w0)
    gap = best_loss(moments, a, b, MHA_ONLY) - best_loss(moments, a, b, BOTH)
    assert gap >= setting.signal_share(d, n, sigma) * rank**2


@settings(max_examples=6)
@given(st.data(), st.sampled_from([(1, 1), (2, 1), (2, 2)]), st.integers(1, 4), SIGMAS, st.integers(0, 99))
def test_the_proof_s_map_is_skipv1former_s_and_gains_what_it_says(data, size, n, sigma, seed):
    """Any weights of two ordinary heads; T_1 is replaced by lambda I, step (3), on the map itself."""
    (d, rank), w0 = size, whole_numbers(data.draw, size[0], size[0])
    a, b = data.draw(compressions(d, rank))
    assume(s_is_available(a, b))
    drawn = random_weights(np.random.default_rng(seed), 2, rank, d)
    before = prompt_map(Weights(a, b, drawn.w / 20, drawn.k), MHA)
    rho = setting.signal_share(d, n, sigma)
    step, pi = rho / n, a.T @ solve(a @ a.T, a)
    centred = np.block([[eye(d), 0 * eye(d)], [w0, eye(d)]])  # (x ; y) from (x ; eta)
    by_eta = np.einsum("rp,ijrs,sq->ijpq", centred, before, centred)
    t = by_eta[:, :, d:, :d] + by_eta[:, :, :d, d:].swapaxes(2, 3)  # P_odd = T(Z)
    change = step * np.einsum("ik,jl->ijkl", eye(d), pi) - np.einsum("ijkm,lm->ijkl", t, pi)
    by_eta[:, :, d:, :d] = by_eta[:, :, d:, :d] + change
    back = np.block([[eye(d), 0 * eye(d)], [-w0, eye(d)]])
    after = np.einsum("rp,ijrs,sq->ijpq", back, by_eta, back)
    moments = PromptMoments(d, n, sigma, w0)
    gain = loss_of_map(moments, before) - loss_of_map(moments, after)
    assert gain == n / step * (change**2).sum()
    assert gain >= rho * rank**2
    assert (np.einsum("ijpq,jk->ikpq", after, pi) == after).all()
    assert in_span(symmetrised(after.reshape(d * d, -1)), symmetrised(grams(a, b, BOTH)))
    assert loss_of_map(moments, before) >= best_loss(moments, a, b, MHA_ONLY)
    assert loss_of_map(moments, after) >= best_loss(moments, a, b, BOTH)


def test_map_and_weights_have_one_loss():
    """The tools themselves: `loss_of_map` against `PopulationLoss`."""
    rng = np.random.default_rng(0)
    for d, rank, heads in ((1, 1, MHA), (2, 1, SKIPV1), (3, 2, SKIPV1)):
        w0, weights = exact(rng.integers(-3, 4, (d, d))), random_weights(rng, 2, rank, d)
        loss = exact_loss(heads, d, 3, Fraction(1, 2), w0)
        assert loss_of_map(loss.moments, prompt_map(weights, heads)) == loss.value(weights)


# Theorem 2


@settings(max_examples=7)
@given(st.data(), st.sampled_from([(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 1)]), st.integers(1, 5), SIGMAS)
def test_no_compressions_undercut_the_floors(data, size, n, sigma):
    """Whole-number A and B, and such with A on the right singular vectors, whose floors are the lowest."""
    d, rank = size
    u, s, v = data.draw(decomposed(d))
    a, b = data.draw(compressions(d, rank))
    if data.draw(st.booleans()):
        a = data.draw(st.sampled_from([1, 5])) * v.T[:rank]
    moments = PromptMoments(d, n, sigma, u @ np.diag(s) @ v.T)
    assert best_loss(moments, a, b, MHA_ONLY) >= mha_floor(d, n, sigma, s**2, rank)
    assert best_loss(moments, a, b, BOTH) >= skipv1_floor(d, n, sigma, s**2, rank)


def skip_compressions(u, v, of_w0, rank):
    """A on the first right singular vectors, B on left ones that W0 (I - Pi) does not reach, at scales that will do."""
    d = len(u)
    free = [j for j in range(d) if not rank <= j < of_w0][: d - rank]
    b = exact(np.zeros((d - rank, d), dtype=int))
    b[: len(free)] = Fraction(1, 50) * u.T[free]
    return Fraction(3, 2) * v.T[:rank], b


@settings(max_examples=7)
@given(st.data(), st.sampled_from([(1, 1), (2, 0), (2, 1), (2, 2), (3, 1), (3, 2)]), st.integers(1, 5), SIGMAS)
def test_skipv1former_attains_what_it_should(data, size, n, sigma):
    (d, rank), of_w0 = size, data.draw(st.integers(0, size[0]))
    u, s, v = data.draw(decomposed(d, rank=of_w0))
    a, b = skip_compressions(u, v, of_w0, rank)
    assume(s_is_available(a, b))
    best = best_loss(PromptMoments(d, n, sigma, u @ np.diag(s) @ v.T), a, b, BOTH)
    floor, loss = skipv1_floor(d, n, sigma, s**2, rank), skipv1_enough_heads_loss(d, n, sigma, s**2, rank)
    assert floor <= best <= loss
    assert (floor == loss) == (not sigma or not rank or of_w0 <= 2 * rank)
    if floor < loss:
        assert best > floor


SPECTRA = {
    "singular values, squared": lambda w0: np.linalg.svd(w0, compute_uv=False) ** 2,
    "eigenvalues of W0 W0^T": lambda w0: np.linalg.eigvalsh(w0 @ w0.T)[::-1],
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_rank_of_w0_survives_rounding(spectrum, dtype):
    """W0 of rank one or two, made in floats, whose other singular values are rounding; against the exact zeros."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        d, of_w0, n, sigma = int(rng.integers(3, 7)), int(rng.integers(1, 3)), 4, 1.5
        left, right = (np.linalg.qr(rng.standard_normal((d, of_w0)))[0] for _ in range(2))
        singular = np.array([7.0, 3.0])[:of_w0]
        measured = SPECTRA[spectrum](((left * singular) @ right.T).astype(dtype))
        known = [*singular**2, *[0.0] * (d - of_w0)]
        close = d**2 * np.finfo(dtype).eps * sum(known)
        for a in range(d + 1):
            for value in (skipv1_enough_heads_loss, mha_enough_heads_loss):
                assert value(d, n, sigma, measured, a) == pytest.approx(value(d, n, sigma, known, a), abs=close)


def test_the_rank_of_an_exact_w0_is_exact():
    task, tiny = (3, 4, Fraction(3, 2)), Fraction(1, 10**40)
    at_rank_one, at_rank_three = (skipv1_enough_heads_loss(*task, [9, x, x], 1) for x in (0, tiny))
    assert at_rank_three - at_rank_one > Fraction(1, 100)


def test_rounding_in_w0_takes_no_row_of_b():
    """Singular values that are rounding leave `mha_compressions` as zeros do."""
    exactly, rounded = (mha_compressions(3, 4, 1.5, [3.0, x, x], 1, 20.0) for x in (0.0, 1e-16))
    for one, other in zip(exactly, rounded, strict=True):
        np.testing.assert_array_equal(one, other)


# Theorem 3


@given(st.integers(1, 6), st.integers(1, 50), SIGMAS)
def test_small_power_is_where_two_heads_meet_mha_s_floor(d, n, sigma):
    """Exactly so without noise, where the bound on two heads is sharp: MHA at W0 = 0 against them at w^2."""
    least = min(skipv1.loss_gap(d, n, sigma, a).mha for a in range(d + 1))
    power = small_power(d, n, sigma)
    rho = setting.signal_share(d, n, sigma)
    assert d * sigma**2 + (1 - rho) * (d**2 + power) == least
    if not sigma:
        assert two_heads_loss(d, n, sigma, power) == least
    for squares in ([power] + [0] * (d - 1), [power / d] * d):
        assert (
            two_heads_loss(d, n, sigma, power) <= least < min(mha_floor(d, n, sigma, squares, a) for a in range(d + 1))
        )


@pytest.mark.parametrize("floor", [mha_floor, skipv1_floor, skipv1_enough_heads_loss, mha_enough_heads_loss])
def test_bad_input(floor):
    with pytest.raises(InvalidSize, match="W0 has d = 2 squared singular values, got 1"):
        floor(2, 3, 0.1, [1.0], 1)
    with pytest.raises(InvalidSize, match="rank must be a whole number from 0 to d = 2, got 3"):
        floor(2, 3, 0.1, [1.0, 1.0], 3)
    with pytest.raises(InvalidSize, match="n must be"):
        floor(2, 0, 0.1, [1.0, 1.0], 1)
    with pytest.raises(InvalidSize, match="sigma must be"):
        floor(2, 3, -0.1, [1.0, 1.0], 1)


def test_bad_input_elsewhere():
    for call in (two_heads_loss, constant_share, lambda d, n, s, _: small_power(d, n, s)):
        with pytest.raises(InvalidSize, match="d must be"):
            call(0, 3, 0.1, 1)
    with pytest.raises(InvalidSize, match="rank must be"):
        mha_compressions(2, 3, 0.1, [1.0, 1.0], 3, 10.0)
