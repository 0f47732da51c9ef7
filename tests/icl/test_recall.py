"""Associative recall: what is drawn, and what an answer costs."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.prompts import TRAIN_STREAM, Generator
from icl.recall import RecallTask
from icl.recipe import Recipe
from icl.stacks.decoder import StackedDecoder
from icl.stacks.training import Feed, StackTask, train
from icl.testing import check_identity
from icl.training.loop import evaluate
from icl.training.objectives import Recall, blind_loss
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

FORMS = ("interleaved", "paired")


@st.composite
def tasks(draw):
    pairs = draw(st.integers(1, 5))
    keys, values = (draw(st.integers(pairs, 7)) for _ in range(2))
    return RecallTask(pairs=pairs, keys=keys, values=values, form=draw(st.sampled_from(FORMS)))


@given(tasks(), st.integers(0, 9))
def test_every_answer_stands_in_the_sequence(task, seed):
    """Read from tokens alone: the key asked for is told once, and the answer is told with it."""
    drawn = task.sample(6, Generator(TRAIN_STREAM, seed, 0))
    tokens, answers = drawn.tokens(), drawn.answers()
    assert tokens.shape == (6, task.tokens, task.width)
    assert answers.shape == (6, task.pairs, task.values)
    told, asked = tokens.split([task.told, task.pairs], dim=1)
    if task.form == "interleaved":
        assert torch.equal(tokens.sum(-1), torch.ones(6, task.tokens))
        keys, values = told[:, ::2, : task.keys], told[:, 1::2, task.keys :]
    else:
        keys, values = told.split([task.keys, task.values], dim=-1)
    found = asked[..., : task.keys] @ keys.mT @ values
    assert torch.equal(found, answers)
    for several in (keys, values, asked[..., : task.keys]):
        assert (several.sum(1) <= 1).all()
        assert torch.equal(several.sum(-1), torch.ones(6, task.pairs))


@given(tasks())
def test_streams_are_drawn_together_as_alone(task):
    generators = [Generator(TRAIN_STREAM, seed, 3) for seed in (0, 5)]
    alone = [task.sample(4, Generator(TRAIN_STREAM, seed, 3)) for seed in (0, 5)]
    together = task.samples(4, generators)
    assert torch.equal(together.tokens(), torch.stack([one.tokens() for one in alone]))
    assert torch.equal(together.answers(), torch.stack([one.answers() for one in alone]))
    assert not torch.equal(alone[0].tokens(), alone[1].tokens()) or task.width < 8


@given(tasks(), st.floats(-3, 3))
def test_scores_of_values_at_queries_count_alone(task, other):
    recall = Recall(task, held_out_prompts=8, held_out_batch=4)
    batch = recall.batch(0, 0, 5)
    answer = torch.full((5, task.tokens, task.width), other)
    found = recall.losses(answer, batch.targets)
    torch.testing.assert_close(found, torch.full((5, task.pairs), math.log(task.values)), atol=1e-5, rtol=0)
    answer[:, task.told :, task.keys :] = 50 * batch.targets
    assert (recall.losses(answer, batch.targets) < 1e-6).all()
    assert blind_loss(recall, Vectors(task.width)) == math.log(task.values)


@pytest.mark.parametrize("changed", [{"pairs": 0}, {"keys": 2}, {"values": 2}, {"form": "mixed"}])
def test_what_cannot_be_drawn_is_refused(changed):
    with pytest.raises(BadInput):
        RecallTask(**{"pairs": 3, "keys": 4, "values": 5, "form": "paired", **changed})


def decoders(task):
    config = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=6, context=task.tokens, stem=Vectors(task.width))
    plans = [resolve(name, config.shape) for name in ("vanilla", "svformer", "shared-keys")]
    return [Decoder(config, each, seed=seed, std=0.4).double() for seed, each in enumerate(plans)]


@pytest.mark.parametrize("form", FORMS)
def test_a_stack_loses_what_each_loses_alone(form):
    task = RecallTask(pairs=3, keys=4, values=5, form=form)
    recall = Recall(task, 8, 4)
    assert isinstance(recall, StackTask)
    models = decoders(task)
    stack = StackedDecoder(models)
    feed = Feed(recall, [0, 1, 2], stack.flat)
    inputs, targets = feed.batches(0, 6)
    flat = stack.flat.clone().requires_grad_()
    losses = stack.losses(slice(0, 3), flat, inputs, targets, feed.read, feed.slot, nats=feed.nats)
    (gradient,) = torch.autograd.grad(losses.sum(), flat)
    for i, model in enumerate(models):
        batch = recall.batch(i, 0, 6)
        scores = model(batch.inputs.double())[:, task.told :, task.keys :]
        alone = scores.logsumexp(-1) - (scores * batch.targets).sum(-1)
        check_identity(losses[i], alone.T, terms=1000)
        named = dict(model.named_parameters())
        of_stack = stack.weights(i, gradient)
        for name, own in zip(named, torch.autograd.grad(alone.sum(), list(named.values())), strict=True):
            check_identity(of_stack[name], own, terms=1000, scale=float(gradient[i].norm()))


def test_a_stack_is_trained_and_evaluated_in_nats():
    task = RecallTask(pairs=2, keys=3, values=3)
    recall = Recall(task, 32, 16)
    models = decoders(task)
    recipe = Recipe(steps=60, batch=32, learning_rate=1.0, log_every=20)
    *_, last = train(models, recall, [recipe], [0, 1, 2], [0.02] * 3)
    assert last.losses[1] < 0.5 * math.log(2)
    for i, end in enumerate(last.held_out):
        assert len(end.loss) == task.pairs
        assert all(loss < math.log(3) for loss in end.loss), i


def test_a_decoder_is_evaluated_in_nats():
    task = RecallTask(pairs=2, keys=3, values=3, form="paired")
    model = decoders(task)[0].float()
    found = evaluate(model, Recall(task, 32, 16), Recipe(steps=1, batch=1, learning_rate=1.0))
    assert len(found.loss) == 2
    assert all(0.5 < loss < 3 for loss in found.loss)
