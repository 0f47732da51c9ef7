"""Prompts: plain ones are what they always were, and those of another law follow it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.prompts import Generator, RegressionTask
from theory.errors import BadInput, InvalidSize
from theory.plans.identity import canonical, text
from theory.plans.law import KURTOSIS, PLAIN, Law
from theory.plans.setting import Setting
from theory.prompts.moments import PromptMoments

F64 = torch.float64
INPUTS = ["normal", "rademacher", "uniform", "laplace", "sphere"]
SAMPLES = 20_000
LAWS = {
    "plain": PLAIN,
    "spiked": Law(spike=4),
    "power": Law(decay=1.5),
    "w0": Law(w0=-2),
    "w0 random": Law(w0=1, w0_random=2, w0_seed=3),
    "signs": Law(inputs="rademacher"),
    "sphere": Law(inputs="sphere", spike=3),
    "pool": Law(pool=5, pool_seed=1),
    "one task": Law(pool=1),
    "all": Law(spike=3, decay=0.5, inputs="laplace", w0=2, w0_random=1, pool=6),
}


def drawn(task, count=SAMPLES, seed=7):
    return task.sample(count, Generator(9, seed), F64)


def mean_and_error(values):
    return values.mean(0), values.std(0) / len(values) ** 0.5


def assert_means(values, expected, z=5.0):
    mean, error = mean_and_error(values)
    assert bool(((mean - expected).abs() <= z * error + 1e-12).all()), (mean, expected, error)


# Plain prompts.


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.sampled_from([0.0, 0.5]), st.integers(1, 3), st.booleans())
def test_plain_prompts_are_the_same_bits_as_ever(d, n, sigma, batch, double):
    dtype = F64 if double else torch.float32
    numbers = Generator(1, d, n).normal((batch, d, 2 * (n + 1) + d), dtype)
    x, noise, w = numbers[..., : n + 1], numbers[..., n + 1 : 2 * n + 2], numbers[..., 2 * n + 2 :]
    found = RegressionTask(d, n, sigma).sample(batch, Generator(1, d, n), dtype)
    assert torch.equal(found.x, x)
    assert torch.equal(found.w, w)
    assert torch.equal(found.y, w @ x + sigma * noise)


def test_golden_prompts():
    """Written down before there were laws; the last digits of normal numbers differ between kinds of CPU."""
    found = RegressionTask(2, 3, 0.1).sample(2, Generator(1, 5, 7))
    x = [1.463999, 0.175961, 0.608328, -0.411676, 2.429002, -2.362759, -0.752623, 1.262290]
    y = [-10.997477, 6.337005, 0.446578, -2.355114, -5.877196, 2.727411, -0.176205, -0.800404]
    w = [-2.751751, -2.882146, -1.950341, -1.242063, -2.639329, 1.028522, 0.172979, -1.356515]
    assert found.x[0].flatten().tolist() == pytest.approx(x, rel=1e-5)
    assert found.y[0].flatten().tolist() == pytest.approx(y, rel=1e-5)
    assert found.w.flatten().tolist() == pytest.approx(w, rel=1e-5)


def test_a_plain_task_is_called_what_it_was():
    task = RegressionTask(2, 3, 0.1)
    assert repr(task) == text(task) == "RegressionTask(d=2, n=3, sigma=0.1)"
    assert canonical(task) == {"d": 2, "n": 3, "sigma": 0.1}
    assert task.key == Setting(2, 3, 0.1).key == "d2-n3-s0.1"
    assert (task.zero_loss, task.signal_share) == (Setting(2, 3, 0.1).zero_loss, Setting(2, 3, 0.1).signal_share)
    assert task.zero_loss == 2**2 + 2 * 0.1**2
    assert task == RegressionTask(2, 3, 0.1, Law())


def test_tasks_of_other_laws_are_other_tasks():
    tasks = [RegressionTask(2, 3, 0.1, law) for law in LAWS.values()]
    assert len(set(tasks)) == len({t.key for t in tasks}) == len({repr(t) for t in tasks}) == len(LAWS)
    for task in tasks[1:]:
        with pytest.raises(BadInput, match="plain task"):
            _ = task.signal_share


# Other laws.


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("d", [1, 3])
def test_signal_and_zero_loss(name, d):
    """By simulation, at five standard errors; a query is an input as any other."""
    task = RegressionTask(d, 2, 0.7, LAWS[name])
    prompts = drawn(task)
    for column in (0, task.n):
        assert_means((prompts.w @ prompts.x[..., column, None]).square().sum((1, 2)), task.signal)
        assert_means(prompts.y[..., column].square().sum(-1), task.zero_loss)


@pytest.mark.parametrize("wrong", [{"spike": 1.0}, {"w0": 2.0, "w0_random": 0.0}, {"pool": 5}, {"pool": 0}])
def test_the_simulation_tells_signals_apart(wrong):
    """The check above would fail for another law's signal."""
    law = Law(spike=9, decay=0.5, w0=2, w0_random=1, pool=6)
    prompts = drawn(RegressionTask(3, 2, 0.7, law))
    other = RegressionTask(3, 2, 0.7, replace(law, **wrong)).signal
    with pytest.raises(AssertionError):
        assert_means((prompts.w @ prompts.query[..., None]).square().sum((1, 2)), other)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.floats(0.1, 9), st.floats(0, 2), st.floats(-3, 3), st.floats(0, 2))
def test_signals_are_those_of_theory(d, spike, decay, w0, w0_random):
    task = RegressionTask(d, 3, 0.5, Law(spike=spike, decay=decay, w0=w0, w0_random=w0_random))
    covariance = np.diag(task.law.eigenvalues(d))
    exact = PromptMoments(d, 3, 0.5, task.w0.numpy(), covariance=covariance)
    assert task.signal == pytest.approx(exact.prior_power)
    assert task.zero_loss == pytest.approx(exact.zero_loss)


def exact_moments(task, **options):
    law = task.law
    given = {"covariance": np.diag(law.eigenvalues(task.d)), "kurtosis": np.full(task.d, float(KURTOSIS[law.inputs]))}
    return PromptMoments(*task.floats, task.w0.numpy(), **{**given, **options})


@pytest.mark.parametrize("inputs", list(KURTOSIS))
def test_contexts_have_the_second_moments_of_theory(inputs):
    """E tr(S M S), of degree four in the pairs, under everything that `PromptMoments` knows together."""
    task = RegressionTask(2, 3, 0.5, Law(spike=4, inputs=inputs, w0=1, w0_random=0.5))
    s = drawn(task).second_moment()
    m = torch.diag(torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=F64))
    found = (s @ m @ s).diagonal(dim1=-2, dim2=-1).sum(-1)
    assert_means(found, float(np.trace(exact_moments(task).sandwich(m.numpy()))))
    with pytest.raises(AssertionError):  # the control: without the spike
        assert_means(found, float(np.trace(exact_moments(task, covariance=np.eye(2)).sandwich(m.numpy()))))


def test_plain_labels_and_inputs_of_a_context_vary_together_as_theory_says():
    task = RegressionTask(2, 5, 0.5)
    s_yx = drawn(task, 200_000).second_moment()[:, 2:, :2]
    assert_means(s_yx.square(), task.n * (task.n + task.d + 1 + task.sigma**2))


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_inputs_have_the_moments_of_their_law(inputs, d):
    """Mean 0, covariance Sigma, E[|xi|^2 xi xi^T] = c I, and no entry's kurtosis but the law's."""
    law = Law(spike=5, decay=0.5, inputs=inputs)
    x = drawn(RegressionTask(d, 1, 0.0, law)).x[..., 0]
    scale = torch.tensor(law.eigenvalues(d), dtype=F64)
    assert_means(x, 0)
    assert_means(x[:, :, None] * x[:, None], torch.diag(scale))
    xi = x / scale.sqrt()
    power = xi.square().sum(-1)[:, None, None]
    assert_means(power * xi[:, :, None] * xi[:, None], float(law.fourth_moment(d)) * torch.eye(d, dtype=F64))
    if inputs in KURTOSIS:
        assert_means(xi**4, 3 + float(KURTOSIS[inputs]), z=5)
    else:
        assert torch.allclose(power, torch.full_like(power, d))
    if inputs == "rademacher":
        assert bool((xi.abs() - 1).abs().max() < 1e-12)
    if inputs == "uniform":
        assert float(xi.abs().max()) <= 3**0.5
        shares = (xi.flatten()[:, None] < torch.tensor([-1.2, -0.5, 0.1, 1.0])).to(F64)
        assert_means(shares[::d], (torch.tensor([-1.2, -0.5, 0.1, 1.0], dtype=F64) / 3**0.5 + 1) / 2)
    if inputs == "laplace":
        levels = torch.tensor([0.3, 1.0, 2.0], dtype=F64)
        assert_means((xi.flatten()[::d, None].abs() > levels).to(F64), torch.exp(-(2**0.5) * levels))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("inputs", INPUTS)
def test_inputs_are_finite_and_of_the_dtype(inputs, dtype):
    prompts = RegressionTask(2, 50, 0.1, Law(inputs=inputs, w0=1, pool=3)).sample(2000, Generator(1), dtype)
    for part in (prompts.x, prompts.y, prompts.w):
        assert part.dtype == dtype
        assert bool(torch.isfinite(part).all())


def test_entries_of_inputs_are_independent_but_on_the_sphere():
    """Of independent entries E xi_1^2 xi_2^2 = 1; on the sphere it is d / (d + 2)."""
    for inputs in INPUTS:
        x = drawn(RegressionTask(3, 1, 0.0, Law(inputs=inputs))).x[..., 0]
        assert_means(x[:, 0].square() * x[:, 1].square(), 3 / 5 if inputs == "sphere" else 1)


def test_laws_share_their_noise_and_their_tasks():
    """So that models compared under two laws differ by the laws alone."""
    plain = drawn(RegressionTask(3, 2, 0.5), 50)
    noise = plain.y - plain.w @ plain.x
    for law in LAWS.values():
        task = RegressionTask(3, 2, 0.5, law)
        found = drawn(task, 50)
        assert torch.allclose(found.y - found.w @ found.x, noise)
        if not law.pool:
            assert torch.allclose(found.w - task.w0, plain.w)


def test_w0_is_the_mean_and_is_drawn_once():
    task = RegressionTask(3, 2, 0.5, Law(w0=2, w0_random=3))
    assert torch.equal(RegressionTask(3, 2, 0.5, Law(w0=2)).w0, 2 * torch.eye(3, dtype=F64))
    assert_means(drawn(task).w, task.w0)
    random = (task.w0 - 2 * torch.eye(3, dtype=F64)) / 3
    assert torch.equal(RegressionTask(3, 9, 0.0, Law(w0=2, w0_random=3, spike=2, pool=4)).w0, task.w0)
    assert torch.allclose(RegressionTask(3, 2, 0.5, Law(w0_random=1)).w0, random)
    assert not torch.equal(RegressionTask(3, 2, 0.5, Law(w0=2, w0_random=3, w0_seed=1)).w0, task.w0)


# Pools.


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(1, 7), st.integers(0, 5))
def test_tasks_are_those_of_the_pool(d, pool, seed):
    task = RegressionTask(d, 2, 0.5, Law(pool=pool, pool_seed=seed))
    assert task.pool.shape == (pool, d, d)
    for stream in (1, 2):
        w = task.sample(20, Generator(stream), torch.float32).w
        nearest = (w[:, None] - task.pool.float()).abs().amax((-1, -2)).min(1).values
        assert float(nearest.max()) == 0
    other = RegressionTask(d, 2, 0.5, Law(pool=pool, pool_seed=seed + 1))
    assert not torch.equal(task.pool, other.pool)
    assert torch.equal(task.pool, RegressionTask(d, 7, 0.1, Law(pool=pool, pool_seed=seed, inputs="uniform")).pool)


def test_a_prompt_takes_any_task_of_the_pool_alike():
    task = RegressionTask(2, 2, 0.5, Law(pool=5))
    chosen = (drawn(task).w[:, None] - task.pool).abs().sum((-1, -2)).argmin(1)
    assert_means(torch.nn.functional.one_hot(chosen, 5).to(F64), 1 / 5)


def test_a_pool_is_drawn_around_w0():
    task = RegressionTask(2, 2, 0.5, Law(w0=2, w0_random=1, pool=4000))
    centred = task.pool - task.w0
    assert_means(centred, 0)
    assert_means(centred.square(), 1)
    assert RegressionTask(2, 2, 0.5, PLAIN).pool is None


def test_a_pool_that_no_machine_holds():
    with pytest.raises(InvalidSize, match="a pool of 1000000000 tasks of d = 1000 needs about"):
        RegressionTask(1000, 2, 0.5, Law(pool=10**9))
