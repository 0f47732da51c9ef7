"""A model on prompts that it was not trained on."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.training.elsewhere import evaluate_on, reaching
from icl.training.loop import evaluate
from icl.training.objectives import PromptTask
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.law import Law
from theory.plans.names import resolve

CONFIG = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=16, context=7, stem=Vectors(2))
RECIPE = Recipe(steps=4, batch=4, learning_rate=0.01, log_every=2)


def model_of(variant="vanilla", **options):
    config = replace(CONFIG, **options)
    return Decoder(config, resolve(variant, config.shape), seed=0, std=0.3)


def asked(n, d=2, sigma=0.1, law=None, scored="all"):
    return PromptTask(RegressionTask(d, n, sigma, law or Law()), 64, 32, scored)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["rope", "none"]),
    st.sampled_from(["softmax", "linear"]),
    st.sampled_from(["vanilla", "skipv1", "resformer", "attnres"]),
    st.integers(1, 6),
)
def test_positions_that_are_not_learnt_go_on(positions, score, variant, n):
    """As in a model built for the longer context with the same weights; a causal model's first answers stay."""
    model = model_of(variant, positions=positions, score=score)
    built = model_of(variant, positions=positions, score=score, context=2 * n + 1)
    built.load_state_dict(model.state_dict())
    prompts = asked(n).batch(1, 2, 3).inputs
    found = reaching(model, 2 * n + 1)(prompts)
    assert torch.equal(found, built(prompts))
    both = min(2 * n + 1, 7)
    assert torch.allclose(found[:, :both], model(prompts[:, :both]), atol=1e-5)
    assert model.config.context == 7


def test_weights_are_shared_and_nothing_changes():
    model = model_of().eval()
    longer = reaching(model, 11)
    assert reaching(model, 7) is model
    assert not longer.training
    for name, weight in longer.named_parameters():
        assert weight.data_ptr() == dict(model.named_parameters())[name].data_ptr()
    before = {name: p.clone() for name, p in model.named_parameters()}
    evaluate_on(model, asked(5), RECIPE)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_what_ends_at_the_context_is_told():
    model = model_of(positions="learned")
    with pytest.raises(
        BadInput, match=r"^9 tokens are more than the context of 7, at which positions of the model ends$"
    ):
        evaluate_on(model, asked(4), RECIPE)
    assert len(evaluate_on(model, asked(2), RECIPE).loss) == 3


def test_where_prompts_are_as_in_training_it_is_the_usual_evaluation():
    model, task = model_of(), asked(3)
    assert evaluate_on(model, task, RECIPE) == evaluate(model, task, RECIPE)


def test_noise_and_laws_beyond_training():
    model = model_of()
    usual, last = evaluate_on(model, asked(3), RECIPE), evaluate_on(model, asked(5, scored="last"), RECIPE)
    noisy, other = evaluate_on(model, asked(3, sigma=3.0), RECIPE), evaluate_on(model, asked(3, law=Law(w0=3)), RECIPE)
    assert len(last.loss) == 1
    assert min(noisy.loss) > max(usual.loss)
    assert min(other.loss) > max(usual.loss)


@pytest.mark.parametrize("stem", [Vectors(3), Tokens(5)])
def test_prompts_of_another_width_are_told(stem):
    with pytest.raises(BadInput, match="prompts of d = 2 are for a model that reads vectors of that width, not"):
        evaluate_on(model_of(stem=stem), asked(3), RECIPE)
