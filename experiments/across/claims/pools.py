"""Claims on prompts whose tasks come from a finite pool."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad, trapezoid
from scipy.stats import chi2, norm

from experiments.ledger.claim import Claim, Conditions, at
from theory.prompts import pool as pools
from theory.prompts import regression
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.preconditioned import linear
from theory.prompts.setting import Estimate
from theory.skipv1.paper import PAPER

ERRORS = 4  # standard errors
PROMPTS = 30_000
POOLS = ((1, 2, 3, 0.7), (2, 3, 4, 0.5), (3, 6, 2, 0.4), (2, 4, 1, 0.0))  # d, tasks, n, sigma

SEED = "of random prompts: any of them is as good"
FURTHER = "an integral taken further, to where its integrand is nothing to rounding: e^-40 and exp(-e^5) at the ends"

POOL = Claim(
    "prompts.pool",
    PAPER.ours,
    place="theory/prompts/pool.py; the task of SkipV1Former, section 4, with finitely many W*",
    statement="On a pool of tasks the posterior mean given the pool is a softmax of -|Y - W_i X|^2 / (2 sigma^2) over "
    "it, and nothing loses less.  Ridge regression depends on the pool through its mean square alone.  The best step "
    "that is linear in S_yx, and in S_xx and a constant if asked, and its loss are exact.",
    assumes="W* uniform over a given pool, x ~ N(0, I), Gaussian noise",
    verdict="verified",
    proof=pools,
    uses=("moments.general",),
    unjudged={
        linear: "at Psi = I the best linear map is one preconditioned step, which may stand for it",
        at(pools.posterior_on_pool, "np.random.default_rng([seed, 0])"): SEED,
        at(pools.ridge_on_pool, "np.random.default_rng([seed, 1])"): SEED,
        at(pools._inverse_power, "-log(n + noise) - 40 -> -log(n + noise) - 6 * 40 / 5"): FURTHER,
        at(pools._inverse_power, "-log(n + noise) - 40 -> -log(n + noise) - 41"): FURTHER,
        at(pools._inverse_power, "n + noise -> n + 6 * noise / 5"): FURTHER,
        at(pools._inverse_power, "5 - log(noise) -> 6 - log(noise)"): FURTHER,
        at(
            pools.posterior_on_pool,
            "pool[rng.integers(len(pool), size=count)] @ x + sigma * noise -> "
            "pool[rng.integers(len(pool), size=count)] @ x - sigma * noise",
        ): "the noise is as likely with its sign turned",
    },
)


def _pool(d: int, count: int) -> Array:
    """Return `count` random d x d tasks whose mean is not zero."""
    return np.random.default_rng([d, count]).standard_normal((count, d, d)) + 0.3


def _prompts(pool: Array, n: int, sigma: float, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    d = pool.shape[1]
    x, noise = rng.standard_normal((2, PROMPTS, d, n + 1))
    return x, pool[rng.integers(len(pool), size=PROMPTS)] @ x + sigma * noise


def _within(predictions: Array, y: Array, known: Estimate, wrong: float = 0.0) -> bool:
    """Return whether the mean of sampled losses equals the known one within 4 standard errors of both."""
    losses = ((predictions - y[:, :, -1]) ** 2).sum(axis=1)
    error = (losses.var() / len(losses) + known.stderr**2) ** 0.5
    return bool(abs(losses.mean() - known.value * (1 + wrong)) <= ERRORS * error + 1e-12)


@POOL.check(
    "the posterior, prompt by prompt, from densities of every pair multiplied out; four pools",
    states=2.0,
    control=1.0,
    wrong="sigma^2 in the place of 2 sigma^2",
)
def posterior_is_bayes(halves: float) -> bool:
    """Compare weights and predictions.  Without noise the weights are equal on the tasks that fit the context."""
    for d, count, n, sigma in POOLS:
        pool = _pool(d, count)
        x, y = (z[:50] for z in _prompts(pool, n, sigma))
        likely = np.ones((50, count))
        for b, i, t in product(range(50), range(count), range(n)):
            rest = y[b, :, t] - pool[i] @ x[b, :, t]
            likely[b, i] *= np.exp(-rest @ rest / (halves * sigma**2)) if sigma else float(rest @ rest < 1e-9)
        likely /= likely.sum(axis=1, keepdims=True)
        answers = np.einsum("bp,pij,bj->bi", likely, pool, x[:, :, -1])
        for given in (y, y[:, :, :-1]):
            if not np.allclose(pools.pool_posterior(x, given, pool, sigma), answers, rtol=1e-7, atol=1e-9):
                return False
        if not np.allclose(pools.pool_weights(x[:, :, :-1], y[:, :, :-1], pool, sigma), likely, rtol=1e-7, atol=1e-9):
            return False
    return True


@POOL.check(
    "ridge, prompt by prompt, is the posterior mean of a normal prior: a Gaussian conditioned on the labels",
    states=1.0,
    control=0.5,
    wrong="half of the penalty",
)
def ridge_is_bayes(share: float) -> bool:
    """The d^2 entries of W* and the d n labels are jointly normal; without noise, least squares of least norm."""
    for d, count, n, sigma in POOLS:
        x, y = (z[:20] for z in _prompts(_pool(d, count), n, sigma))
        for b in range(20):
            known = x[b, :, :n]
            design = np.kron(np.eye(d), known.T)
            cover = design @ design.T + share * sigma**2 * np.eye(d * n)
            w = (design.T @ np.linalg.pinv(cover, hermitian=True) @ y[b, :, :n].ravel()).reshape(d, d)
            if not np.allclose(pools.ridge(x, y, sigma)[b], w @ x[b, :, -1], rtol=1e-7, atol=1e-9):
                return False
    return share == 1.0 or any(sigma for *_, sigma in POOLS)


@POOL.check(
    "losses of both on four pools: sampled prompts with fresh queries, within 4 standard errors",
    states=0.0,
    control=0.1,
    wrong="losses higher by a tenth",
    kind="sampled",
)
def losses_are_those(more: float) -> bool:
    for d, count, n, sigma in POOLS:
        pool = _pool(d, count)
        x, y = _prompts(pool, n, sigma)
        posterior = pools.posterior_on_pool(pool, n, sigma)
        ridge = pools.ridge_on_pool(pool, n, sigma)
        if posterior.value > ridge.value + ERRORS * (posterior.stderr + ridge.stderr):
            return False
        if not _within(pools.pool_posterior(x, y, pool, sigma), y, posterior, more):
            return False
        if not _within(pools.ridge(x, y, sigma), y, ridge, more):
            return False
    return True


@POOL.check(
    "d = 1, two tasks: the posterior's loss as an integral over S_xx and the noise, within 4 standard errors",
    states=1,
    control=2,
    wrong="one pair more in the context",
    kind="sampled",
)
def two_tasks_by_integral(pairs: int) -> bool:
    """Integrate over the log odds D^2 G / (2 sigma^2) + D sqrt(G) z / sigma: D = w_1 - w_2, G = S_xx, z normal."""
    sigma, gap, pool = 0.7, 1.4, np.array([[[0.8]], [[-0.6]]])
    z = np.linspace(-9, 9, 3001)

    def left(g: float) -> float:
        p = 1 / (1 + np.exp(-(gap**2 * g / (2 * sigma**2) + gap * g**0.5 * z / sigma)))
        return float(trapezoid(gap**2 * p * (1 - p) * norm.pdf(z), z) * chi2.pdf(g, pairs + 1))

    known = quad(left, 0, 60, epsabs=1e-7)[0] + sigma**2
    found = pools.posterior_on_pool(pool, 2, sigma, samples=40_000)
    return found.stderr < 0.01 and abs(found.value - known) < ERRORS * found.stderr


@POOL.check(
    "one task, and a large pool: the noise alone, and ridge's loss at the pool's own mean square; ridge's scale",
    states=2,
    control=1,
    wrong="ridge's bias linear in the tasks",
    kind="sampled",
)
def ends_of_the_pool(power: int) -> bool:
    """Twice the pool adds 2^power - 1 times the bias; at mean square d^2 ridge's loss is `regression.ridge`'s."""
    d, n, sigma = 2, 3, 0.6
    if pools.posterior_on_pool(_pool(d, 1), n, sigma).value != d * sigma**2:
        return False
    pool = _pool(d, 5)
    unit = pool * (d**2 / (pool**2).sum(axis=(1, 2)).mean()) ** 0.5
    single, double, none = (pools.ridge_on_pool(unit * scale, n, sigma).value for scale in (1, 2, 0))
    known = regression.ridge(d, n, sigma)
    fresh = pools.ridge_on_pool(unit, n, sigma)
    return (
        abs((double - none) / (single - none) - 2**power) < 1e-9
        and abs(fresh.value - known.value) < ERRORS * (fresh.stderr + known.stderr)
        and 0 < fresh.stderr < 0.01
        and 0 < known.stderr < 0.01
    )


@POOL.check(
    "ridge's loss from one pair in the context, where S_xx has one eigenvalue, as an integral over it; d = 1 to 3, "
    "no noise, little, and much, small tasks and large; and that it is exact, or its standard error",
    states=1,
    control=2,
    wrong="as if the labels had twice the noise's variance, and the penalty had not",
)
def ridge_of_one_pair(times: int) -> Conditions:
    """Integrate over g = |x|^2: W is shrunk along x by sigma^2 / (g + sigma^2), and lost across."""
    for d, sigma, size in product((1, 2, 3), (0.0, 0.3, 1000.0), (0.3, 3.0)):
        pool = size * _pool(d, 5)
        square, noise = float((pool**2).sum(axis=(1, 2)).mean()), sigma**2

        def left(g: float, d: int = d, square: float = square, noise: float = noise) -> float:
            along, of_noise = (noise / (g + noise)) ** 2, g / (g + noise) ** 2
            return float((square / d * (along + d - 1) + times * d * noise * of_noise) * chi2.pdf(g, d))

        known = quad(left, 0, np.inf)[0] if noise else square / d * (d - 1)
        found = pools.ridge_on_pool(pool, 1, sigma)
        yield abs(found.value - (known + d * noise)) <= ERRORS * found.stderr + 1e-6 * (1 + square)
        yield (found.stderr == 0) == (d == 1 or not noise)


@POOL.check(
    "standard errors of both from 3 samples, and from 100: squared, in the mean over seeds, they are the variance of "
    "what is estimated; and the first half of the seeds, and the second, estimate what more samples do",
    states=1.0,
    control=1.5,
    wrong="half as much again",
    kind="sampled",
)
def errors_are_standard(ratio: float) -> Conditions:
    pool = _pool(2, 3)
    for samples, seeds in ((3, 800), (100, 300)):
        for loss in (pools.posterior_on_pool, pools.ridge_on_pool):
            found = [loss(pool, 4, 0.8, samples=samples, seed=seed) for seed in range(seeds)]
            values, known = np.array([estimate.value for estimate in found]), loss(pool, 4, 0.8)
            squares = float(np.mean([estimate.stderr**2 for estimate in found]))
            yield abs(ratio * squares / values.var() - 1) <= 0.25
            for half in np.split(values, 2):
                error = (half.var() / len(half) + known.stderr**2) ** 0.5
                yield abs(half.mean() - known.value) <= ERRORS * error


@POOL.check(
    "without noise, weights in other units of the labels, a millionth and a million times: the same",
    states=1.0,
    control=2.0,
    wrong="labels in one unit, tasks in another",
)
def units_do_not_matter(other: float) -> Conditions:
    for d, count, n, _ in POOLS:
        pool = _pool(d, count)
        x, y = (z[:50, :, :n] for z in _prompts(pool, n, 0.0))
        known = pools.pool_weights(x, y, pool, 0.0)
        for unit in (1e-6, 1e6):
            yield np.array_equal(pools.pool_weights(x, unit * other * y, unit * pool, 0.0), known)


STEPS = tuple(product((False, True), (False, True)))


@POOL.check(
    "the best step's loss: sampled prompts for each form, within 4 standard errors, on four pools",
    states=0.0,
    control=0.1,
    wrong="losses higher by a tenth",
    kind="sampled",
)
def step_loses_that(more: float) -> bool:
    for d, count, n, sigma in POOLS:
        pool = _pool(d, count)
        x, y = _prompts(pool, n, sigma, 3)
        for of_inputs, constant in STEPS:
            step = pools.pool_step(pool, n, sigma, of_inputs=of_inputs, constant=constant)
            known = Estimate(step.loss, 0.0, "")
            if not _within(step.predict(x, y), y, known, more) or not _follows(step, x[:9], y[:9]):
                return False
    return True


def _follows(step: pools.Step, x: Array, y: Array) -> bool:
    """Return whether a step's predictions follow from its weights, prompt by prompt."""
    for one_x, one_y, prediction in zip(x, y, step.predict(x, y), strict=True):
        known = one_x[:, :-1]
        parts = [one_y[:, :-1] @ known.T, *([known @ known.T] if step.of_inputs else [])]
        seen = np.concatenate([*(part.ravel() for part in parts), [1.0] * step.constant])
        if not np.allclose((step.weights @ seen).reshape(len(known), -1) @ one_x[:, -1], prediction):
            return False
    return True


@POOL.check(
    "no other map of its form loses less: least squares on a sample, valued on it, comes within 2 % below; and more "
    "to see never hurts",
    states=0.02,
    control=-0.02,
    wrong="two percent above",
    kind="sampled",
)
def step_is_the_best(below: float) -> bool:
    """Compare losses of fitted steps: on its own sample, a fit's mean loss is below the optimum."""
    for d, count, n, sigma in POOLS[:3]:
        pool = _pool(d, count)
        x, y = _prompts(pool, n, sigma, 4)
        query, s_yx, s_xx = x[:, :, -1], y[:, :, :-1] @ x[:, :, :-1].mT, x[:, :, :-1] @ x[:, :, :-1].mT
        losses = []
        for of_inputs, constant in STEPS:
            parts = [s_yx.reshape(PROMPTS, -1), *([s_xx.reshape(PROMPTS, -1)] if of_inputs else [])]
            seen = np.concatenate(parts + [np.ones((PROMPTS, 1))] * constant, axis=1)
            design = np.einsum("bf,bj->bfj", seen, query).reshape(PROMPTS, -1)
            fit = design @ np.linalg.lstsq(design, y[:, :, -1], rcond=None)[0]
            fitted = float(((fit - y[:, :, -1]) ** 2).sum(axis=1).mean())
            losses.append(pools.pool_step(pool, n, sigma, of_inputs=of_inputs, constant=constant).loss)
            if not -1e-9 < losses[-1] / fitted - 1 + below < 0.1 + below:
                return False
        neither, constant_alone, inputs_alone, both = losses
        if not both <= min(constant_alone, inputs_alone) + 1e-12 <= max(constant_alone, inputs_alone) <= neither:
            return False
    return True


@POOL.check(
    "the best step's loss by least squares over all prompts of few values, weighed by Gauss and Hermite's rule, whose "
    "moments are the normal law's as far as they count: each form, on four pools of nonzero mean",
    states=3,
    control=2,
    wrong="inputs of +1 and -1, whose fourth moment is 1",
)
def step_counted_out(values: int) -> Conditions:
    """Squared errors are of degree 4 in inputs and 2 in noise: three values and two have these moments."""
    for d, count, n, sigma in ((1, 2, 3, 0.7), (2, 3, 1, 0.5), (2, 3, 2, 0.4), (3, 4, 1, 0.0)):
        pool = _pool(d, count)
        inputs, noises = (list(zip(*hermegauss(size), strict=True)) for size in (values, 2))
        every = list(product(*[inputs] * (d * n), *[noises] * (d * n)))
        drawn, chance = np.moveaxis(np.array(every), 2, 0)
        x, noise = drawn.reshape(-1, 2, d, n).swapaxes(0, 1)
        root = np.tile(chance.prod(axis=1) / chance.prod(axis=1).sum(), count)[:, None] ** 0.5
        tasks = np.repeat(pool, len(x), axis=0)
        x, noise = (np.tile(z, (count, 1, 1)) for z in (x, noise))
        seen = [(z @ x.mT).reshape(len(x), -1) for z in (tasks @ x + sigma * noise, x)] + [np.ones((len(x), 1))]
        for of_inputs, constant in STEPS:
            design = root * np.concatenate([seen[0], *seen[1:2] * of_inputs, *seen[2:] * constant], axis=1)
            labels = root * tasks.reshape(len(x), -1)
            left = design @ np.linalg.lstsq(design, labels, rcond=1e-9)[0] - labels
            loss = pools.pool_step(pool, n, sigma, of_inputs=of_inputs, constant=constant).loss
            yield abs(loss - (left**2).sum() / count - d * sigma**2) <= 1e-9


@POOL.check(
    "the pool +-e_i e_j of all entries has the normal prior's second moments: the step is that of the infinite pool",
    states=lambda moments: linear(moments),
    control=lambda moments: linear(moments) - 0.1,
    wrong="a tenth lower",
)
def second_moments_count(loss: Callable[[PromptMoments], Any]) -> bool:
    """Use inputs d sqrt(entries) e_i e_j, both signs: mean zero, and second moments those of N(0, I)."""
    for d, n, sigma in ((1, 2, 0.3), (2, 5, 0.5), (3, 4, 0.2)):
        units = d * np.eye(d * d).reshape(d * d, d, d)
        step = pools.pool_step(np.concatenate([units, -units]), n, sigma)
        if abs(step.loss - float(loss(PromptMoments(d, n, sigma)))) > 1e-9:
            return False
    return True
