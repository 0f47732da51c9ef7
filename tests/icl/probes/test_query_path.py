"""Which decoders have a path from the query to its answer that no context enters, as theory's bias does."""

from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.probes.query_path import query_path
from icl.prompts import Generator
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.names import resolve
from theory.plans.plan import Chain, DepthAttention, DepthAverage, Residual

D, N = 3, 4
LINEAR = Architecture(
    d_model=5,
    n_layers=2,
    n_heads=1,
    d_ff=0,
    context=2 * N + 1,
    stem=Vectors(D),
    norm="none",
    positions="none",
    score="linear",
)
VARIANTS = ["vanilla", "skipv1", "resformer", "svformer"]


def decoder(depth, variant="vanilla", **options):
    """All weights, learned positions too, away from zero; float64."""
    config = replace(LINEAR, n_heads=2, d_model=6, **options)
    plan = replace(resolve(variant, config.shape), depth=depth)
    model, numbers = Decoder(config, plan, seed=0).double(), Generator(11)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(numbers.normal(tuple(weight.shape), torch.float64))
    return model


def alone(model, query, scale=1.0):
    """The answer to a query among zero tokens."""
    tokens = torch.cat([torch.zeros(1, 2 * N, D, dtype=torch.float64), scale * query[None, None]], dim=1)
    return model(tokens)[0, -1].detach()


QUERY = torch.tensor([0.3, -0.7, 0.5], dtype=torch.float64)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mask", ["causal", "context"])
@pytest.mark.parametrize("depth", [Residual(), DepthAverage(), DepthAttention(key_norm=False)])
def test_a_residual_stream_is_such_a_path(depth, mask, variant):
    model = decoder(depth, variant, mask=mask)
    assert float(query_path(model, N).abs().max()) > 1e-3
    if depth == Residual():
        assert torch.allclose(query_path(model, N), model.stem.head.weight @ model.stem.read_in.weight)


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_a_stream_the_query_alone_gives_a_ninth_power(variant):
    """Two layers of linear scores, and the query sees itself: cubic twice over, so nothing is of first degree.

    Nor where layer 2 reads values of layer 1, which are of first degree: 3 + 3 + 1.
    """
    model = decoder(Chain(), variant)
    assert not query_path(model, N).any()
    once = alone(model, QUERY)
    powers = {"vanilla": [9], "skipv1": [9, 7], "resformer": [9, 7], "svformer": [7]}[variant]
    assert float(once.abs().max()) > 0
    scales = [2.0**k for k in range(len(powers))]
    mixture = torch.tensor([[t**p for p in powers] for t in scales], dtype=torch.float64)
    parts = torch.linalg.solve(mixture, torch.stack([alone(model, QUERY, t) for t in scales]))
    predicted = sum(3.0**p * part for p, part in zip(powers, parts, strict=True))
    assert torch.allclose(alone(model, QUERY, 3.0), predicted, rtol=1e-8)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("score", ["linear", "softmax"])
def test_hidden_from_itself_the_query_gives_nothing(variant, score):
    """The paper's mask: without a stream and positions the query is but a question to the context, of any degree."""
    model = decoder(Chain(), variant, mask="context", score=score)
    assert not alone(model, QUERY).any()
    assert not query_path(model, N).any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_softmax_that_sees_the_query_is_such_a_path(variant):
    """Its weights are positive whatever the scores, so the query's value comes through both layers."""
    assert float(query_path(decoder(Chain(), variant, score="softmax"), N).abs().max()) > 1e-3


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mask", ["causal", "context"])
def test_positions_in_the_tokens_are_such_a_path(mask, variant):
    """Learned ones are in queries, keys and values alike: products of them with the query need no context."""
    assert float(query_path(decoder(Chain(), variant, mask=mask, positions="learned"), N).abs().max()) > 1e-3


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mask", ["causal", "context"])
def test_the_assumed_copy_is_no_such_path(mask, variant):
    """The ladder's first rung, as the theorem has it: the query is hidden from layer 2, and alone gives nothing."""
    model = decoder(Chain(), variant, mask=mask, copy_rank=2, head_dim=3)
    assert not query_path(model, N).any()
    assert bool(alone(model, QUERY).any()) == (mask == "causal")


def unbiased(model, layers):
    """Without the numbers that these layers' heads add to the score of the query with itself."""
    with torch.no_grad():
        for n in layers:
            model.layers[n - 1]["attention"].position_bias.scores[:, -1, -1] = 0
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_biases_of_scores_are_such_a_path_where_the_query_sees_itself(variant):
    """The ladder's second rung: no stream, linear scores, a bias of positions in both layers, a causal mask.

    With the query's bias towards itself at zero in layer 2 its answer is of third degree at least, and so, where layer
    2 reads no value of layer 1, at zero in layer 1.  With the paper's mask in both layers there is nothing.
    """
    rung = {"depth": Chain(), "variant": variant, "positions": "bias"}
    model = decoder(**rung)
    attention = [layer["attention"] for layer in model.layers]
    assert float(query_path(model, N).abs().max()) > 1e-3
    assert not query_path(unbiased(decoder(**rung), [2]), N).any()
    assert not query_path(unbiased(decoder(**rung), [1, 2]), N).any()
    through_values = query_path(unbiased(decoder(**rung), [1]), N).any()
    assert bool(through_values) == (variant != "vanilla")
    assert not query_path(decoder(**rung, mask="context"), N).any()
    if variant == "vanilla":  # C, by hand
        path = model.stem.read_in.weight
        for part in attention:
            values = part.projections.value.weight @ path
            weighted = values.unflatten(0, (2, -1)) * part.position_bias.scores[:, -1, -1, None, None]
            path = part.output.weight @ weighted.flatten(0, 1)
        assert torch.allclose(query_path(model, N), model.stem.head.weight @ path)


def test_rotary_positions_are_none_such():
    model = decoder(Chain(), positions="rope", head_dim=4)
    assert not query_path(model, N).any()
    assert alone(model, QUERY).any()


@pytest.mark.parametrize("depth", [Chain(), Residual()])
def test_what_is_linear_in_the_query_beside_the_context_is_the_slope(depth):
    """By the definition: of the answer to t x_{n+1} among zeros, t C x_{n+1} is what a small t leaves."""
    model, tiny = decoder(depth), 1e-4
    assert torch.allclose(alone(model, QUERY, tiny) / tiny, query_path(model, N) @ QUERY, atol=1e-6)


def test_the_model_is_left_as_it_was():
    model = decoder(Residual(), dropout=0.5).train()
    assert torch.equal(query_path(model, N), query_path(model, N))
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_a_query_is_a_vector():
    model = Decoder(replace(LINEAR, stem=Tokens(5)), resolve("vanilla", LINEAR.shape))
    with pytest.raises(BadInput, match="a query is a vector, and the model reads Tokens"):
        query_path(model, N)
