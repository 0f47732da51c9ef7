"""What prompts ask of a model: which answers are scored, and on what."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.training.loop import evaluate, train
from icl.training.objectives import PromptTask
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

CONFIG = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=16, context=7, stem=Vectors(2))
RECIPE = Recipe(steps=4, batch=4, learning_rate=0.01, log_every=2)
TASK = RegressionTask(2, 3, 0.1)


def model_of(config=CONFIG):
    return Decoder(config, resolve("vanilla", config.shape), seed=0)


def both(task=TASK, held_out=64, at_a_time=32):
    return PromptTask(task, held_out, at_a_time), PromptTask(task, held_out, at_a_time, "last")


# Which answers are scored.


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_the_last_answer_alone_is_the_last_of_all(d, n, batch):
    """The same prompts, and the same bits; no other answer has a gradient."""
    everything, last = both(RegressionTask(d, n, 0.3))
    asked = everything.batch(3, 5, batch)
    assert torch.equal(asked.inputs, last.batch(3, 5, batch).inputs)
    answer = torch.randn(batch, 2 * n + 1, d, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found, of_last = everything.losses(answer, asked.targets), last.losses(answer, asked.targets)
    assert found.shape == (batch, n + 1)
    assert of_last.shape == (batch, 1)
    assert torch.equal(of_last[:, 0], found[:, -1])
    (moved,) = torch.autograd.grad(of_last.mean(), answer)
    assert not moved[:, :-1].any()
    assert moved[:, -1].any()


def test_held_out_losses_are_of_the_answers_that_are_scored():
    model = model_of()
    everything, last = (evaluate(model, task, RECIPE) for task in both())
    assert len(everything.loss) == TASK.n + 1
    assert last.loss == pytest.approx(everything.loss[-1:], rel=1e-12)  # sums in another order
    assert last.stderr == pytest.approx(everything.stderr[-1:], rel=1e-12)


def test_a_training_that_scores_the_last_answer_is_another_one():
    everything, last = both()
    assert everything.identity == "RegressionTask(d=2, n=3, sigma=0.1) held out 64 in 32"  # as it always was
    assert last.identity == "RegressionTask(d=2, n=3, sigma=0.1) held out 64 in 32 scored last"
    trained = []
    for task in both():
        model = model_of()
        *_, logged = train(model, task, RECIPE, 0)
        trained.append(evaluate(model, last, RECIPE).loss)
        assert logged.held_out.loss[-1:] == trained[-1]
    assert trained[0] != trained[1]


def test_answers_are_scored_all_or_last():
    with pytest.raises(BadInput, match="all or last, got 'first'"):
        PromptTask(TASK, 64, 32, "first")
