"""A training that diverges says so, and keeps what was good."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from icl.recipe import Diverged, Recipe
from icl.training.loop import DIVERGED, train
from icl.training.objectives import blind_loss
from tests.icl.training.small import (
    ALWAYS,
    READER,
    RECIPE,
    REGRESSOR,
    assert_same_bits,
    model_of,
    numbers,
    prompts,
    scaled,
    text,
    weights_of,
)
from theory.plans.architecture import Vectors


@pytest.mark.parametrize("factor", [math.nan, math.inf, 100.0])
def test_what_diverges_keeps_the_last_good_checkpoint(factor, tmp_path):
    """From step 6 on, its targets are not what they were."""
    task = scaled(lambda step: factor if step >= 6 else 1)
    recipe = replace(RECIPE, steps=10, log_every=2, evaluate_every=0)
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


@pytest.mark.parametrize("steps", [10, 23])
@pytest.mark.parametrize("since", [1, 7])  # before and after the middle of the first window
def test_what_explodes_in_the_first_logged_steps_has_diverged(steps, since):
    """Targets that are larger from some step on, and held out, as a training's errors are after it exploded."""
    task = scaled(lambda step: 30 if step >= since else 1, lambda place: 30 if place else 1, held_out_prompts=256)
    recipe = replace(RECIPE, steps=steps, log_every=10, evaluate_every=0)
    with pytest.raises(Diverged, match=f"diverged by step {10 if since == 1 or steps == 10 else 20}: loss"):
        list(train(model_of(REGRESSOR), task, recipe, 0))


@pytest.mark.parametrize("log_every", [10, 60])
def test_a_wild_rate_on_text_diverges_however_seldom_it_is_logged(log_every):
    """Losses of hundreds of nats where a blind guess costs ln 23."""
    recipe = Recipe(steps=log_every, batch=4, learning_rate=30.0, log_every=log_every)
    with pytest.raises(Diverged, match=r"loss \d+.*held-out loss \d+"):
        list(train(model_of(READER), text(), recipe, 0))


@pytest.mark.parametrize("log_every", [1, 20])
def test_a_large_first_loss_that_comes_down_is_no_divergence(log_every):
    """It starts at tens of blind guesses, and is far above one for most of its first steps."""
    model = model_of(REGRESSOR)
    with torch.no_grad():
        model.stem.head.weight.mul_(1000)
    recipe = Recipe(steps=100, batch=16, learning_rate=0.02, log_every=log_every)
    first, *_, last = train(model, prompts(), recipe, 0)
    assert first.loss > 10 * DIVERGED * blind_loss(prompts(), REGRESSOR.stem)
    assert last.loss < first.loss / 10


def test_held_out_sequences_that_cost_much_are_no_divergence():
    first = torch.ones(32, 1, 1)
    first[0] = 1000
    *_, last = train(model_of(REGRESSOR), scaled(by_place=lambda place: 1 if place else first), RECIPE, 0)
    assert sum(last.held_out.loss) > 1000


def test_a_blind_guess():
    assert blind_loss(text(), READER.stem) == pytest.approx(math.log(23))
    wide = prompts(d=3, held_out_prompts=4096, held_out_batch=4096)
    assert blind_loss(wide, Vectors(3)) == pytest.approx(3 * 3 + 3 * 0.1**2, rel=0.05)


def test_a_step_that_costs_much_is_no_divergence():
    """One step of the second five costs some ten thousand times what others cost."""
    recipe = replace(RECIPE, steps=10, log_every=5, evaluate_every=0)
    first, last = train(model_of(REGRESSOR), scaled(lambda step: 100 if step == 8 else 1), recipe, 0)
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
