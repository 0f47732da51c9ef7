"""A finite pool of tasks: the posterior mean given the pool, ridge regression, and one linear step, on the same pool.

Setting.  W* is one of W_1, ..., W_P, each with probability 1/P; n pairs y = W* x + noise, x ~ N(0, I_d), noise of
variance sigma^2, and a fresh query whose label is predicted.  Losses are E ||y - P x||^2 = E ||P - W*||^2 + d sigma^2,
of a given pool, over prompts.  A model trained on the pool can learn the pool, or to regress (ridge is the posterior
mean if the W_i are standard normal and there are no end of them).  S_yx, S_xx, S_yy: the context's second moments.

posterior   By Bayes' rule the posterior of W_i is p_i ~ exp(-||Y - W_i X||^2 / (2 sigma^2)), and the mean
            sum_i p_i W_i has the least loss of all.  What is left given a prompt is the posterior's variance,
                sum_i p_i ||W_i||^2 - ||sum_i p_i W_i||^2,
            whose mean is estimated by sampling contexts: given one, neither W* nor a query adds to its error.  As
            sigma -> 0, p is spread evenly over the W_i of least ||Y - W_i X||^2.
ridge       P = S_yx R, R = (S_xx + sigma^2)^{-1}.  P - W = -sigma^2 W R + noise X^T R, and the law of S_xx is invariant
            under rotations, so that on a task W, and on the pool with the mean of ||W_i||^2 in its place, it loses
                (sigma^4 ||W||^2 / d) r_2 + d sigma^2 (r_1 - sigma^2 r_2) + d sigma^2,         r_j = E tr R^j.
            It depends on the pool through its mean square alone.  r_j have no elementary form and are sampled, or
            integrated at d = 1, where S_xx is chi-squared: with 1 / g^j = int t^(j-1) e^(-g t) dt, j = 1 or 2,
                r_j = int over t > 0 of t^(j-1) e^(-sigma^2 t) (1 + 2 t)^(-n/2) dt.
            As sigma -> 0 it is ||W||^2 (d - n)_+ / d.
step        P_ij = a linear function of S_yx, of S_xx if asked, and of a constant if asked: what one layer of linear
            attention over copied pairs can be with enough heads.  (Around a mean task, S_xx stands in for a constant.)
            With E S_xx = n I and, pairing, for each W of the pool
                E (S_xx)_ij (S_xx)_kl = n^2 d_ij d_kl + n (d_ik d_jl + d_il d_jk),
                E (S_yx)_ij (S_xx)_kl = n^2 W_ij d_kl + n (W_ik d_jl + W_il d_jk),
                E (S_yx)_ij (S_yx)_kl = n^2 W_ij W_kl + n ((W W^T)_ik d_jl + W_il W_kj) + n sigma^2 d_ik d_jl,
                E W_ij (S_yx)_kl = n W_ij W_kl,    E W_ij (S_xx)_kl = n W_ij d_kl,
            d being Kronecker's.  All are averages over the pool, and exact; the best P solves linear equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from theory.errors import BadInput, at_least, check_memory, check_sizes
from theory.prompts.setting import Estimate

Array = NDArray[np.float64]
CHUNK = 2**22  # numbers at a time
STEP = 1 / 32  # of integrals in log t
ROUNDING = 1e-9  # of ||Y||^2: tasks so near to the nearest are as near, without noise


def pool_posterior(x: Array, y: Array, pool: Array, sigma: float) -> Array:
    """Return the posterior mean's predictions for the last x of each prompt, given the pool.

    x: (B, d, n + 1), y: (B, d, n), or n + 1, whose last is not looked at; pool: (P, d, d) -> (B, d).  Raises BadInput
    for shapes that do not fit, InvalidSize for a noise below zero.
    """
    x, y, query = _split(x, y)
    mean = pool_weights(x, y, pool, sigma) @ pool.reshape(len(pool), -1)
    return np.einsum("bij,bj->bi", mean.reshape(len(x), *pool.shape[1:]), query)


def ridge(x: Array, y: Array, sigma: float) -> Array:
    """Return ridge regression's predictions with penalty sigma^2; without noise, least squares of least norm.

    Shapes and errors as in `pool_posterior`.
    """
    check_sizes(1, 1, sigma)
    x, y, query = _split(x, y)
    inputs, values, pairs = np.linalg.svd(x, full_matrices=False)  # S_xx + sigma^2 may be singular to rounding
    spanned = values > max(x.shape[1:]) * np.finfo(float).eps * values[:, :1]
    gains = np.divide(values, values**2 + sigma**2, out=np.zeros_like(values), where=spanned)
    return np.einsum("bit,brt,br,bjr,bj->bi", y, pairs, gains, inputs, query, optimize=True)


def pool_weights(x: Array, y: Array, pool: Array, sigma: float) -> Array:
    """Return the posterior of each task of the pool, (B, P).

    x, y: the context alone, (B, d, n) each.  Raises as `pool_posterior`.
    """
    d = x.shape[1]
    check_sizes(d, 1, sigma)
    if _tasks(pool) != d:
        raise BadInput(f"a pool is of shape (P, {d}, {d}), got {pool.shape}")
    check_memory(f"the posterior over {len(pool)} tasks", len(x) * len(pool))
    flat, squares = pool.reshape(len(pool), -1), (pool.mT @ pool).reshape(len(pool), -1)
    s_yx, s_xx = ((z @ x.mT).reshape(len(x), -1) for z in (y, x))
    distances = s_xx @ squares.T - 2 * s_yx @ flat.T  # ||Y - W_i X||^2 but for ||Y||^2
    distances -= distances.min(axis=1, keepdims=True)
    if sigma:
        weights = np.exp(-distances / (2 * sigma**2))
    else:
        weights = (distances <= ROUNDING * (y**2).sum(axis=(1, 2))[:, None]).astype(float)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def posterior_on_pool(pool: Array, n: int, sigma: float, *, samples: int = 4000, seed: int = 0) -> Estimate:
    """Return the least loss of any estimator on tasks of the pool: that of `pool_posterior`, by sampled prompts.

    Raises as `pool_posterior`, and InvalidSize for sizes without meaning or fewer than 2 samples.
    """
    d = _tasks(pool)
    check_sizes(d, n, sigma)
    at_least("samples", samples, 2)
    rng = np.random.default_rng([seed, 0])
    chunk, left = max(1, CHUNK // (len(pool) + d * n)), []
    squares = (pool**2).sum(axis=(1, 2))
    for start in range(0, samples, chunk):
        count = min(chunk, samples - start)
        x, noise = rng.standard_normal((2, count, d, n))
        y = pool[rng.integers(len(pool), size=count)] @ x + sigma * noise
        weights = pool_weights(x, y, pool, sigma)
        left.append(weights @ squares - ((weights @ pool.reshape(len(pool), -1)) ** 2).sum(axis=1))
    losses = np.concatenate(left) + d * sigma**2
    return Estimate(
        float(losses.mean()), float(losses.std(ddof=1) / samples**0.5), f"Monte Carlo over {samples} prompts"
    )


def ridge_on_pool(pool: Array, n: int, sigma: float, *, samples: int = 20_000, seed: int = 0) -> Estimate:
    """Return the loss of `ridge` on tasks of the pool: a quadratic in them, with coefficients sampled from d = 2 on.

    Raises as `posterior_on_pool`.
    """
    d = _tasks(pool)
    check_sizes(d, n, sigma)
    at_least("samples", samples, 2)
    square, noise = float((pool**2).sum(axis=(1, 2)).mean()), float(sigma) ** 2
    if not noise:
        return Estimate(square * max(d - n, 0) / d, 0.0, "exact: the part of W* that the inputs do not span")
    if d == 1:
        value = _ridge_loss(square, d, noise, *(_inverse_power(n, noise, power) for power in (1, 2)))
        return Estimate(value, 0.0, "a numerical integral over S_xx")
    x = np.random.default_rng([seed, 1]).standard_normal((samples, d, n))
    inverse = 1 / (np.linalg.eigvalsh(x @ x.mT).clip(min=0) + noise)
    losses = _ridge_loss(square, d, noise, r_1=inverse.sum(axis=1), r_2=(inverse**2).sum(axis=1))
    return Estimate(
        float(losses.mean()), float(losses.std(ddof=1) / samples**0.5), f"Monte Carlo over {samples} spectra"
    )


def _inverse_power(n: int, noise: float, power: Literal[1, 2]) -> float:
    """Return r_1 or r_2 at d = 1, by the trapezoidal rule in w = log t.

    There the integrand is smooth and no peak is narrow.  It falls at least like e^w to the left of -log(n + noise), and
    like exp(-noise e^w) to the right of -log(noise).
    """
    w = np.arange(-log(n + noise) - 40, 5 - log(noise), STEP)
    t = np.exp(w)
    return float(np.exp(power * w - noise * t - n / 2 * np.log1p(2 * t)).sum() * STEP)


def _ridge_loss(square: float, d: int, noise: float, r_1: Any, r_2: Any) -> Any:
    return noise**2 * square / d * r_2 + d * noise * (r_1 - noise * r_2) + d * noise


@dataclass(frozen=True, eq=False)
class Step:
    """The best linear map of what one step sees; weights: (d^2, F), on S_yx, and on S_xx and 1 where requested."""

    weights: Array
    loss: float
    of_inputs: bool
    constant: bool

    def predict(self, x: Array, y: Array) -> Array:
        """Return predictions; shapes as in `pool_posterior`."""
        x, y, query = _split(x, y)
        parts = [y @ x.mT, *([x @ x.mT] if self.of_inputs else ())]
        seen = np.concatenate([z.reshape(len(x), -1) for z in parts] + [np.ones((len(x), 1))] * self.constant, axis=1)
        return np.einsum("bij,bj->bi", (seen @ self.weights.T).reshape(len(x), x.shape[1], -1), query)


def pool_step(pool: Array, n: int, sigma: float, *, of_inputs: bool = False, constant: bool = False) -> Step:
    """Return the linear step that is best on the pool, and its loss, exact to rounding.

    Raises BadInput for what is no pool, InvalidSize.
    """
    d = _tasks(pool)
    check_sizes(d, n, sigma)
    check_memory("the moments of a step", 4.0 * d**4 * 4)
    count, eye = len(pool), np.eye(d)
    mean, second = pool.mean(axis=0), np.einsum("pij,pkl->ijkl", pool, pool) / count
    gram = np.einsum("piq,pkq->ik", pool, pool) / count
    unit = np.einsum("ij,kl->ijkl", eye, eye)  # d_ij d_kl
    crossed = np.einsum("ik,jl->ijkl", eye, eye)
    yx_yx = n**2 * second + n * np.einsum("ik,jl->ijkl", gram, eye) + n * np.einsum("ilkj->ijkl", second)
    yx_yx += n * float(sigma) ** 2 * crossed
    xx_xx = n**2 * unit + n * (crossed + crossed.transpose(0, 1, 3, 2))
    yx_xx = n**2 * np.einsum("ij,kl->ijkl", mean, eye)
    yx_xx += n * (np.einsum("ik,jl->ijkl", mean, eye) + np.einsum("il,jk->ijkl", mean, eye))
    w_xx = n * np.einsum("ij,kl->ijkl", mean, eye)
    size = d * d
    blocks = [[yx_yx.reshape(size, size)]]
    targets = [n * second.reshape(size, size)]
    if of_inputs:
        across = yx_xx.reshape(size, size)
        blocks = [[blocks[0][0], across], [across.T, xx_xx.reshape(size, size)]]
        targets.append(w_xx.reshape(size, size))
    moments, target = np.block(blocks), np.concatenate(targets, axis=1)  # E[phi phi^T], E[W* phi^T]
    if constant:
        means = np.concatenate([n * mean.ravel(), *([n * eye.ravel()] if of_inputs else [])])
        moments = np.block([[moments, means[:, None]], [means[None], np.ones((1, 1))]])
        target = np.concatenate([target, mean.reshape(-1, 1)], axis=1)
    weights = target @ np.linalg.pinv(moments, rcond=1e-12, hermitian=True)
    square = float((pool**2).sum(axis=(1, 2)).mean())
    loss = square - 2 * (weights * target).sum() + ((weights @ moments) * weights).sum() + d * float(sigma) ** 2
    return Step(weights, float(loss), of_inputs, constant)


def _tasks(pool: Array) -> int:
    """Return the d of a pool, (P, d, d).  Raises BadInput for any other shape."""
    if pool.ndim != 3 or pool.shape[1] != pool.shape[2] or not pool.size or not np.isfinite(pool).all():
        raise BadInput(f"a pool is of shape (P, d, d), all finite, got {pool.shape}")
    return int(pool.shape[1])


def _split(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return the context's x and y, (B, d, n) each, and the query (B, d)."""
    if x.ndim != 3 or y.shape[:2] != x.shape[:2] or y.shape[2] - x.shape[2] not in (0, -1):
        raise BadInput(f"x is (B, d, n + 1) and y (B, d, n) or (B, d, n + 1), got {x.shape} and {y.shape}")
    n = x.shape[2] - 1
    return x[:, :, :n], y[:, :, :n], x[:, :, n]
