"""What decoders with depth attention start as when norms have an eps: PreNorm decoders with larger ones, exactly."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.probes.magnitude import FeedForwardWeights, sublayer_weights
from theory.attnres import zero_query
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve

VOCAB, TOKENS, D = 7, 5, 8
CONFIG = Architecture(
    d_model=D, n_layers=3, n_heads=2, d_ff=6, context=TOKENS, stem=Tokens(VOCAB), positions="rope", norm_eps=0.01
)
VARIANTS = ["attnres", "attnres-block:size=2", "attnres-block:size=3", "attnres-static", "attnres-sigmoid", "vanilla"]


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


@pytest.mark.parametrize("variant", ["attnres", "attnres-block:size=3"])
def test_start_is_not_the_prenorm_decoder_itself(variant):
    """The control: with eps = 0.01 and the same eps in both."""
    model, prenorm = pair(CONFIG, variant)
    assert not close(model(tokens()), prenorm(tokens()))


def slope(sublayer, weights):
    if isinstance(weights, FeedForwardWeights):
        return zero_query.feed_forward_slope(**vars(weights))
    query, key = (
        sublayer.projections.get_submodule(name).weight.detach().numpy().reshape(-1, CONFIG.width, D)
        for name in ("query", "key")
    )
    return zero_query.attention_slope(query, key, **vars(weights))


def streams(model, inputs):
    """The stream before every sublayer and at the end, from what the depth rule reads."""
    reads, read = [], model.depth.read
    model.depth.read = lambda *state: reads.append(read(*state)) or reads[-1]
    model(inputs)
    del model.depth.read
    return [x.detach().numpy() for x in reads]


def distances_and_bounds(config, variant, seed, scale, centred, away=0.0):
    """Of every read; away: added to all numbers of the embeddings."""
    model, prenorm = pair(config, variant, seed, scale)
    with torch.no_grad():
        for one in (model, prenorm):
            one.stem.embedding.weight += away
    found, stream = (streams(m, tokens(seed)) for m in (model, prenorm))
    scales = np.sqrt(config.norm_eps / np.array(zero_query.equivalent_eps(config, model.plan)))
    distances = [np.linalg.norm(h / s - x, axis=-1).max() for h, s, x in zip(found, scales, stream, strict=True)]
    slopes = [slope(*both) for both in zip(prenorm.sublayers, sublayer_weights(prenorm), strict=True)]
    smallest = [float((x.var(-1) if centred else (x**2).mean(-1)).min()) for x in stream[:-1]]
    return distances, zero_query.difference_bounds(config, model.plan, smallest, slopes)


@settings(max_examples=15)
@given(
    st.sampled_from(VARIANTS),
    st.sampled_from([{}, {"gated": False}, {"norm": "layer"}]),
    st.sampled_from([1e-8, 1e-4, 0.1]),
    st.sampled_from([0.05, 0.3]),
    st.integers(0, 99),
)
def test_distance_keeps_below_its_bound(variant, changes, eps, scale, seed):
    config = replace(CONFIG, norm_eps=eps, n_layers=2, **changes)
    found = distances_and_bounds(config, variant, seed, scale, centred=config.norm == "layer")
    assert all(x <= bound + 1e-12 for x, bound in zip(*found, strict=True))


@pytest.mark.parametrize("centred", [True, False])
def test_under_layer_norm_variances_count(centred):
    """Far from zero a token's mean square is no bound's."""
    config = replace(CONFIG, norm_eps=1e-3, n_layers=2, norm="layer")
    distances, bounds = distances_and_bounds(config, "attnres", 0, 0.05, centred=centred, away=10.0)
    assert all(x <= bound + 1e-12 for x, bound in zip(distances, bounds, strict=True)) == centred


@given(st.floats(0.01, 4), st.floats(0, 1), st.floats(1, 50))
def test_change_of_a_norm(mean_square, eps, sources):
    other = eps * sources**2
    change = zero_query.norm_change(mean_square, eps, other)
    x = torch.tensor([[2.0, -1.0, 1.0]], dtype=torch.float64)
    x *= (mean_square / x.square().mean()).sqrt()
    before, after = (torch.nn.functional.rms_norm(x, (3,), None, e).norm() for e in (eps, other))
    assert float(after / before) == pytest.approx(1 - change, rel=1e-12)
    assert 0 <= change <= (other - eps) / (2 * (mean_square + eps)) + 1e-15


def test_leading_order_is_linear_in_eps():
    """Against derivatives by the eps of each norm: what is left is of second order."""
    left = []
    for eps in (1e-4, 1e-5):
        config = replace(CONFIG, norm_eps=eps)
        model, prenorm = pair(config, "attnres")
        others, base = zero_query.equivalent_eps(config, model.plan), [eps] * (2 * config.n_layers + 1)
        answer, expected = with_eps(prenorm, base)(tokens()).detach(), 0
        step = 1e-6
        for i, other in enumerate(others):
            up, down = ([e + (j == i) * sign * step for j, e in enumerate(base)] for sign in (1, -1))
            slopes = (with_eps(prenorm, up)(tokens()) - with_eps(prenorm, down)(tokens())).detach() / (2 * step)
            expected = expected + (other - eps) * slopes
        difference = model(tokens()).detach() - answer
        assert difference.norm() > 1e-8
        left.append(float((difference - expected).norm() / difference.norm()))
    assert left[1] < left[0] / 5
    assert left[1] < 0.1


@pytest.mark.parametrize(("kind", "most"), [("gelu", zero_query.GELU), ("silu", zero_query.SILU)])
def test_slopes_of_activations(kind, most):
    x = torch.linspace(-20, 20, 40_001, dtype=torch.float64, requires_grad=True)
    getattr(torch.nn.functional, kind)(x).sum().backward()
    assert 0.99 * most < float(x.grad.abs().max()) < most


@pytest.mark.parametrize("variant", ["attnres", "attnres-block:size=3", "attnres-input-query"])
def test_the_first_query_and_its_gain_are_dead(variant):
    """A softmax of one source is 1, so nothing of that read's is ever trained; all other queries are."""
    model, _ = pair(CONFIG, variant)
    model(tokens()).square().mean().backward()
    assert not model.depth.query.grad[0].any()
    assert model.depth.query.grad[1:].norm(dim=1).min() > 1e-8
    with torch.no_grad():
        before = model(tokens())
        model.depth.query[0] += 1
        model.depth.gain[0] += 1
        assert torch.equal(model(tokens()), before)


def test_one_block_is_not_a_prenorm_decoder_once_its_queries_move():
    """Two sources: the embedding and the sum of all outputs."""
    config = replace(CONFIG, norm_eps=0.0)
    model, prenorm = pair(config, "attnres-block:size=6")
    assert close(model(tokens()), prenorm(tokens()))
    with torch.no_grad():
        model.depth.query[1:] += torch.randn(6, D, generator=torch.Generator().manual_seed(0)).double()
    assert not close(model(tokens()), prenorm(tokens()))


def test_without_a_last_read_earlier_blocks_are_lost():
    """What the seed's pseudo-code returns as the stream is the last block's sum, and at zero queries not the mean."""
    model, _ = pair(replace(CONFIG, norm_eps=0.0), "attnres-block:size=2")
    states, write = [], model.depth.write
    model.depth.write = lambda *state: states.append(write(*state)) or states[-1]
    whole = model(tokens())
    blocks = [source.value for source in states[-1].earlier]
    last, everything = (model.stem.answer(model.norm(x)) for x in (blocks[-1], sum(blocks)))
    assert close(everything, whole)
    assert not close(last, whole)


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
