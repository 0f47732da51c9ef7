"""Models for other lengths than they were built for."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.context import of_context
from icl.models.decoder import Decoder
from icl.testing import check_identity
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve

CONFIG = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=16, context=7, stem=Tokens(11))


def model_of(positions, variant="vanilla"):
    config = replace(CONFIG, positions=positions)
    return Decoder(config, resolve(variant, config.shape), std=0.3).double().eval()


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["rope", "learned", "none", "bias"]),
    st.sampled_from(["vanilla", "skipv1", "attnres"]),
    st.integers(1, 7),
)
def test_a_shorter_context_is_the_same_function_of_shorter_texts(positions, variant, context):
    model = model_of(positions, variant)
    found = of_context(model, context)
    tokens = torch.randint(11, (2, context), generator=torch.Generator().manual_seed(0))
    check_identity(found(tokens), model(tokens), terms=100)
    assert (found.config.context, model.config.context, found.training) == (context, 7, False)
    if context < 7:
        with pytest.raises(ValueError, match="more than the context"):
            found(torch.zeros(1, 7, dtype=torch.long))


def test_what_is_cut_is_its_own_and_the_rest_is_shared():
    model = model_of("learned")
    found = of_context(model, 3)
    old = dict(model.named_parameters())
    for name, weight in found.named_parameters():
        assert weight.requires_grad
        assert (weight.data_ptr() == old[name].data_ptr()) == (name != "positions")
    assert of_context(model, 7) is model


@pytest.mark.parametrize(("positions", "ends"), [("learned", "positions"), ("bias", "scores"), ("rope", None)])
def test_a_longer_context_needs_positions_that_go_on(positions, ends):
    if ends is None:
        assert of_context(model_of(positions), 9).config.context == 9
        return
    with pytest.raises(
        BadInput, match=rf"^9 tokens are more than the context of 7, at which .*{ends} of the model ends"
    ):
        of_context(model_of(positions), 9)
    with pytest.raises(BadInput, match="context"):
        of_context(model_of(positions), 0)
