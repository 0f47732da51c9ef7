"""What ridge regression, the posterior mean and the toy lose on prompts of a law that they were not made for.

Ridge on a law.  With R = (S_xx + s)^{-1} and a penalty s > 0, around a mean V of the tasks, P - W* is
-s (W* - V) R + noise X^T R, so that with W* = W0 + D, D of independent standard normal entries, and Delta = W0 - V
    loss = s^2 tr(Sigma R (Delta^T Delta + d) R) + d sigma^2 tr(Sigma R S_xx R) + d sigma^2
given the inputs, whose mean is sampled.  At s = sigma^2, V = W0 that is the posterior mean, whatever the inputs are.

The toy elsewhere.  `theory.prompts.shifts`, for optima trained on isotropic inputs, and `theory.skipv1.transfer`, for
other covariances.  Trained around W0 with a path from the query to the output (`theory.skipv1.bias`), an optimum is
W0 + Q (S_yx - W0 S_xx) M, whose loss on tasks around another mean is that of Q S_yx M around the difference.
"""

from __future__ import annotations

import numpy as np

from experiments.across.axes.points import Shift, Trained
from theory.errors import BadInput
from theory.plans.heads import toy_heads
from theory.plans.law import KURTOSIS, Law
from theory.plans.plan import Plan
from theory.plans.setting import Setting
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.setting import Estimate
from theory.prompts.shifts import learned_step, loss_elsewhere, on_average
from theory.skipv1.transfer import best_division, trained_columns
from theory.toy.width import explained_share_at_width

SAMPLES = 20_000


def drawn(law: Law, d: int, n: int, samples: int = SAMPLES, seed: int = 0) -> Array:
    """Inputs of a law: (samples, d, n)."""
    rng, shape = np.random.default_rng([seed, 7]), (samples, d, n)
    match law.inputs:
        case "rademacher":
            xi = rng.choice([-1.0, 1.0], shape)
        case "uniform":
            xi = rng.uniform(-(3**0.5), 3**0.5, shape)
        case "laplace":
            xi = rng.laplace(scale=0.5**0.5, size=shape)
        case "sphere":
            xi = rng.standard_normal(shape)
            xi *= d**0.5 / np.linalg.norm(xi, axis=1, keepdims=True)
        case _:
            xi = rng.standard_normal(shape)
    return np.sqrt(law.eigenvalues(d))[:, None] * xi


def ridge_on_law(law: Law, task: Setting, w0: Array, *, penalty: float, around: Array) -> Estimate:
    """On tasks of the law and their own noise; w0: the mean of its tasks.  Raises BadInput for a penalty of zero."""
    if not penalty > 0:
        raise BadInput(f"a penalty must be positive, got {penalty:g}")
    d, n, sigma = task.floats
    x = drawn(law, d, n)
    gram = x @ x.mT
    inverse = np.linalg.inv(gram + penalty * np.eye(d))
    spread = inverse @ np.diag(law.eigenvalues(d)) @ inverse
    second = (w0 - around).T @ (w0 - around) + d * np.eye(d)
    found = penalty**2 * np.einsum("bij,ji->b", spread, second) + d * sigma**2 * np.einsum("bij,bji->b", spread, gram)
    stderr = float(found.std(ddof=1) / len(found) ** 0.5)
    return Estimate(float(found.mean()) + d * sigma**2, stderr, f"Monte Carlo over {len(found)} contexts")


def toy_loss(
    plan: Plan, task: Setting, trained: Trained, test: Shift, means: tuple[Array, Array], width: int, *, averages: bool
) -> float | None:
    """Of the optimum of a plan's toy; None where it is not known, as on a pool.

    task      trained on; the test has its own noise and pairs where it says so
    means     W0 in training, and in the test
    averages  attention takes means over the prompt, as with a softmax, so that longer prompts make no longer steps
    """
    d, n, sigma = task.floats
    law, pairs = trained.law, test.pairs or n
    if law.pool or test.law.pool or law.inputs != "normal":
        return None
    try:
        if explained_share_at_width(plan, d, n, sigma, width) is None:
            return None
        base = PromptMoments(d, n, sigma, covariance=np.diag(law.eigenvalues(d)))
        division = best_division(base, toy_heads(plan), width)
    except BadInput:
        return None
    if division is None:
        return None
    outputs, inputs = division
    shift, sphere, excess = means[1] - means[0], test.law.inputs == "sphere", KURTOSIS.get(test.law.inputs)
    moments = PromptMoments(
        d,
        pairs,
        sigma if test.sigma is None else test.sigma,
        w0=shift,
        covariance=np.diag(test.law.eigenvalues(d)),
        kurtosis=np.full(d, float(excess)) if excess else None,
    )
    if len(set(law.eigenvalues(d))) == 1:
        step = learned_step(d, n, sigma, test_n=pairs if averages else None)
        return float(on_average(moments, step, outputs, inputs, sphere=sphere))
    if shift.any() and outputs < d:
        return None  # which outputs it sees is not known
    rows = np.diag((np.arange(d) < outputs).astype(float))
    columns = trained_columns(base, inputs) * (n / pairs if averages else 1)
    return float(loss_elsewhere(moments, rows, columns, sphere=sphere))
