"""Wide prompts with weights are prompts as they come; decoders are those that theory writes down."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.attnres.networks import descending
from experiments.attnres.toy.training import (
    at_widths,
    last_read,
    last_squares,
    log_weights,
    own_weights,
    side_by_side,
    stepping,
    weighing,
)
from icl.prompts import Generator, RegressionTask
from tests.experiments.attnres.toy.made_up import SMOKE
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.setting import Setting
from theory.prompts.spectral import best_polynomial, best_steps
from theory.toy import stack

WIDTHS = (1.0, 2.0, 3.0)


def prompts(count=6, d=2, n=4):
    return RegressionTask(d, n, 0.5).sample(count, Generator(9), torch.float64)


def test_tokens_hold_pairs_and_the_query_no_answer():
    drawn = prompts()
    tokens = side_by_side(drawn)
    expected = [stack.side_by_side(x[:, :-1], y[:, :-1], x[:, -1]) for x, y in zip(drawn.x, drawn.y, strict=True)]
    np.testing.assert_array_equal(tokens, np.stack(expected))


def test_wide_prompts_have_the_same_tasks_noise_and_query():
    drawn = prompts()
    wide = at_widths(drawn, torch.tensor([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]))
    torch.testing.assert_close(wide.x[4:, :, :-1], 3 * drawn.x[4:, :, :-1])
    torch.testing.assert_close(wide.x[:, :, -1], drawn.x[:, :, -1])
    torch.testing.assert_close(wide.y - wide.w @ wide.x, drawn.y - drawn.w @ drawn.x)
    torch.testing.assert_close(wide.label, drawn.label)
    assert torch.equal(at_widths(drawn, 1.0).x, drawn.x)


def test_weights_make_wide_numbers_plain_ones():
    """Means of 1, |z|^2 and |z|^8 in five dimensions; the last by rare numbers."""
    each = torch.tensor(WIDTHS).double().repeat_interleave(20_000)
    z = Generator(9).normal((60_000, 5), torch.float64) * each[:, None]
    weights, squares = log_weights(z, WIDTHS).exp(), z.square().sum(1)
    assert weights.max() <= len(WIDTHS)
    for power, mean in ((0, 1), (1, 5), (4, 5 * 7 * 9 * 11)):
        sample = weights * squares**power
        assert abs(sample.mean() - mean) < 5 * sample.std() / len(z) ** 0.5 < 0.2 * mean
    torch.testing.assert_close(log_weights(z, (1.0,)), torch.zeros(len(z), dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("rule", ["vanilla", "attnres", "attnres-block:size=2"])
def test_every_prompt_has_weights_of_its_own(rule):
    drawn, plan = prompts(3), resolve(rule, Shape(3, 1))
    weights = Generator(8).normal((3, 3, 2, 2), torch.float64) / 10
    model = descending(plan, 4, torch.eye(2, dtype=torch.float64).expand(3, 2, 2))
    with own_weights(model, weights):
        together = last_read(model, drawn)
    for i, of_prompt in enumerate(weights):
        torch.testing.assert_close(together[i], last_read(descending(plan, 4, of_prompt), drawn)[i])
    assert not torch.allclose(last_read(model, drawn), together)


def test_prompts_as_they_come_stand_first_and_rules_see_the_same():
    config = replace(SMOKE, prompts=4)
    squares, weights = last_squares(config, "random", "vanilla", 2, seed=0)
    assert squares.shape == (12, 5)
    assert torch.equal(weights, last_squares(config, "random", "attnres", 2, seed=0)[1])
    alone, plain = last_squares(replace(config, widths=(1.0,), wider=(1.0,)), "descent", "vanilla", 2, seed=0)
    torch.testing.assert_close(plain, torch.ones(4, dtype=torch.float64))
    assert alone.shape == (4, 5)


@pytest.mark.parametrize("layers", [2, 4])
def test_constructed_decoders_make_their_polynomials(layers):
    setting, drawn = Setting(3, 5, 2.0), prompts(4, d=3, n=5)
    steps = best_steps(3, 5, 2.0, layers).steps
    product = np.poly([1 / eta for eta in steps])[::-1]  # coefficients ascending, of roots 1 / eta
    stepped = product / product[0]
    best = [float(c) for c in best_polynomial(3, 5, 2, layers).residual]
    for (model, readout), residual in ((weighing(setting, layers), best), (stepping(setting, layers), stepped)):
        for x, y, read in zip(drawn.x.numpy(), drawn.y.numpy(), last_read(model, drawn), strict=True):
            expected = stack.polynomial_prediction(list(residual), x[:, :-1], y[:, :-1], x[:, -1])
            np.testing.assert_allclose(readout * read[-1, 3:], expected, atol=1e-9 * np.abs(expected).max())
