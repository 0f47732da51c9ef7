"""A stack answers what each of its decoders answers alone, whatever their plans, and gives each its own gradients."""

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.stacks import decoder as stacked
from icl.stacks.decoder import StackedDecoder, misfit
from icl.testing import check_identity, plans
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Latent, Tokens, Vectors, misfits
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention, Plan, plan

D, N = 3, 2
SHORT = [p for p in Phase if p is not Phase.shrink]  # a failing example takes minutes to shrink
MORE = {
    "layer norms and biases": {"norm": "layer", "bias": True, "qkv_bias": True, "gated": False},
    "rope": {"positions": "rope", "head_dim": 4},
    "position bias": {"positions": "bias"},
    "linear": {"norm": "none", "score": "linear", "d_ff": 0, "positions": "bias"},
    "context": {"mask": "context"},
    "bare": {"positions": "none", "mask": "none", "head_dim": 3},
    "bare head": {"normed": "sublayers"},
    "bare sublayers": {"norm": "layer", "bias": True, "normed": "head"},
    "as they are": {"stem": Vectors(6, read_in=False)},
}


def architecture(layers: int = 3, heads: int = 2, **changed) -> Architecture:
    sizes = {"d_model": 6, "n_layers": layers, "n_heads": heads, "d_ff": 5, "context": 2 * N + 1, "stem": Vectors(D)}
    return Architecture(**{**sizes, "positions": "learned", **changed})


def decoders(config: Architecture, of: list[Plan], std: float = 0.5) -> list[Decoder]:
    return [Decoder(config, each, seed=seed, std=std).double() for seed, each in enumerate(of)]


def given_to(stack: StackedDecoder, read: slice, batch: int = 4):
    """Inputs as a decoder takes them, targets, and both as a stack does, the same for every row."""
    generator = torch.Generator().manual_seed(0)
    width = stack.structure.config.stem.width
    inputs, targets = (torch.randn(batch, 2 * N + 1, width, generator=generator).double() for _ in range(2))
    rows = [x.permute(2, 1, 0).expand(len(stack.flat), -1, -1, -1) for x in (inputs, targets)]
    return inputs, targets, rows[0], rows[1][:, :, read]


def assert_alike(models: list[Decoder], read: slice) -> None:
    """Losses and gradients of every decoder of a stack are those that it has alone."""
    stack = StackedDecoder(models)
    inputs, targets, x, y = given_to(stack, read)
    flat = stack.flat.clone().requires_grad_()
    losses = stack.losses(slice(0, len(flat)), flat, x, y, read)
    (gradient,) = torch.autograd.grad(losses.sum(), flat)
    for i, model in enumerate(models):
        alone = (model(inputs) - targets).square().sum(-1)[:, read].T
        check_identity(losses[i], alone, terms=1000)
        named = dict(model.named_parameters())
        found = torch.autograd.grad(alone.sum(), list(named.values()), allow_unused=True)
        own = {n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(named.items(), found, strict=True)}
        of_stack, scale = stack.weights(i, gradient), float(gradient[i].norm())
        assert own.keys() == of_stack.keys()
        for name in own:
            check_identity(of_stack[name], own[name], terms=1000, scale=scale)
        covered = sum((x.abs().sum() for x in of_stack.values()), torch.zeros((), dtype=torch.float64))
        check_identity(gradient[i].abs().sum(), covered, terms=1000)  # what is not built gets none


@settings(
    max_examples=25,
    deadline=None,
    phases=SHORT,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(st.data(), st.sampled_from(sorted(MORE)), st.sampled_from([slice(0, None, 2), slice(2 * N, 2 * N + 1)]))
@pytest.mark.long
def test_any_plans_of_one_depth_rule(data, more, read):
    first = data.draw(plans())
    config = architecture(first.shape.layers, first.shape.heads, **{"head_dim": 4, **MORE[more]})
    if not first.output_projection:
        config = replace(config, head_dim=0)
    assume(config.d_model % config.n_heads == 0 or config.head_dim)
    assume(not misfits(config, first) and misfit(config, first) is None)
    second = plan(first.shape, depth=first.depth, feed_forward=first.feed_forward,
                  output_projection=first.output_projection)  # fmt: skip
    read = slice(read.start, min(read.stop or 2 * N + 1, 2 * N + 1), read.step)
    assert_alike(decoders(config, [first, second, first]), read)


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("depth", ["vanilla", "attnres", "attnres-static", "denseformer"])
def test_every_variant_beside_the_baseline(more, depth):
    config = architecture(**MORE[more])
    names = ["vanilla", "skipv1", "resformer", "svformer", "skipv0", "cla-v", "shared-keys", "shared-queries",
             "resformer-learned", "neutreno", "resformer-all"] if depth == "vanilla" else [depth]  # fmt: skip
    assert_alike(decoders(config, [resolve(name, config.shape) for name in names]), slice(0, 2 * N + 1, 2))


@pytest.mark.parametrize("block", [1, 2, 3])
def test_attention_residuals_at_learned_queries(block):
    config = architecture()
    models = decoders(config, [plan(config.shape, depth=DepthAttention(block=block))] * 3)
    for model in models:
        torch.nn.init.normal_(model.depth.query, generator=torch.Generator().manual_seed(block))
    assert_alike(models, slice(0, 2 * N + 1, 2))


def test_weights_go_in_and_come_out():
    config = architecture(layers=2)
    for count in (1, 3):
        models = decoders(config, [resolve("skipv1", config.shape)] * count)
        stack = StackedDecoder(models)
        assert stack.models == count
        for i, model in enumerate(models):
            weights = stack.weights(i)
            assert all(torch.equal(weights[name], p) for name, p in model.named_parameters())


@given(st.integers(1, 9), st.integers(1, 10**4))
def test_chunks_are_all_rows_and_two_at_least(count, floats):
    config = architecture(layers=1)
    stack = StackedDecoder(decoders(config, [resolve("vanilla", config.shape)]))
    stack.flat = stack.flat[:1].expand(2 * count, -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(stacked.FLOATS, "cpu", floats)
        chunks = stack.chunks(4)
    assert [i for rows in chunks for i in range(rows.start, rows.stop)] == list(range(2 * count))
    assert min(rows.stop - rows.start for rows in chunks) >= 2


@pytest.mark.parametrize(
    ("changed", "variant", "said"),
    [
        ({"stem": Tokens(5)}, "vanilla", "vectors"),
        ({"latent": Latent(6, 2), "positions": "rope"}, "vanilla", "latent"),
        ({"copy_rank": 2, "stem": Vectors(6, read_in=False)}, "vanilla", "assumed copy"),
        ({"n_kv_heads": 1}, "vanilla", "key/value heads"),
        ({"dropout": 0.1}, "vanilla", "dropout"),
        ({"qk_norm": True}, "vanilla", "norms of queries"),
        ({"window": 2}, "vanilla", "window"),
        ({}, "dva", "dynamic"),
        ({}, "cross-layer", "concatenation"),
    ],
)
def test_what_does_not_stack(changed, variant, said):
    config = architecture(**changed)
    with pytest.raises(BadInput, match=said):
        StackedDecoder([Decoder(config, resolve(variant, config.shape))])


def test_decoders_of_two_kinds():
    some, others = architecture(layers=2), architecture(layers=3)
    for config, name in ((others, "vanilla"), (some, "attnres")):
        both = [Decoder(c, resolve(n, c.shape)) for c, n in ((some, "vanilla"), (config, name))]
        with pytest.raises(BadInput, match="one architecture"):
            StackedDecoder(both)
