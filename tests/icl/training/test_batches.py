"""What a training reads, batches that follow from seed and step; held-out data that it never sees; what is scored."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.training.loop import evaluate, train
from icl.training.objectives import PromptTask, TextTask
from tests.icl.training.small import CONTEXT, RECIPE, REGRESSOR, VOCAB, model_of, prompts, rain, text
from theory.errors import BadInput

TASK = RegressionTask(2, 3, 0.1)
SHORT = Recipe(steps=4, batch=4, learning_rate=0.01, log_every=2)


@pytest.mark.parametrize("task", [text, prompts])
def test_batches_follow_from_seed_and_step_alone(task):
    ours, theirs = task(), task()
    list(theirs.held_out())
    batches = {(seed, step): ours.batch(seed, step, 4) for step in range(3) for seed in range(2)}
    for (seed, step), batch in reversed(batches.items()):
        again = theirs.batch(seed, step, 4)
        assert torch.equal(batch.inputs, again.inputs)
        assert torch.equal(batch.targets, again.targets)
    for one, other in itertools.combinations(batches.values(), 2):
        assert not torch.equal(one.inputs, other.inputs)
        assert not torch.equal(one.targets, other.targets)


def test_two_variants_see_the_same_batches_and_held_out_data():
    class Recorder(PromptTask):
        def losses(self, answer, targets):
            seen[-1].append(targets.clone())
            return super().losses(answer, targets)

    seen = []
    for variant, seed in (("vanilla", 0), ("resformer-learned", 0), ("vanilla", 1)):
        seen.append([])
        task = Recorder(TASK, 32, 16)
        list(train(model_of(REGRESSOR, variant), task, replace(RECIPE, steps=4, evaluate_every=0), seed))
    ours, theirs, others = seen
    assert len(ours) == len(theirs) == len(others) == 4 * 2 + 2
    assert all(torch.equal(x, y) for x, y in zip(ours, theirs, strict=True))
    assert [torch.equal(x, y) for x, y in zip(ours, others, strict=True)] == 8 * [False] + 2 * [True]


def test_text_is_the_next_token_and_what_is_held_out_is_never_trained_on():
    task, visited = text(), set()
    for step in range(2 * 299 // CONTEXT // 7):
        batch = task.batch(0, step, 7)
        assert batch.inputs.shape == batch.targets.shape == (7, CONTEXT)
        assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
        assert int(torch.stack([batch.inputs, batch.targets]).max()) < VOCAB - 1
        visited |= {tuple(row) for row in batch.targets.tolist()}
    assert len(visited) == len({tuple(text().data.tokens("train")[i * CONTEXT + 1 :][:CONTEXT]) for i in range(49)})
    held_out = torch.cat([batch.targets for batch in task.held_out()])
    assert held_out.flatten().tolist() == task.data.tokens("held_out")[1 : 9 * CONTEXT + 1].tolist()
    assert task.held_out_windows == 9
    assert [len(batch.inputs) for batch in text(held_out_windows=5, held_out_batch=2).held_out()] == [2, 2, 1]


def test_held_out_prompts_are_none_that_are_trained_on():
    """Not even at the seed and the steps that name the held-out stream."""
    task = prompts()
    held_out = {x for batch in task.held_out() for x in batch.inputs.flatten().tolist()}
    trained = {x for step in range(50) for x in task.batch(0, step, 32).inputs.flatten().tolist()}
    assert len(held_out) > 800
    assert len(held_out & trained) < 5  # of float32 numbers, a few are met twice


def test_prompts_are_read_at_every_query_and_lost_in_squares():
    task = prompts()
    batch = task.batch(0, 0, 5)
    assert batch.inputs.shape == (5, task.tokens, 2)
    assert batch.targets.shape == (5, 4, 2)
    assert torch.equal(batch.inputs[:, 1::2], batch.targets[:, :3])  # y_k follows x_k
    answer = torch.full((5, task.tokens, 2), torch.nan)
    answer[:, ::2] = batch.targets + torch.tensor([3.0, 4.0])
    torch.testing.assert_close(task.losses(answer, batch.targets), torch.full((5, 4), 25.0))


def test_what_no_task_can_be_is_refused():
    with pytest.raises(BadInput, match="multiple of 32"):
        prompts(held_out_prompts=33)
    for options in ({"held_out_prompts": 0}, {"held_out_prompts": True}):
        with pytest.raises(BadInput, match="held_out_prompts must be a whole number from 1"):
            prompts(**options)
    with pytest.raises(BadInput, match="held_out_windows must be a whole number from 1"):
        text(held_out_windows=0)
    with pytest.raises(BadInput, match="there are only 5"):
        text(5)
    with pytest.raises(BadInput, match="all or last, got 'first'"):
        PromptTask(TASK, 64, 32, "first")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return rain(tmp_path_factory.mktemp("rain"))


def test_sequences_may_begin_alike(data):
    """With the end of text in the first token's place; what is to be predicted stays, and the identity differs."""
    plain, opened = TextTask(data, 16, 4), TextTask(data, 16, 4, opened=True)
    assert opened.identity != plain.identity
    for before, after in (
        (plain.batch(1, 2, 8), opened.batch(1, 2, 8)),
        (next(plain.held_out()), next(opened.held_out())),
    ):
        assert (after.inputs[:, 0] == data.manifest.tokenizer.end).all()
        assert (before.inputs[:, 0] != data.manifest.tokenizer.end).any()
        assert torch.equal(before.inputs[:, 1:], after.inputs[:, 1:])
        assert torch.equal(before.targets, after.targets)


def test_a_part_of_the_text_is_read_again_and_again(data):
    """Its first tokens, each once an epoch; the held-out text stays."""
    whole, part = TextTask(data, 16, 4), TextTask(data, 16, 4, train_tokens=49)
    assert part.identity != whole.identity
    assert torch.equal(next(part.held_out()).inputs, next(whole.held_out()).inputs)
    assert part.windows(0).epochs(2, 3) == 2
    first = data.tokens("train")[:49].astype(int)
    for epoch in range(2):
        windows = part.batch(5, epoch, 3)
        starts = sorted(int(x) for x in windows.inputs[:, 0])
        assert starts == sorted(first[:48:16].tolist())
    for wrong in (16, 10**9, -1, 0.5):
        with pytest.raises(BadInput):
            TextTask(data, 16, train_tokens=wrong).windows(0)


# --- which answers are scored ----------------------------------------------------------------------------------------


def both(task=TASK):
    return PromptTask(task, 64, 32), PromptTask(task, 64, 32, "last")


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
    model = model_of(REGRESSOR)
    everything, last = (evaluate(model, task, SHORT) for task in both())
    assert len(everything.loss) == TASK.n + 1
    assert last.loss == pytest.approx(everything.loss[-1:], rel=1e-12)  # sums in another order
    assert last.stderr == pytest.approx(everything.stderr[-1:], rel=1e-12)


def test_a_training_that_scores_the_last_answer_is_another_one():
    everything, last = both()
    assert everything.identity == "RegressionTask(d=2, n=3, sigma=0.1) held out 64 in 32"  # as it always was
    assert last.identity == "RegressionTask(d=2, n=3, sigma=0.1) held out 64 in 32 scored last"
    trained = []
    for task in both():
        model = model_of(REGRESSOR)
        *_, logged = train(model, task, SHORT, 0)
        trained.append(evaluate(model, last, SHORT).loss)
        assert logged.held_out.loss[-1:] == trained[-1]
    assert trained[0] != trained[1]
