"""What is compiled, how often, and that it gives the same numbers: one compilation per shape for many trainings."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from icl.stacks import training as stacked
from icl.training import compiling
from icl.training.loop import evaluate, train
from icl.training.objectives import Batch
from tests.icl.training.small import COMPILED, READER, RECIPE, REGRESSOR, model_of, prompts, text

COMPILING = replace(RECIPE, steps=4, log_every=2, evaluate_every=2, compile=True)
ONE_SHAPE = 2  # to train and to evaluate
VARIANTS = ["svformer", "resformer-learned", "attnres", "attnres-block", "dva-attention", "hyper-connections"]


@pytest.fixture
def counter(monkeypatch):
    torch.compiler.reset()
    limits = torch._dynamo.config
    before = limits.recompile_limit, limits.accumulated_recompile_limit
    found = CompileCounter()
    monkeypatch.setattr(compiling, "BACKEND", found)
    yield found
    limits.recompile_limit, limits.accumulated_recompile_limit = before
    torch.compiler.reset()


def losses(config, variant, seed, task, recipe=COMPILING):
    return [x.loss for x in train(model_of(config, variant, seed), task, recipe, seed)]


@pytest.mark.long
def test_a_shape_is_compiled_once_for_all_its_trainings(counter):
    """Other seeds, rates and lengths, and models that are gone, compile nothing again."""
    for seed in range(3):
        for rate in (0.01, 0.02):
            losses(READER, "attnres", seed, text(), replace(COMPILING, learning_rate=rate))
        gc.collect()
        assert counter.frame_count == ONE_SHAPE
    losses(READER, "attnres", 0, text(), replace(COMPILING, steps=6))
    assert counter.frame_count == ONE_SHAPE
    losses(READER, "vanilla", 0, text())
    assert counter.frame_count == 2 * ONE_SHAPE
    losses(READER, "attnres", 4, text())
    assert counter.frame_count == 2 * ONE_SHAPE


@pytest.mark.parametrize("windows", [5, 8])
@pytest.mark.long
def test_a_shorter_last_batch_is_no_other_shape(windows, counter):
    """Nor has what fills it up any part in the loss."""
    task = text(held_out_windows=windows, held_out_batch=4)
    model = model_of(READER)
    plain = evaluate(model, task, RECIPE)
    list(train(model_of(READER, seed=1), task, COMPILING, 0))
    assert counter.frame_count == ONE_SHAPE
    alone = compiling.compiled(lambda model, task, inputs, targets: task.losses(model(inputs), targets))
    filled = evaluate(model, task, COMPILING, losses_of=alone)
    eps = torch.finfo(torch.float32).eps
    assert filled.loss == pytest.approx(plain.loss, rel=16 * eps)
    assert filled.stderr == pytest.approx(plain.stderr, rel=1e3 * eps)


def test_a_batch_is_filled_up_by_its_first_sequence():
    batch = Batch(torch.arange(6).view(3, 2), torch.arange(6, 12).view(3, 2))
    filled = batch.filled(5)
    assert filled.inputs.tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [0, 1]]
    assert filled.targets.tolist() == [[6, 7], [8, 9], [10, 11], [6, 7], [6, 7]]
    strided = Batch(torch.arange(9).view(3, 3)[:, :2], batch.targets)
    assert strided.filled(3).inputs.equal(strided.inputs)
    assert strided.filled(3).inputs.is_contiguous()


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
def test_model_and_loss_are_one_region(variant, counter):
    """Without a break, depth reads and loss included; and the numbers are those of what is not compiled."""
    config = replace(READER, dropout=0.0)
    compiled = losses(config, variant, 0, text())
    assert counter.frame_count == ONE_SHAPE
    assert compiled == pytest.approx(losses(config, variant, 0, text(), replace(COMPILING, compile=False)), rel=1e-5)


@pytest.mark.long
def test_many_shapes_are_compiled_all(counter):
    """Beyond eight, at which torch stops by itself."""
    for count, width in enumerate(range(4, 22, 2), 1):
        losses(replace(REGRESSOR, d_model=width, n_heads=1), "vanilla", 0, prompts())
        assert counter.frame_count == ONE_SHAPE * count


@pytest.mark.long
def test_a_model_that_was_compiled_is_let_go(counter):
    model = model_of(READER)
    list(train(model, text(), COMPILING, 0))
    assert counter.frame_count == ONE_SHAPE
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.long
def test_stacks_of_one_shape_are_compiled_once(counter, monkeypatch):
    monkeypatch.setattr("icl.stacks.decoder.can_compile", lambda device: True)
    recipe = replace(RECIPE, steps=4, log_every=2, evaluate_every=0, accumulate=1, compile=True)
    for count in (3, 4, 5):
        models = [model_of(REGRESSOR, seed=seed) for seed in range(count)]
        list(stacked.train(models, prompts(), [recipe], list(range(count)), [0.01] * count))
    assert counter.frame_count == 1


def test_float32_products_are_exact_on_a_gpu(monkeypatch):
    from icl.training.loop import state_precision

    found = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", found.append)
    state_precision(torch.device("cpu"))
    assert found == []
    state_precision(torch.device("cuda"))
    assert found == ["highest"]


@pytest.mark.slow
@COMPILED
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of its inductor
@pytest.mark.parametrize("variant", ["vanilla", "attnres-block"])
def test_inductor_gives_the_same_losses(variant):
    config = replace(READER, dropout=0.0)
    plain, compiled = (losses(config, variant, 0, text(), replace(COMPILING, compile=c)) for c in (False, True))
    assert compiled == pytest.approx(plain, rel=1e-4)
