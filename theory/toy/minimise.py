"""Exact minimisation of the population loss, from many starts, with a certificate.

The loss is a quadratic in the readouts W^h, so they are solved for exactly at every step (variable projection) and
L-BFGS descends in A, B and K^h alone, on an exact function with an exact gradient.  It knows nothing of the closed
forms.  Half the starts are Gaussian; in the other half K^h starts near (I ; 0), because the sign of a direction of
A^T K A is hard to change on the way down: Gaussian starts often end on a plateau where one direction is lost.

Where there are many local minima, as around W0 != 0, one start in ten may find the lowest.  After SCREENING iterations
a descent is mostly within 1 or 2 % of its end, and the end takes most of the time: so many starts can be screened and
only the lowest be finished.  Plain BFGS does both in fewer evaluations, but goes less far to an infimum at infinity.

The loss is exact as a formula, not in rounding: where ||W0|| is many times d or B tends to infinity, large
terms cancel, and a descent may end a little below the truth.  So what each descent ends on is evaluated again in longer
floating-point numbers; `PopulationLoss.value` in Fractions decides what is still in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.optimize import minimize

from theory.errors import check_sizes
from theory.prompts.moments import Array
from theory.toy.population import PopulationLoss, Weights

SCREENING = 100  # iterations
MANY = 100  # variables: from here on the dense matrix of BFGS costs more than its fewer evaluations save
GAIN = 1e-12  # of the loss, or of 1 if that is more: a descent ends with the first iteration that gains less


@dataclass(frozen=True, eq=False)
class Certificate:
    """The result of a minimisation.

    value           the loss at `weights`, re-evaluated there (`PopulationLoss.accurate_value`)
    gradient_norm   norm of the gradient at `weights`, each of A, B, K, W measured in units of its own size: the loss
                    that a small relative change would gain, to first order.  (Without the units the number would mean
                    nothing: K and W can trade any factor without changing the loss.)
    scale           the larger of ||A|| and ||B||; an infimum at infinity shows as a small gradient and a large scale
    starts, finished    how many descents were begun, and how many of them, the lowest, went on to their end
    agreeing            how many of the latter ended within 1e-6 of the best explained signal
    distance        value - closed form, or None where none was given
    """

    value: float
    gradient_norm: float
    scale: float
    starts: int
    finished: int
    agreeing: int
    evaluations: int
    distance: float | None
    weights: Weights = field(repr=False)


def minimise(
    loss: PopulationLoss,
    rank: int,
    *,
    starts: int = 8,
    finished: int | None = None,
    seed: int = 0,
    closed_form: float | None = None,
    max_iterations: int = 2000,
    until: Callable[[float], bool] | None = None,
    after_start: Callable[[int, float], None] | None = None,
) -> Certificate:
    """Return the lowest loss found over A, B, K and W at the given rank.

    `finished` of the starts, those lowest after SCREENING iterations, descend to the end, or all of them.
    `until(value)` ends the search early as soon as it is true for the best value so far; `after_start(i, value)` is
    called after every start, i of them so far, with the lowest value.
    """
    check_sizes(loss.moments.d, loss.moments.n, loss.moments.sigma, rank)
    if starts < 1:
        raise ValueError(f"starts must be at least 1, got {starts}")
    if finished is not None and finished < 1:
        raise ValueError(f"finished must be at least 1, got {finished}")
    rng = np.random.default_rng([seed, rank])
    ends: list[tuple[float, Weights]] = []
    evaluations = 0
    screens = finished is not None
    iterations = min(SCREENING, max_iterations) if screens else max_iterations
    for start in range(starts):
        first = _start(loss, rank, rng, symmetric=start % 2 == 0)
        value, weights, count = _descend(loss, first, iterations, until, dense=screens)
        evaluations += count
        ends.append((value, weights))
        if after_start is not None:
            after_start(len(ends), min(v for v, _ in ends))
        if until is not None and until(value):
            break
    made, value = len(ends), min(v for v, _ in ends)
    if iterations < max_iterations and not (until is not None and until(value)):
        lowest, ends = sorted(ends, key=itemgetter(0))[:finished], []
        for _, screened in lowest:
            value, weights, count = _descend(loss, screened, max_iterations, until, dense=screens)
            evaluations += count
            ends.append((value, weights))
    value, weights = min(ends, key=itemgetter(0))
    _, gradient = loss.value_and_gradient(weights)
    near = 1e-6 * max(loss.zero_loss - value, np.finfo(float).eps * loss.zero_loss)
    return Certificate(
        value=value,
        gradient_norm=_relative_norm(weights, gradient),
        scale=max(float(np.linalg.norm(weights.a)), float(np.linalg.norm(weights.b))),
        starts=made,
        finished=len(ends),
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
    loss: PopulationLoss,
    start: Weights,
    max_iterations: int,
    until: Callable[[float], bool] | None,
    *,
    dense: bool,
) -> tuple[float, Weights, int]:
    of_a, of_ab = start.a.size, start.a.size + start.b.size
    evaluations, before = 0, np.inf

    def unpack(flat: Array) -> Weights:
        a, b, k = flat[:of_a], flat[of_a:of_ab], flat[of_ab:]
        return Weights(a.reshape(start.a.shape), b.reshape(start.b.shape), start.w, k.reshape(start.k.shape))

    def objective(flat: Array) -> tuple[float, Array]:
        nonlocal evaluations
        evaluations += 1
        # The gradient in W is zero at the best readout, so the total derivative is the partial one.
        value, gradient = loss.value_and_gradient_at_best_readout(unpack(flat))
        return value, np.concatenate([g.ravel() for g in (gradient.a, gradient.b, gradient.k)])

    def stop(intermediate_result: Any) -> None:
        nonlocal before
        value = float(intermediate_result.fun)
        if (until is not None and until(value)) or (dense and before - value <= GAIN * max(abs(value), 1)):
            raise StopIteration
        before = value

    flat = np.concatenate([x.ravel() for x in (start.a, start.b, start.k)])
    if flat.size:
        method, options = "L-BFGS-B", {"maxiter": max_iterations, "gtol": 1e-7}
        if dense and flat.size <= MANY:
            method = "BFGS"
        else:
            options |= {"maxfun": 5 * max_iterations, "ftol": GAIN, "maxcor": 30}
        flat = minimize(objective, flat, jac=True, method=method, callback=stop, options=options).x
    weights = loss.best_readout(unpack(flat))
    return loss.accurate_value(weights), weights, evaluations
