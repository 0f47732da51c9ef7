"""What decoders with depth attention start as when norms have an eps: PreNorm decoders with larger ones, exactly."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from theory.attnres import zero_query
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve

VOCAB, TOKENS, D = 7, 5, 8
CONFIG = Architecture(
    d_model=D, n_layers=3, n_heads=2, d_ff=6, context=TOKENS, stem=Tokens(VOCAB), positions="rope", norm_eps=0.01
)
VARIANTS = ["attnres", "attnres-block:size=2", "attnres-block:size=3", "attnres-static", "attnres-sigmoid", "vanilla"]
VARIANTS += ["attnres-no-key-norm", "attnres-heads:heads=2"]


def pair(config, variant, seed=0, scale=0.3):
    """A decoder of the variant with zero queries, and a PreNorm one, with the same moved weights, in float64."""
    models = [Decoder(config, resolve(name, config.shape), seed=seed).double().eval() for name in (variant, "vanilla")]
    generator = torch.Generator().manual_seed(seed)
    own = dict(models[0].named_parameters())
    with torch.no_grad():
        for name, parameter in models[1].named_parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator).double()
            own[name].copy_(parameter)
    return models


def with_eps(model, all_eps):
    for module, eps in zip([*model.sublayers, model], all_eps, strict=True):
        module.norm.eps = eps
    return model


def tokens(seed=0):
    return torch.randint(VOCAB, (3, TOKENS), generator=torch.Generator().manual_seed(seed))


def close(one, other):
    return bool((one - other).norm() <= 1e-10 * (1 + other.norm()))


@settings(max_examples=12)
@given(
    st.sampled_from(VARIANTS),
    st.integers(1, 3),
    st.sampled_from([{}, {"norm": "layer", "gated": False}]),
    st.sampled_from([0.0, 1e-5, 1.0]),
    st.integers(0, 99),
)
def test_start_is_a_prenorm_decoder_with_larger_eps(variant, layers, changes, eps, seed):
    config = replace(CONFIG, n_layers=layers, norm_eps=eps, **changes)
    model, prenorm = pair(config, variant, seed)
    with_eps(prenorm, zero_query.equivalent_eps(config, model.plan))
    answers = [m(tokens(seed)) for m in (model, prenorm)]
    assert close(*answers)
    for answer in answers:
        answer.square().mean().backward()
    own = dict(model.named_parameters())
    assert all(close(own[name].grad, p.grad) for name, p in prenorm.named_parameters())


@pytest.mark.parametrize(
    "call",
    [
        lambda: zero_query.norm_change(-1, 0, 1),
        lambda: zero_query.norm_change(1, 2, 1),
        lambda: zero_query.difference_bounds(CONFIG, resolve("attnres", CONFIG.shape), [1.0], [1.0]),
        lambda: zero_query.equivalent_eps(CONFIG, resolve("attnres-window:window=2", CONFIG.shape)),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()
