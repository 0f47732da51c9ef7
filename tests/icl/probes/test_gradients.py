"""Gradients of branches against the probe of magnitudes, in which a stream flows on, and against differences."""

import pytest
import torch

from icl.models.decoder import Decoder
from icl.probes.gradients import gradients
from icl.probes.magnitude import magnitudes
from theory.plans.names import resolve
from theory.plans.presets import llama

CONFIG = llama(d_model=6, n_heads=1, n_layers=2, d_ff=5, vocab=7, context=5)
TOKENS = torch.tensor([[0, 3, 1, 6], [5, 5, 0, 4]])


def loss(answer):
    return torch.sin(answer * torch.arange(1, 8)).mean()


@pytest.mark.parametrize("name", ["vanilla", "attnres", "attnres-block:size=2", "denseformer"])
def test_branches_add_up_to_what_the_stream_gets(name):
    model = Decoder(CONFIG, resolve(name, CONFIG.shape), std=0.5).double()
    found, whole = gradients(model, TOKENS, loss), magnitudes(model, TOKENS, loss)
    assert found.loss == loss(model(TOKENS)).item()
    assert [float(g.norm()) for g in found.of_outputs] == pytest.approx(list(whole.output_gradient))
    own, stream = ([float(g.norm()) for g in gs] for gs in (found.of_reads, _after(found.of_reads)))
    assert (own if "attnres" in name else stream) == pytest.approx(list(whole.read_gradient))
    assert (stream if "attnres" in name else own) != pytest.approx(list(whole.read_gradient))
    by_layer = [n for n in found.of_parameters if n.startswith("layers.1.")]
    squares = sum(float(found.of_parameters[n].norm()) ** 2 for n in by_layer)
    assert squares**0.5 == pytest.approx(whole.layer_gradient[1])
    assert all(p.grad is None for p in model.parameters())


def _after(tensors):
    """Each with all later ones added."""
    return list(torch.stack(tensors).flip(0).cumsum(0).flip(0))


def test_a_gradient_is_a_difference_of_losses():
    model = Decoder(CONFIG, resolve("attnres", CONFIG.shape), std=0.5).double()
    gradient, step = gradients(model, TOKENS, loss).of_parameters["layers.0.attention.output.weight"], 1e-6
    with torch.no_grad():
        weight = model.get_parameter("layers.0.attention.output.weight")
        weight[1, 2] += step
        up = float(loss(model(TOKENS)))
        weight[1, 2] -= 2 * step
        down = float(loss(model(TOKENS)))
    assert (up - down) / (2 * step) == pytest.approx(float(gradient[1, 2]), rel=1e-5)
