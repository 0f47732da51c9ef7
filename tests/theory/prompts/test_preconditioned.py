"""Losses of one preconditioned step, on other tasks too: special cases, simulation, and normal equations of S_yx."""

from fractions import Fraction
from itertools import pairwise, product
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theory.laws import FLAT, LIKE_NORMAL, SIGNS, SPIKED, excess, grid
from theory.errors import BadInput, InvalidSize
from theory.prompts import preconditioned, regression
from theory.prompts.moments import PromptMoments
from theory.prompts.preconditioned import after_step
from theory.prompts.setting import signal_share
from theory.prompts.shifts import learned_step, loss_elsewhere, on_average, share_elsewhere

SAMPLES = 20_000
ISOTROPIC = (preconditioned.one_step, preconditioned.preconditioned, preconditioned.linear)
zero_loss = attrgetter("zero_loss")


def covariances(rng, d, exact=False):
    """Sigma, Psi and Gamma; whole numbers of any rank, or regular in float64."""
    if exact:
        factors = [rng.integers(-2, 3, (d, d)).astype(object) + Fraction(0) for _ in range(3)]
        matrices = [f @ f.T for f in factors]
    else:
        factors = rng.standard_normal((3, d, d + 1))
        matrices = [(f @ f.T + (f @ f.T).T) / 2 for f in factors]
    return dict(zip(("covariance", "prior_rows", "prior_columns"), matrices, strict=True))


@st.composite
def tasks(draw, w0=True, max_d=4):
    d, n = draw(st.integers(1, max_d)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    mean = rng.standard_normal((d, d)) * (w0 and draw(st.sampled_from([0.0, 1.0])))
    kurtosis = draw(st.sampled_from([None, rng.uniform(-2, 3, d)]))
    sigma = draw(st.sampled_from([0.0, 0.3, 2.0]))
    return PromptMoments(d, n, sigma, mean, **covariances(rng, d), kurtosis=kurtosis)


@given(st.integers(1, 4), st.integers(1, 12), st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(4)]))
def test_isotropic_tasks_are_those_of_regression(d, n, sigma):
    eye = np.eye(d, dtype=object) + Fraction(0)
    moments = PromptMoments(d, n, sigma, covariance=eye)
    exact = regression.one_step(d, n, sigma)
    assert preconditioned.one_step(moments) == exact
    assert preconditioned.best_step(moments) == 1 / (n + d + 1 + sigma**2)
    assert moments.zero_loss == regression.zero(d, sigma)
    for loss in ISOTROPIC:
        assert loss(moments) == pytest.approx(float(exact), rel=1e-12)
    if n >= d:
        assert preconditioned.minimum_norm(moments) == regression.minimum_norm(d, n, sigma)


def enumerated(laws, w0, n, estimator):
    """E ||P - W*||^2 over all inputs; D = W* - W0 and the noise (sigma = 1) are like normal ones up to order 5."""
    d = len(w0)
    total = Fraction(0)
    for (x, p), (entries, q), (noise, r) in product(
        zip(*grid(laws * n, object), strict=True),
        zip(*grid([LIKE_NORMAL] * d**2, object), strict=True),
        zip(*grid([LIKE_NORMAL] * (d * n), object), strict=True),
    ):
        x, w = x.reshape(n, d).T, w0 + entries.reshape(d, d)
        off = estimator((w @ x + noise.reshape(d, n)) @ x.T) - w
        total += p * q * r * (off * off).sum()
    return total


@pytest.mark.parametrize(("law", "n"), [(SIGNS, 1), (FLAT, 2), (SPIKED, 2)])
def test_exact_losses_of_a_scalar_task_by_enumeration(law, n):
    """d = 1: every prompt and every W*, in fractions, at W0 = 2 and the best step; no other step is as good."""
    w0 = np.array([[Fraction(2)]])
    moments = PromptMoments(1, n, Fraction(1), w0, kurtosis=np.array([excess(law)]))
    step = preconditioned.best_step(moments)
    loss = enumerated([law], w0, n, lambda s_yx: step * s_yx) + 1
    assert preconditioned.one_step(moments) == preconditioned.after_step(moments, np.array([[step]])) == loss
    for other in (step * Fraction(9, 10), step * Fraction(11, 10)):
        assert preconditioned.after_step(moments, np.array([[other]])) > loss
    assert preconditioned.preconditioned(moments) == pytest.approx(float(loss), rel=1e-12)


@pytest.mark.long
def test_a_preconditioner_s_loss_by_enumeration():
    """d = 2, n = 1, unequal kurtoses, a preconditioner that is not symmetric."""
    w0 = np.array([[Fraction(1), Fraction(0)], [Fraction(-2), Fraction(1)]])
    laws, m = [SIGNS, SIGNS], np.array([[Fraction(1, 4), Fraction(-1, 2)], [Fraction(1, 8), Fraction(1, 3)]])
    moments = PromptMoments(2, 1, Fraction(1), w0, kurtosis=np.array([excess(law) for law in laws]))
    assert preconditioned.after_step(moments, m) == enumerated(laws, w0, 1, lambda s_yx: s_yx @ m) + 2


@given(st.integers(1, 3), st.integers(1, 9), st.integers(0, 99), st.sampled_from([Fraction(0), Fraction(1, 2)]))
def test_exact_and_float_tasks_agree(d, n, seed, sigma):
    """With covariances of any rank."""
    rng = np.random.default_rng(seed)
    arrays = covariances(rng, d, exact=True)
    w0, m = rng.integers(-2, 3, (2, d, d)).astype(object) + Fraction(0)
    exact = PromptMoments(d, n, sigma, w0, **arrays)
    floats = PromptMoments(d, n, float(sigma), w0.astype(float), **{k: v.astype(float) for k, v in arrays.items()})
    assert isinstance(preconditioned.one_step(exact), Fraction | int)
    for loss in (zero_loss, preconditioned.one_step, lambda task: preconditioned.after_step(task, m)):
        assert float(loss(exact)) == pytest.approx(loss(floats), rel=1e-12, abs=1e-12)


@given(tasks(w0=False))
def test_order_of_the_estimators(moments):
    """Each may do more than the one before it.  What they explain is a solve, and loses the condition of its matrix."""
    losses = [loss(moments) for loss in (zero_loss, *ISOTROPIC)]
    spectra = [np.linalg.eigvalsh(m) for m in (moments.covariance, moments.prior_columns)]
    rounding = 8 * moments.d * np.finfo(float).eps * np.prod([s[-1] / s[0] for s in spectra]) * losses[0]
    assert all(later <= sooner + rounding for sooner, later in pairwise(losses))
    assert losses[-1] >= moments.d * moments.sigma**2 - rounding


@given(tasks(), st.integers(0, 99))
def test_best_preconditioner_is_stationary(moments, seed):
    """The loss is a quadratic in M, with its least value at the best M: to both sides it rises alike."""
    d = moments.d
    best = preconditioned.best_preconditioner(moments)
    least = preconditioned.after_step(moments, best)
    assert preconditioned.preconditioned(moments) == pytest.approx(least, rel=1e-9, abs=1e-12)
    aside = np.random.default_rng(seed).standard_normal((d, d)) * np.linalg.norm(best)
    left, right = (preconditioned.after_step(moments, best + s * aside) - least for s in (-1, 1))
    assert left > 0
    assert left == pytest.approx(right, rel=1e-6, abs=1e-9 * least)


@given(tasks(w0=False, max_d=3))
def test_best_linear_map_solves_the_normal_equations(moments):
    """All d^2 entries of S_yx at once, their covariances and those with W* from `PromptMoments`; no eigenvalues."""
    d = moments.d
    cells = list(product(range(d), repeat=2))
    units, small = np.eye(2 * d), np.eye(d)

    def of_s(p, q, r, s):
        return moments.sandwich(np.outer(units[q], units[r]))[p, s]

    def with_s(i, j, p, q):
        return moments.target_left(np.outer(small[j], units[p]))[i, q]

    power = np.array([[of_s(d + i, j, m, d + k) for k, m in cells] for i, j in cells])
    with_w = np.array([[with_s(i, j, d + k, m) for k, m in cells] for i, j in cells])
    read = with_w @ np.linalg.pinv(power, rcond=1e-12, hermitian=True)
    explained = np.trace(np.kron(np.eye(d), moments.covariance) @ read @ with_w.T)
    loss = preconditioned.linear(moments)
    assert loss == pytest.approx(moments.zero_loss - explained, rel=1e-9, abs=1e-9)


@given(tasks(w0=False))
def test_a_preconditioner_is_all_that_equal_outputs_need(moments):
    """Psi = I, or no noise: the best linear map is a preconditioner; with unequal outputs and noise it is better."""
    arrays = {"covariance": moments.covariance, "prior_columns": moments.prior_columns, "kurtosis": moments.kurtosis}
    equal = PromptMoments(moments.d, moments.n, moments.sigma, **arrays)
    noiseless = PromptMoments(moments.d, moments.n, 0.0, **arrays, prior_rows=moments.prior_rows)
    for task in (equal, noiseless):
        scale = task.zero_loss
        assert preconditioned.linear(task) == pytest.approx(preconditioned.preconditioned(task), abs=1e-9 * scale)


def test_unequal_outputs_gain_from_a_map_of_their_own():
    moments = PromptMoments(2, 3, 1.0, prior_rows=np.diag([4.0, 0.1]))
    assert preconditioned.linear(moments) < preconditioned.preconditioned(moments) - 0.01


def simulated(moments, estimator):
    """The losses of 20,000 prompts, and the estimator's."""
    rng = np.random.default_rng([moments.d, moments.n])
    roots = [np.linalg.cholesky(m) for m in (moments.prior_rows, moments.prior_columns, moments.covariance)]
    w = moments.w0 + roots[0] @ rng.standard_normal((SAMPLES, moments.d, moments.d)) @ roots[1].T
    x = roots[2] @ rng.standard_normal((SAMPLES, moments.d, moments.n))
    y = w @ x + moments.sigma * rng.standard_normal(x.shape)
    off = (estimator(x, y) - w) @ roots[2]
    return (off**2).sum(axis=(1, 2)) + moments.d * moments.sigma**2


def agrees(losses, predicted):
    return abs(losses.mean() - predicted) <= 4 * losses.std(ddof=1) / SAMPLES**0.5


@pytest.mark.parametrize(("d", "n", "sigma"), [(1, 3, 1.0), (2, 5, 0.5), (3, 8, 0.3)])
def test_steps_by_simulation(d, n, sigma):
    rng = np.random.default_rng(d)
    moments = PromptMoments(d, n, sigma, rng.standard_normal((d, d)), **covariances(rng, d))
    for matrix, predicted in (
        (preconditioned.best_step(moments) * np.eye(d), preconditioned.one_step(moments)),
        (preconditioned.best_preconditioner(moments), preconditioned.preconditioned(moments)),
    ):
        losses = simulated(moments, lambda x, y, m=matrix: y @ x.mT @ m)
        assert agrees(losses, predicted)
        assert not agrees(losses, 1.1 * predicted)


@pytest.mark.parametrize(("d", "n", "sigma"), [(1, 7, 1.0), (2, 9, 0.5), (3, 12, 2.0)])
def test_least_squares_by_simulation(d, n, sigma):
    """Whatever the covariances and the mean of W* are."""
    rng = np.random.default_rng(d)
    moments = PromptMoments(d, n, sigma, rng.standard_normal((d, d)), **covariances(rng, d))
    losses = simulated(moments, lambda x, y: y @ np.linalg.pinv(x))
    assert agrees(losses, preconditioned.minimum_norm(moments))
    assert not agrees(losses, d * sigma**2 * (1 + d / (n - d)))


def test_what_least_squares_loses_is_said_or_refused():
    assert preconditioned.minimum_norm(PromptMoments(3, 4, 0.5)) == float("inf")
    assert preconditioned.minimum_norm(PromptMoments(3, 3, 0.0)) == 0
    with pytest.raises(BadInput, match="n = 2 < d = 3"):
        preconditioned.minimum_norm(PromptMoments(3, 2, 0.5))
    with pytest.raises(BadInput, match="normal x only"):
        preconditioned.minimum_norm(PromptMoments(3, 9, 0.5, kurtosis=np.full(3, -2.0)))
    with pytest.raises(BadInput, match="regular"):
        preconditioned.minimum_norm(PromptMoments(2, 9, 0.5, covariance=np.diag([1.0, 0.0])))
    with pytest.raises(BadInput, match="W0 = 0 only"):
        preconditioned.linear(PromptMoments(2, 9, 0.5, np.eye(2)))


SIGMAS = st.floats(0, 3)


@given(d=st.integers(1, 6), n=st.integers(1, 40), sigma=SIGMAS)
def test_where_it_was_trained_a_step_explains_rho(d, n, sigma):
    step = learned_step(d, n, sigma)
    assert share_elsewhere(d, n, sigma, step) == pytest.approx(signal_share(d, n, sigma))
    assert share_elsewhere(d, n, sigma, step) >= share_elsewhere(d, n, sigma, 1.1 * step)
    assert learned_step(d, n, sigma, test_n=n) == pytest.approx(step)


@given(d=st.integers(1, 4), n=st.integers(1, 6), seed=st.integers(0, 99))
def test_all_outputs_are_a_preconditioned_step(d, n, seed):
    rng = np.random.default_rng(seed)
    factor, columns = rng.standard_normal((2, d, d))
    moments = PromptMoments(d, n, 0.5, rng.standard_normal((d, d)), covariance=factor @ factor.T + (0 * np.eye(d)))
    assert loss_elsewhere(moments, np.eye(d), columns) == pytest.approx(after_step(moments, columns))


def test_the_sphere_is_a_kurtosis_of_minus_two_only_where_nothing_has_a_direction():
    d, n, step = 3, 5, Fraction(1, 9)
    zero = np.full((d, d), Fraction(0), dtype=object)
    eye = np.diag([Fraction(1)] * d).astype(object)
    columns = step * np.diag([Fraction(1), 0, 0]).astype(object)
    signs = np.array([Fraction(-2)] * d, dtype=object)
    for w0, same in ((zero, True), (np.diag([Fraction(3), 0, 0]).astype(object) + zero, False)):
        sphere = loss_elsewhere(PromptMoments(d, n, Fraction(1), w0), eye, columns, sphere=True)
        independent = loss_elsewhere(PromptMoments(d, n, Fraction(1), w0, kurtosis=signs), eye, columns)
        assert (sphere == independent) is same


def test_bad_input():
    with pytest.raises(BadInput, match="sphere"):
        loss_elsewhere(PromptMoments(2, 3, 0.1, kurtosis=np.zeros(2)), np.eye(2), np.eye(2), sphere=True)
    with pytest.raises(BadInput, match="kurtosis"):
        share_elsewhere(2, 3, 0.1, 0.1, kurtosis=-3)
    with pytest.raises(InvalidSize, match="entries"):
        share_elsewhere(2, 3, 0.1, 0.1, entries=5)
    with pytest.raises(InvalidSize, match="rank"):
        on_average(PromptMoments(2, 3, 0.1), 0.1, 3, 1)
    with pytest.raises(InvalidSize):
        learned_step(2, 3, 0.1, test_n=0)
