"""Exact minimisation of the population loss, from many starts, with a certificate.

The loss is a quadratic in the readouts W^h, so they are solved for exactly at every step (variable projection) and
L-BFGS descends in A, B and K^h alone, on an exact function with an exact gradient.  It knows nothing of the closed
forms.  Half the starts are Gaussian; in the other half K^h starts near (I ; 0), because the sign of a direction of
A^T K A is hard to change on the way down: Gaussian starts often end on a plateau where one direction is lost.

The loss is exact as a formula, not in rounding: where ||W0|| is many times d or B tends to infinity, large
terms cancel, and a descent may end a little below the truth.  So what each descent ends on is evaluated again in longer
floating-point numbers; `PopulationLoss.value` in Fractions decides what is still in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from theory.errors import check_sizes
from theory.prompts.moments import Array
from theory.toy.population import PopulationLoss, Weights


@dataclass(frozen=True, eq=False)
class Certificate:
    """What a minimisation found.

    value           the loss at `weights`, re-evaluated there (`PopulationLoss.accurate_value`)
    gradient_norm   norm of the gradient at `weights`, each of A, B, K, W measured in units of its own size: the loss
                    that a small relative change would gain, to first order.  (Without the units the number would mean
                    nothing: K and W can trade any factor without changing the loss.)
    scale           the larger of ||A|| and ||B||; an infimum at infinity shows as a small gradient and a large scale
    starts, agreeing    how many starts were made, and how many ended within 1e-6 of the best explained signal
    distance        value - closed form, or None where none was given
    """

    value: float
    gradient_norm: float
    scale: float
    starts: int
    agreeing: int
    evaluations: int
    distance: float | None
    weights: Weights


def minimise(
    loss: PopulationLoss,
    rank: int,
    *,
    starts: int = 8,
    seed: int = 0,
    closed_form: float | None = None,
    max_iterations: int = 2000,
    until: Callable[[float], bool] | None = None,
    after_start: Callable[[int, float], None] | None = None,
) -> Certificate:
    """The lowest loss found over A, B, K and W at the given rank.

    `until(value)` ends the search early as soon as it is true for the best value so far; `after_start(i, value)` is
    called after every start, i of them so far, with the lowest value.
    """
    check_sizes(loss.moments.d, loss.moments.n, loss.moments.sigma, rank)
    if starts < 1:
        raise ValueError(f"starts must be at least 1, got {starts}")
    rng = np.random.default_rng([seed, rank])
    ends: list[tuple[float, Weights]] = []
    evaluations = 0
    for start in range(starts):
        value, weights, count = _descend(loss, _start(loss, rank, rng, symmetric=start % 2 == 0), max_iterations, until)
        evaluations += count
        ends.append((value, weights))
        if after_start is not None:
            after_start(len(ends), min(v for v, _ in ends))
        if until is not None and until(value):
            break
    value, weights = min(ends, key=lambda pair: pair[0])
    _, gradient = loss.value_and_gradient(weights)
    near = 1e-6 * max(loss.zero_loss - value, np.finfo(float).eps * loss.zero_loss)
    return Certificate(
        value=value,
        gradient_norm=_relative_norm(weights, gradient),
        scale=max(float(np.linalg.norm(weights.a)), float(np.linalg.norm(weights.b))),
        starts=len(ends),
        agreeing=sum(bool(v <= value + near) for v, _ in ends),
        evaluations=evaluations,
        distance=None if closed_form is None else value - closed_form,
        weights=weights,
    )


def _relative_norm(weights: Weights, gradient: Weights) -> float:
    pairs = zip(weights.arrays(), gradient.arrays(), strict=True)
    return float(np.sqrt(sum(np.sum(x**2) * np.sum(g**2) for x, g in pairs)))


def _start(loss: PopulationLoss, rank: int, rng: np.random.Generator, *, symmetric: bool) -> Weights:
    d, keys = loss.moments.d, loss.keys
    gaussian = [rng.standard_normal(s) / np.sqrt(d) for s in ((rank, d), (d - rank, d), (keys, d, rank))]
    a, b, k = gaussian
    if symmetric:
        k = np.eye(d)[:, :rank] + 0.1 * k
    return Weights(a, b, np.zeros((loss.readouts, d, d)), k)


def _descend(
    loss: PopulationLoss, start: Weights, max_iterations: int, until: Callable[[float], bool] | None
) -> tuple[float, Weights, int]:
    shapes = [start.a.shape, start.b.shape, start.k.shape]
    ends = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]
    evaluations = 0

    def unpack(flat: Array) -> Weights:
        a, b, k = (part.reshape(s) for part, s in zip(np.split(flat, ends), shapes, strict=True))
        return Weights(a, b, start.w, k)

    def objective(flat: Array) -> tuple[float, Array]:
        nonlocal evaluations
        evaluations += 1
        # The gradient in W is zero at the best readout, so the total derivative is the partial one.
        value, gradient = loss.value_and_gradient_at_best_readout(unpack(flat))
        return value, np.concatenate([g.ravel() for g in (gradient.a, gradient.b, gradient.k)])

    def stop(intermediate_result: object) -> None:
        if until is not None and until(intermediate_result.fun):  # type: ignore[attr-defined]
            raise StopIteration

    flat = np.concatenate([x.ravel() for x in (start.a, start.b, start.k)])
    if flat.size:
        options = {"maxiter": max_iterations, "maxfun": 5 * max_iterations, "gtol": 1e-7, "ftol": 1e-12, "maxcor": 30}
        flat = minimize(objective, flat, jac=True, method="L-BFGS-B", callback=stop, options=options).x
    weights = loss.best_readout(unpack(flat))
    return loss.accurate_value(weights), weights, evaluations
