"""A pool of tasks: the order of its estimators, exact cases, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfcx, expn

from theory.errors import BadInput, InvalidSize
from theory.prompts.pool import (
    pool_posterior,
    pool_step,
    pool_weights,
    posterior_on_pool,
    ridge,
    ridge_on_pool,
)


def draw(seed, d, count, n, sigma, prompts):
    rng = np.random.default_rng(seed)
    pool = rng.standard_normal((count, d, d))
    x, noise = rng.standard_normal((2, prompts, d, n + 1))
    return pool, x, pool[rng.integers(count, size=prompts)] @ x + sigma * noise


@settings(max_examples=20)
@given(seed=st.integers(0, 99), d=st.integers(1, 4), n=st.integers(1, 6))
def test_without_noise_the_task_that_fits_is_known_and_alike_ones_share(seed, d, n):
    pool, x, y = draw(seed, d, 5, n, 0.0, 4)
    assert pool_posterior(x, y, pool, 0.0) == pytest.approx(y[:, :, -1])
    twice = np.concatenate([pool, pool])
    weights = pool_weights(x[:, :, :-1], y[:, :, :-1], twice, 0.0)
    assert sorted(set(weights.ravel().round(9))) == [0, 0.5]


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 99), d=st.integers(1, 3), count=st.integers(1, 5), n=st.integers(1, 6))
def test_the_posterior_loses_least_and_more_to_see_helps_a_step(seed, d, count, n):
    pool = draw(seed, d, count, n, 0.5, 1)[0]
    posterior, of_ridge = posterior_on_pool(pool, n, 0.5), ridge_on_pool(pool, n, 0.5)
    steps = [pool_step(pool, n, 0.5, of_inputs=i, constant=c).loss for i in (False, True) for c in (False, True)]
    slack = 5 * posterior.stderr + 1e-9
    assert posterior.value <= min(*steps, of_ridge.value + 5 * of_ridge.stderr) + slack
    assert steps[3] <= min(steps[1:3]) + 1e-9 <= max(steps[1:3]) + 1e-9 <= steps[0] + 2e-9


@pytest.mark.parametrize("sigma", [1e-4, 0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("n", [1, 2, 8, 400, 20_000])
def test_ridge_at_d_1_is_made_of_exponential_integrals(n, sigma):
    """With p = n / 2, z = sigma^2 / 2 and F_p = e^z E_p(z): r_1 = F_p / 2 and r_2 = (F_{p-1} - F_p) / 4."""
    z, square = sigma**2 / 2, 1.7
    if n == 1:  # E_{1/2} is an error function, and z E_{-1/2} = e^{-z} + E_{1/2} / 2
        above = (np.pi / z) ** 0.5 * erfcx(z**0.5)
        below = (1 + above / 2) / z
    else:
        below, above = (np.exp(z) * expn(n // 2 - i, z) for i in (1, 0))
    r_1, r_2 = above / 2, (below - above) / 4
    known = sigma**4 * square * r_2 + sigma**2 * (r_1 - sigma**2 * r_2) + sigma**2
    assert ridge_on_pool(np.full((1, 1, 1), square**0.5), n, sigma).value == pytest.approx(known, rel=1e-9)


def test_shapes_of_labels():
    pool, x, y = draw(0, 2, 3, 4, 0.3, 5)
    step = pool_step(pool, 4, 0.3, of_inputs=True, constant=True)
    for predict in (
        lambda y: pool_posterior(x, y, pool, 0.3),
        lambda y: ridge(x, y, 0.3),
        lambda y: step.predict(x, y),
    ):
        assert predict(y) == pytest.approx(predict(y[:, :, :-1]))
        with pytest.raises(BadInput, match="x is"):
            predict(y[:, :, :-2])


def test_bad_input():
    pool, x, y = draw(0, 2, 3, 4, 0.3, 5)
    for none in (pool[:, :1], pool[0], pool[:0], pool * np.nan, np.eye(3)[None]):
        with pytest.raises(BadInput, match="a pool is of shape"):
            pool_posterior(x, y, none, 0.3)
    for none in (pool[:, :1], pool[0], pool[:0], pool * np.nan):
        for loss in (posterior_on_pool, ridge_on_pool, pool_step):
            with pytest.raises(BadInput, match="a pool is of shape"):
                loss(none, 3, 0.3)
    with pytest.raises(InvalidSize, match="sigma"):
        pool_posterior(x, y, pool, -1.0)
    with pytest.raises(InvalidSize, match="samples"):
        posterior_on_pool(pool, 3, 0.3, samples=1)
