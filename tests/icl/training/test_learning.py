"""What is learned, to the digit, from which random numbers, in which precision, compiled, and how fast."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from icl.checkpoint import TENSORS
from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.training.loop import ROUTINE, _dropout_stream, peak_flops, train
from icl.training.objectives import PromptTask, TextTask
from tests.icl.training.small import COMPILED, READER, RECIPE, REGRESSOR, model_of, numbers, prompts, rain, reader, text
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.names import resolve


@pytest.mark.long
def test_in_context_regression_is_learnt_and_nothing_leaks():
    """One pair tells w where there is no noise; before it, nobody can do better than zero."""
    task = PromptTask(RegressionTask(1, 1, 0.0), 2048)
    config = Architecture(d_model=16, n_layers=2, n_heads=2, d_ff=32, context=3, stem=Vectors(1))
    recipe = Recipe(steps=400, batch=64, learning_rate=0.01, log_every=100)
    *_, last = train(Decoder(config, resolve("vanilla", config.shape), std=0.2), task, recipe, 0)
    before, after = last.held_out.loss
    assert after + 4 * last.held_out.stderr[1] < 0.6
    assert before > 1 - 4 * last.held_out.stderr[0]


def test_a_sentence_is_learnt(tmp_path):
    """From files, through the tokenizer and the shards."""
    data = rain(tmp_path)
    task = TextTask(data, 16)
    config = Architecture(
        d_model=16, n_layers=1, n_heads=2, d_ff=32, context=16, stem=Tokens(data.manifest.tokenizer.vocab)
    )
    *_, last = train(model_of(config), task, Recipe(steps=120, batch=8, learning_rate=0.02, log_every=40), 0)
    assert np.mean(last.held_out.loss) < 0.25 * math.log(config.stem.vocab)


GOLDEN = {  # of every report the loss and the gradient norm, and the held-out losses by position where they are due
    "text": "3.018693 1.450459 2.755603 1.046462 2.986536 3.115633 3.199299 3.049591 2.877967 2.956673 "
    "2.598452 0.9887406 2.529676 0.8335456 2.971857 3.1354 3.250947 3.068246 2.811734 2.94052",
    "prompts": "4.385448 8.765549 4.946765 5.956845 4.152301 4.337278 3.854029 3.490205 "
    "8.567058 12.54267 5.753125 14.94616 4.125322 4.36676 3.862527 3.501503",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_losses(name):
    """Without dropout, whose masks are not the same on all kinds of CPU."""
    if name == "text":
        model, task = model_of(replace(READER, dropout=0.0), "skipv1+attnres"), text()
    else:
        model, task = model_of(replace(REGRESSOR, n_layers=2), "resformer-learned+denseformer"), prompts()
    found = []
    for logged in train(model, task, RECIPE, 5):
        found += [logged.loss, logged.gradient_norm, *(logged.held_out.loss if logged.held_out else ())]
    assert found == pytest.approx([float(x) for x in GOLDEN[name].split()], rel=1e-4), (
        f"the same recipe trains another model than it did; if that was meant, raise icl.training.loop.ROUTINE, now "
        f"{ROUTINE}, and write these here: {' '.join(f'{x:.7g}' for x in found)}"
    )


def test_dropout_is_another_one_in_every_part_of_every_step_of_every_seed():
    """And follows from these three alone, whatever torch's own stream has come to."""

    def drawn(state):
        torch.manual_seed(state)
        found = {}
        for name in itertools.product(range(2), range(3), range(2)):
            with _dropout_stream(reader(), *name):
                found[name] = tuple(torch.rand(3).tolist())
        return found

    assert drawn(0) == drawn(1)
    assert len(set(drawn(0).values())) == 12


def test_training_leaves_torch_s_own_stream_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    list(train(reader(), text(), replace(RECIPE, steps=3, evaluate_every=0), 0))
    assert torch.equal(torch.rand(3), expected)
    one, other = (list(train(reader(), text(), replace(RECIPE, steps=3, evaluate_every=0), 0)) for _ in range(2))
    assert [numbers(x) for x in one] == [numbers(x) for x in other]


def test_bf16_trains_weights_that_stay_in_float32(tmp_path):
    losses = {}
    for precision in ("fp32", "bf16"):
        recipe = replace(RECIPE, precision=precision)
        model = model_of(replace(READER, dropout=0.0), "attnres")
        logged = list(train(model, text(), recipe, 0, folder=tmp_path / precision))
        losses[precision] = [x.loss for x in logged] + list(logged[-1].held_out.loss)
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        state = load_file(tmp_path / precision / "checkpoint-000000012" / TENSORS)
        assert {x.dtype for x in state.values()} == {torch.float32}
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.01)
    assert losses["bf16"] != losses["fp32"]


@pytest.mark.slow
@COMPILED
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of its inductor
def test_a_compiled_model_trains_the_same():
    found = []
    for compiled in (False, True):
        model = model_of(REGRESSOR, "attnres")
        logged = list(train(model, prompts(), replace(RECIPE, compile=compiled), 0))
        found.append([number for x in logged for number in (x.loss, x.gradient_norm)] + list(logged[-1].held_out.loss))
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_tokens_a_second_and_the_share_of_the_peak(monkeypatch):
    (logged,) = train(model_of(REGRESSOR), prompts(), replace(RECIPE, steps=2, evaluate_every=0), 0)
    assert logged.tokens_per_second > 0
    assert logged.mfu is None
    monkeypatch.setattr("icl.training.loop.peak_flops", lambda device, precision: 1e12)
    (logged,) = train(model_of(REGRESSOR), prompts(), replace(RECIPE, steps=2, evaluate_every=0), 0)
    assert 0 < logged.mfu < 1


@pytest.mark.parametrize(
    ("title", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L40", None),
        ("NVIDIA L4", 121e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
        ("Tesla T4", None),
    ],
)
def test_peaks_are_told_by_the_whole_name(title, peak, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: title)
    assert peak_flops(torch.device("cuda"), "bf16") == peak
    assert peak_flops(torch.device("cuda"), "fp32") is None
    assert peak_flops(torch.device("cpu"), "bf16") is None
