"""Precision, compilation, speed."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from icl.checkpoint import TENSORS
from icl.models.decoder import Decoder
from icl.training.devices import peak_flops
from icl.training.loop import train
from tests.icl.training.small import READER, RECIPE, REGRESSOR, model_of, prompts, text


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
def test_every_model_of_a_process_is_compiled(monkeypatch):
    """However many were compiled before it: torch stops after eight versions of one function, and says little."""
    graphs = []

    def backend(graph, _inputs):
        graphs[-1] += 1
        return graph.forward

    monkeypatch.setattr(Decoder, "compile", lambda self, **options: nn.Module.compile(self, backend=backend, **options))
    recipe = replace(RECIPE, steps=2, log_every=2, evaluate_every=0, compile=True)
    for width in range(4, 16, 2):
        graphs.append(0)
        list(train(model_of(replace(REGRESSOR, d_model=width, n_heads=1)), prompts(), recipe, 0))
    assert len(set(graphs)) == 1, graphs
    assert graphs[0] >= 2  # one to train, one to evaluate


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of its inductor
def test_a_compiled_model_trains_the_same():
    if not (shutil.which("g++") or shutil.which("clang++")):  # then torch cannot compile
        return
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
