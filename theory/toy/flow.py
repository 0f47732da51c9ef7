"""Gradient flow on the exact population loss: what gradient descent with small steps on fresh prompts follows.

The flow is that of the toys as they are trained (`icl.toys.stacked`): sums over the context are divided by n, so that
readouts are n W.  Time is steps times the learning rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from theory.prompts.moments import Array
from theory.toy.population import PopulationLoss, Weights


@dataclass(frozen=True, eq=False)
class Flow:
    """The losses at the requested times, (times,), and the weights at the last of them."""

    losses: Array
    end: Weights


def gradient_flow(loss: PopulationLoss, start: Weights, times: Sequence[float], accuracy: float = 1e-7) -> Flow:
    """Integrate the flow from `start` at time 0 by LSODA.

    Weights multiply plain sums over the context, as everywhere here.

    Args:
        loss: The loss that the flow descends.
        start: Weights at time 0.
        times: Times at which losses are returned, rising and not negative, in steps times the learning rate.
        accuracy: Relative accuracy of a step of the integration.

    Raises:
        ArithmeticError: if the integration fails.
    """
    shapes = [x.shape for x in start.arrays()]
    ends = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]
    context = loss.moments.n

    def unpacked(flat: Array) -> Weights:
        a, b, w, k = (part.reshape(s) for part, s in zip(np.split(flat, ends), shapes, strict=True))
        return Weights(a, b, w / context, k)

    def packed(weights: Weights, unit: float) -> Array:
        return np.concatenate([(x * unit if i == 2 else x).ravel() for i, x in enumerate(weights.arrays())])

    def downhill(_: float, flat: Array) -> Array:
        return -packed(loss.value_and_gradient(unpacked(flat))[1], 1 / context)

    span = (0.0, float(times[-1]))
    tolerances = {"rtol": accuracy, "atol": accuracy / 1000}
    done = solve_ivp(downhill, span, packed(start, context), method="LSODA", t_eval=list(times), **tolerances)
    if not done.success:
        raise ArithmeticError(f"the gradient flow could not be integrated: {done.message}")
    path = [unpacked(flat) for flat in done.y.T]
    return Flow(np.array([loss.value(weights) for weights in path]), path[-1])
