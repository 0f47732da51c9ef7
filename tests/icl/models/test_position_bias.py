"""Biases of scores for every pair of positions: against plain loops, with gradients, and beside the rest of a model."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.attention import attend
from icl.models.decoder import Decoder
from icl.models.frame import Frame
from icl.testing import check_identity
from tests.icl.models.small import with_gradients
from theory.plans.accounting import parameters
from theory.plans.architecture import Architecture, Tokens, Vectors, misfits
from theory.plans.names import resolve
from theory.plans.plan import ABSENT

SIZES = Architecture(
    d_model=6, n_layers=3, n_heads=4, d_ff=5, context=5, stem=Tokens(7), n_kv_heads=2, head_dim=3, positions="bias"
)
SETTINGS = {
    "softmax": {},
    "linear": {"score": "linear", "norm": "none", "d_ff": 0},
    "context": {"mask": "context", "score": "linear"},
    "no mask": {"mask": "none"},
    "dropout": {"dropout": 0.5},
}


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def loops(query, keys, values, bias, visible, linear):
    """One pair of tokens after the other, over all lists; bias (H, T, T), or (batch, H, T, T)."""
    batch, heads, length, width = query.shape
    group = heads // keys[0].shape[1]
    bias = bias.expand(batch, -1, -1, -1)
    out = []
    for b in range(batch):
        for h in range(heads):
            for i in range(length):
                total, norm = 0, 0
                for key, value in zip(keys, values, strict=True):
                    for j in range(length):
                        if not visible[i, j]:
                            continue
                        product = query[b, h, i] @ key[b, h // group, j]
                        score = (product if linear else product / width**0.5) + bias[b, h, i, j]
                        weight = score if linear else score.exp()
                        total, norm = total + weight * value[b, h // group, j], norm + weight
                out.append(total if linear else total / norm)
    return torch.stack(out).unflatten(0, (batch, heads, length))


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    length=st.integers(1, 5),
    width=st.integers(1, 3),
    lists=st.integers(1, 2),
    linear=st.booleans(),
    causal=st.booleans(),
    per_prompt=st.booleans(),
)
@pytest.mark.long
def test_attention_and_its_gradients_are_those_of_loops(
    batch, kv_heads, group, length, width, lists, linear, causal, per_prompt
):
    query = normal(batch, kv_heads * group, length, width)
    bias = normal(*[batch] * per_prompt, kv_heads * group, length, length, seed=1)
    keys = tuple(normal(batch, kv_heads, length, width, seed=2 + i) for i in range(lists))
    values = tuple(normal(batch, kv_heads, length, width + 1, seed=5 + i) for i in range(lists))
    seen = torch.ones(length, length).tril(0 if causal else length).bool()
    frame = Frame(seen if causal else None, causal, None, None, {})
    upstream = normal(batch, kv_heads * group, length, width + 1, seed=8)
    leaves = [query, bias, *keys, *values]
    ours = with_gradients(lambda q, b, *x: attend(q, x[:lists], x[lists:], frame, b, linear=linear), leaves, upstream)
    theirs = with_gradients(lambda q, b, *x: loops(q, x[:lists], x[lists:], b, seen, linear), leaves, upstream)
    size = max(float(x.norm()) for x in theirs)
    for found, expected in zip(ours, theirs, strict=True):
        check_identity(found, expected, terms=20 * length * lists, scale=size)
    assert not ours[2][..., ~seen].any()
    if linear or length > 1:  # the control; a softmax over one token, or it twice, has no use for a bias
        without = attend(query, keys, values, frame, linear=linear)
        assert float((without - ours[0]).norm()) > 1e-6 * float(ours[0].norm())


def meaningful():
    for kind, changes in SETTINGS.items():
        for name in ("vanilla", "skipv1", "cross-layer", "resformer", "dva-attention", "dva-initial-attention"):
            config = replace(SIZES, **changes)
            if not misfits(config, resolve(name, config.shape)):
                yield pytest.param(config, name, id=f"{kind}-{name}")


@pytest.mark.parametrize(("config", "name"), list(meaningful()))
def test_hidden_pairs_get_no_gradient_and_shorter_sequences_use_the_first_positions(config, name):
    model, length = Decoder(config, resolve(name, config.shape), std=0.3).double().eval(), 4
    model(torch.arange(length)[None]).square().sum().backward()
    allowed = torch.zeros(config.context, config.context, dtype=torch.bool)
    allowed[:length, :length] = {
        "causal": torch.ones(length, length).tril().bool(),
        "none": torch.ones(length, length).bool(),
        "context": (torch.arange(length) < length - 1).expand(length, length),
    }[config.mask]
    for layer in model.layers:
        gradient = layer["attention"].position_bias.scores.grad
        assert gradient.shape == (config.n_heads, config.context, config.context)
        assert not gradient[:, ~allowed].any()
        touched = (gradient != 0).any(0)
        touched[0, 0] = True  # a softmax over the first token alone has no use for a bias
        assert touched[allowed].all()


VANILLA = resolve("vanilla", SIZES.shape)
FIRST_LEFT_OUT = replace(VANILLA, table=(VANILLA.table[0], *((ABSENT, *row[1:]) for row in VANILLA.table[1:])))


@pytest.mark.parametrize(
    ("chosen", "heads_there"),
    [(resolve("skipv0", SIZES.shape), 8), (FIRST_LEFT_OUT, 8), (resolve("skipv1", SIZES.shape), 12)],
)
def test_biases_start_alike_wherever_heads_agree(chosen, heads_there):
    """Those of heads that are left out are cut away, the second half above layer 1 or the first; the others' stay."""
    base = Decoder(SIZES, VANILLA, seed=3, std=0.1)
    model = Decoder(SIZES, chosen, seed=3, std=0.1)
    for n, (ours, theirs) in enumerate(zip(model.layers, base.layers, strict=True), 1):
        heads = [(h - 1) * SIZES.group + g for h in chosen.live(n) for g in range(SIZES.group)]
        assert torch.equal(ours["attention"].position_bias.scores, theirs["attention"].position_bias.scores[heads])
    assert not torch.equal(*(base.layers[i]["attention"].position_bias.scores for i in (0, 1)))
    live = sum(len(chosen.live(n)) for n in range(1, 4)) * SIZES.group
    assert parameters(SIZES, chosen)["positions"] == live * SIZES.context**2
    assert live == heads_there


def test_their_deviation_is_std():
    scores = Decoder(replace(SIZES, context=64), VANILLA, std=0.02).layers[1]["attention"].position_bias.scores
    assert float(scores.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert abs(float(scores.detach().mean())) < 5 * 0.02 / scores.numel() ** 0.5


@pytest.mark.parametrize("changes", [{}, {"score": "linear"}, {"mask": "none"}])
def test_zero_biases_are_none(changes):
    """And order matters with them: without positions a decoder cannot tell the tokens before the last one apart."""
    config = replace(SIZES, stem=Vectors(3), n_layers=1, **changes)
    model, plain = (
        Decoder(replace(config, positions=positions), resolve("vanilla", config.shape), seed=1, std=0.5).double()
        for positions in ("bias", "none")
    )
    inputs = normal(2, 5, 3)
    turned = inputs[:, [2, 0, 3, 1, 4]]
    with torch.no_grad():
        assert not torch.allclose(model(inputs)[:, -1], model(turned)[:, -1], rtol=1e-6)
        for layer in model.layers:
            layer["attention"].position_bias.scores.zero_()
        check_identity(model(inputs), plain(inputs), terms=100)
        check_identity(model(inputs)[:, -1], model(turned)[:, -1], terms=100)


def test_dropout_of_a_softmax_s_weights_acts_in_training_only():
    """The embeddings' and sublayers' dropout replaced by nothing, so that the weights' alone is left."""
    model, twin = Decoder(replace(SIZES, dropout=0.5), VANILLA, std=0.5), Decoder(SIZES, VANILLA, std=0.5)
    model.dropout = torch.nn.Identity()
    tokens = torch.arange(5)[None]
    torch.manual_seed(0)
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), twin(tokens))
