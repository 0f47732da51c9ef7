"""Gradient flow on the exact loss: against small steps of gradient descent, and against what never changes."""

import numpy as np
import pytest

from theory.plans.heads import MHA, SKIPV1
from theory.prompts.moments import PromptMoments
from theory.toy.flow import gradient_flow
from theory.toy.population import PopulationLoss, Weights


def start(d, rank, heads, seed):
    rng = np.random.default_rng(seed)
    shapes = ((rank, d), (d - rank, d), (heads, d, d), (heads, d, rank))
    return Weights(*(0.4 * rng.standard_normal(shape) for shape in shapes))


@pytest.mark.parametrize(("heads", "d", "rank"), [(MHA, 3, 1), (SKIPV1, 2, 2), (SKIPV1, 1, 0)])
def test_small_steps_of_descent_follow_it(heads, d, rank):
    """Readouts are n W: their gradient is that of W over n, and W moves by that over n once more."""
    n = 5
    loss = PopulationLoss(PromptMoments(d, n, 0.5), heads)
    weights = start(d, rank, 2, 1)
    flow = gradient_flow(loss, weights, [0.1, 0.2])
    steps, losses = 500, []
    for step in range(steps):
        _, g = loss.value_and_gradient(weights)
        rate = 0.2 / steps
        a, b, w, k = (x - rate * y for x, y in zip(weights.arrays(), (g.a, g.b, g.w / n**2, g.k), strict=True))
        weights = Weights(a, b, w, k)
        if step + 1 in (steps // 2, steps):
            losses.append(loss.value(weights))
    np.testing.assert_allclose(flow.losses, losses, rtol=4e-3)
    for x, y in zip(flow.end.arrays(), weights.arrays(), strict=True):
        np.testing.assert_allclose(x, y, atol=5e-3)


def test_the_loss_falls_and_a_minimum_stays():
    loss = PopulationLoss(PromptMoments(2, 4, 0.5), SKIPV1)
    flow = gradient_flow(loss, start(2, 2, 2, 3), [0.0, 0.5, 2.0, 8.0])
    assert (np.diff(flow.losses) < 0).all()
    assert loss.value(flow.end) == flow.losses[-1]
