"""Heads left out: what that is in the weights, and the order in which it is done."""

from functools import partial

import pytest
import torch

from icl.models.decoder import Decoder
from icl.probes.heads import heads_of, removal, without
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

CONFIG = Architecture(d_model=12, n_layers=2, n_heads=3, d_ff=8, context=5, stem=Vectors(2))


def made(variant, **changes):
    config = Architecture(**{**vars(CONFIG), **changes})
    return Decoder(config, resolve(variant, config.shape), std=0.5, seed=1).double(), torch.randn(4, 5, 2).double()


@pytest.mark.parametrize("variant", ["vanilla", "resformer", "dva-attention"])
def test_a_head_left_out_is_one_whose_output_goes_nowhere(variant):
    """Its columns of the output projection set to zero; in every layer by itself, and hooks are gone afterwards."""
    model, inputs = made(variant)
    plain = model(inputs)
    for layer, head in heads_of(model):
        weight = model.get_parameter(f"layers.{layer - 1}.attention.output.weight")
        kept = weight.detach().clone()
        with torch.no_grad():
            weight[:, (head - 1) * 4 : head * 4] = 0
        expected = model(inputs)
        with torch.no_grad():
            weight.copy_(kept)
        with without(model, [(layer, head)]):
            found = model(inputs)
        assert torch.allclose(found, expected, atol=1e-12)
        assert not torch.allclose(found, plain, atol=1e-6)
    assert torch.equal(model(inputs), plain)


def test_without_an_output_projection_its_numbers_are_zero():
    model, inputs = made("dva", n_layers=1)
    with torch.no_grad(), without(model, [(1, 1), (1, 3)]):
        stream = []
        hook = (
            model.layers[0].get_submodule("attention").register_forward_hook(lambda _m, _a, out: stream.append(out[0]))
        )
        model(inputs)
        hook.remove()
    assert not stream[0][..., :4].any()
    assert not stream[0][..., 8:].any()
    assert stream[0][..., 4:8].all()


def test_heads_go_in_the_order_of_what_they_cost_alone():
    model, inputs = made("vanilla")
    target = model(inputs).detach()

    def loss():
        with torch.no_grad():
            return float((model(inputs) - target).square().mean())

    order, losses = removal(model, loss)
    assert sorted(order) == heads_of(model)
    assert losses[0] == 0
    assert len(losses) == len(order) + 1
    alone = []
    for head in order:
        with without(model, [head]):
            alone.append(loss())
    assert alone == sorted(alone)
    assert losses[1] == alone[0]
    with without(model, order):
        assert losses[-1] == partial(loss)()
