"""A training that diverges says so, and keeps what was good."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from icl.prompts import RegressionTask
from icl.recipe import Diverged, Recipe
from icl.training.loop import train
from icl.training.objectives import Batch, PromptTask
from tests.icl.training.small import ALWAYS, RECIPE, REGRESSOR, assert_same_bits, model_of, numbers, prompts, weights_of


class Poisoned(PromptTask):
    """From step 6 on, its targets are not what they were."""

    factor = math.nan

    def batch(self, seed, step, size):
        batch = super().batch(seed, step, size)
        return batch if step < 6 else Batch(batch.inputs, self.factor * batch.targets)


@pytest.mark.parametrize("factor", [math.nan, math.inf, 100.0])
def test_what_diverges_keeps_the_last_good_checkpoint(factor, tmp_path, monkeypatch):
    monkeypatch.setattr(Poisoned, "factor", factor)
    task, recipe = Poisoned(RegressionTask(2, 3, 0.1), 64, 32), replace(RECIPE, steps=10, log_every=2, evaluate_every=0)
    steps = train(model_of(REGRESSOR), task, recipe, 0, folder=tmp_path, seconds_between_saves=ALWAYS)
    seen = [numbers(logged) for logged in itertools.islice(steps, 3)]
    with pytest.raises(Diverged, match="diverged by step 8: loss") as stop:
        next(steps)
    assert "\n" not in str(stop.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-000000004", "checkpoint-000000006"]
    resumed, unbroken = model_of(REGRESSOR), model_of(REGRESSOR)
    seen += [numbers(x) for x in train(resumed, prompts(), recipe, 0, folder=tmp_path, warn=pytest.fail)]
    assert seen == [numbers(x) for x in train(unbroken, prompts(), recipe, 0)]
    assert_same_bits(weights_of(resumed), weights_of(unbroken))


class Spiked(PromptTask):
    """One step of the second five costs some ten thousand times what others cost."""

    def batch(self, seed, step, size):
        batch = super().batch(seed, step, size)
        return Batch(batch.inputs, batch.targets * (100 if step == 8 else 1))


def test_a_step_that_costs_much_is_no_divergence():
    recipe = replace(RECIPE, steps=10, log_every=5, evaluate_every=0)
    task = Spiked(RegressionTask(2, 3, 0.1), 64, 32)
    first, last = train(model_of(REGRESSOR), task, recipe, 0)
    assert last.loss > 100 * first.loss


def test_a_weight_that_is_no_number_is_noticed_at_the_first_report():
    model = model_of(REGRESSOR)
    with torch.no_grad():
        model.stem.read_in.weight[0, 0] = torch.nan
    with pytest.raises(Diverged, match="by step 3: loss nan"):
        next(train(model, prompts(), RECIPE, 0))


@pytest.mark.parametrize("steps", [1, 9])
def test_an_absurd_learning_rate_diverges_even_in_the_last_step(steps, tmp_path):
    """The loss of a step is that before its update, so of the last update only the held-out loss tells."""
    recipe = Recipe(steps=steps, batch=4, learning_rate=3e38, warmup=0.0, floor=1.0, log_every=1)
    with pytest.raises(Diverged, match=f"diverged by step {min(steps, 2)}"):
        list(train(model_of(REGRESSOR), prompts(), recipe, 0, folder=tmp_path, seconds_between_saves=ALWAYS))
