"""Conversion of trained decoders: what is the same function, what is taken over, and what each way makes of values."""

from dataclasses import replace

import pytest
import torch

from icl.conversion import WAYS, convert
from icl.models.decoder import Decoder
from icl.testing import check_identity
from tests.icl.models.small import ARCHITECTURES, GPT2, LLAMA, some_input
from theory.errors import BadInput
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape

LATENT = ARCHITECTURES["latent"]
KINDS = {"llama": LLAMA, "gpt2": GPT2, "grouped": ARCHITECTURES["grouped"], "latent": LATENT}


def trained(config, seed=1):
    """Not as initialised: biases and gains apart from zero and one."""
    model = Decoder(config, resolve("vanilla", config.shape), std=0.3, seed=seed).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)).double())
    return model


def part(model, layer, name):
    """(heads, width, ...) of a projection's rows, or (heads, d_model, width) of the output's columns."""
    attention = model.layers[layer - 1]["attention"]
    if name == "output":
        return attention.output.weight.detach().unflatten(1, (-1, attention.output.width)).transpose(0, 1)
    linear = attention.projections.get_submodule(name)
    return linear.weight.detach().unflatten(0, (-1, linear.width))


def read_from_layer_1(model):
    """Make layer 2's values linear maps of layer 1's: layer 1 adds nothing to the stream, and norms agree."""
    with torch.no_grad():
        model.layers[0]["attention"].output.weight.zero_()
        model.layers[0]["feed_forward"].down.weight.zero_()
        model.layers[1]["attention"].norm.weight.copy_(model.layers[0]["attention"].norm.weight)
        maps = torch.randn(4, 6, 6, generator=torch.Generator().manual_seed(3)).double()
        part(model, 2, "value").copy_(maps @ part(model, 1, "value"))
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["resformer-learned", "denseformer", "attnres", "attnres-block", "vanilla"])
def test_what_begins_as_the_same_function(kind, name):
    """Attention over depth where norms have no eps; with one it does not."""
    config = replace(KINDS[kind], norm_eps=0.0)
    model = trained(config)
    found = convert(model, name)
    tokens = some_input(config)
    check_identity(found(tokens), model(tokens), terms=1000)
    if name.startswith("attnres"):
        model = trained(replace(config, norm_eps=0.1))
        with pytest.raises(AssertionError):
            check_identity(convert(model, name)(tokens), model(tokens), terms=1000)


@pytest.mark.parametrize("name", ["resformer", "svformer", "skipv1", "skipv0", "shared-keys"])
def test_what_both_have_is_taken_over(name):
    model = trained(LLAMA)
    found = convert(model, name)
    old = dict(model.named_parameters())
    same = [n for n, p in found.named_parameters() if n in old and p.shape == old[n].shape]
    assert all(torch.equal(dict(found.named_parameters())[n], old[n]) for n in same)
    assert len(same) >= len(old) - 8
    first = dict(convert(model, name, "first").named_parameters())
    for n, p in found.named_parameters():
        if n in old and p.shape != old[n].shape:
            rows = dict(convert(model, name).named_modules())[n.rpartition(".")[0]]
            assert torch.equal(first[n], rows.cut(old[n]))


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_over_neighbouring_heads(kind):
    model = trained(KINDS[kind])
    found = convert(model, "skipv1", "mean")
    for layer in (2, 3):
        pairs = part(model, layer, "value").unflatten(0, (2, 2)).mean(1)
        assert torch.allclose(part(found, layer, "value"), pairs, rtol=1e-12)
    assert torch.equal(part(found, 1, "value"), part(model, 1, "value"))
    if kind == "gpt2":
        bias = model.layers[1]["attention"].projections.value.bias.unflatten(0, (2, 2, -1)).mean(1).flatten()
        assert torch.allclose(found.layers[1]["attention"].projections.value.bias, bias)


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_over_heads_apart(kind):
    model = trained(KINDS[kind])
    found = convert(model, "skipv1", "apart")
    for layer in (2, 3):
        old = part(model, layer, "value")
        assert torch.allclose(part(found, layer, "value"), (old[:2] + old[2:]) / 2, rtol=1e-12)
        for name in ("query", "output"):
            if kind != "latent":
                assert torch.equal(part(found, layer, name), part(model, layer, name))


@pytest.mark.parametrize("how", ["mean-vo", "top-vo", "svd", "whole"])
def test_other_parts_of_the_output_are_zero(how):
    """So that nothing of the first layer's values is read before it is trained."""
    model = trained(LLAMA)
    found = convert(model, "skipv1", how)
    own = resolve("skipv1", LLAMA.shape)
    for layer in (2, 3):
        of_first = [h - 1 for h in range(1, 5) if own.head(layer, h).values[0].terms[0].source.layer == 1]
        assert len(of_first) == 2
        assert not part(found, layer, "output")[of_first].any()
        assert all(part(found, layer, "output")[h].any() for h in range(4) if h not in of_first)
    assert torch.equal(part(found, 1, "output"), part(model, 1, "output"))


def test_the_largest_are_chosen():
    model = trained(LLAMA)
    with torch.no_grad():
        for layer in (2, 3):
            part(model, layer, "value")[[1, 3]] *= 10
            part(model, layer, "output")[[0, 1]] *= 10
        part(model, 2, "value")[1] *= 10
    old = {name: part(model, 2, name).clone() for name in ("value", "output", "query", "key")}
    top_v, top_vo, whole = (convert(model, "skipv1", how) for how in ("top-v", "top-vo", "whole"))
    for found in (top_v, top_vo):
        assert torch.equal(part(found, 2, "value"), old["value"][[1, 3]])
        assert torch.equal(part(found, 2, "query"), old["query"])
    assert torch.equal(part(top_v, 2, "output"), old["output"])
    assert torch.equal(part(top_vo, 2, "output")[:2], old["output"][[0, 1]])
    sizes = (old["output"] @ old["value"]).flatten(1).norm(dim=1)
    chosen = sorted(sizes.argsort()[-2:].tolist())
    assert 1 in chosen
    left = [h for h in range(4) if h not in chosen]
    for name in ("query", "key"):
        assert torch.equal(part(whole, 2, name), old[name][[*chosen, *left]])
    assert torch.equal(part(whole, 2, "value"), old["value"][chosen])
    assert torch.equal(part(whole, 2, "output")[:2], old["output"][chosen])


@pytest.mark.parametrize("kind", ["llama", "gpt2", "grouped"])
def test_whole_heads_are_the_model_without_the_others(kind):
    """Its first loss is that of the trained model with the other heads' parts of the output projection at zero."""
    config = KINDS[kind]
    model, cut = trained(config), trained(config)
    found, count = convert(model, "skipv1", "whole"), config.kv_heads
    for layer in (2, 3):
        attention = cut.layers[layer - 1]["attention"]
        values = part(model, layer, "value")
        bias = model.layers[layer - 1]["attention"].projections.value.bias
        if bias is not None:
            values = torch.cat([values, bias.detach().unflatten(0, (count, -1))[..., None]], dim=-1)
        outputs = part(model, layer, "output").unflatten(0, (count, config.group))
        sizes = torch.stack([(of @ v).square().sum() for of, v in zip(outputs, values, strict=True)])
        with torch.no_grad():
            attention.output.weight.unflatten(1, (count, -1))[:, sizes.argsort()[: count // 2]] = 0
    tokens = some_input(config)
    check_identity(found(tokens), cut(tokens), terms=1000)
    with pytest.raises(AssertionError):
        check_identity(found(tokens), model(tokens), terms=1000)


def readers(decoder, layer):
    """(slices, ..., width): what reads each slice of a layer's latent, keys and values alike."""
    attention = decoder.layers[layer - 1]["attention"]
    rows = torch.cat([attention.key_up.weight, attention.value_up.weight]) * attention.latent_norm.weight
    return rows.detach().unflatten(1, (4, -1)).transpose(0, 1)


def stacked(decoder, layer):
    """Of a layer: products of what reads values, or slices of the latent, with these, summed over those there are."""
    values = part(decoder, layer, "value")
    if decoder.config.latent is not None:
        read = readers(decoder, layer)
    else:
        read = part(decoder, layer, "output").unflatten(0, (-1, decoder.config.group)).flatten(1, 2)
    assert len(values) == 4 or not read[len(values) :].any()  # nothing of layer 1 is read
    return sum(r @ v for r, v in zip(read, values, strict=False))


@pytest.mark.parametrize("kind", ["llama", "grouped", "latent"])
def test_no_others_are_nearer_than_svd_s(kind):
    """By Eckart and Young: its distance is what the singular values beyond its rank leave, and other ways' is more."""
    model = trained(KINDS[kind])
    whole = stacked(model, 2)

    def distance_of(how):
        return float((whole - stacked(convert(model, "skipv1", how), 2)).norm())

    distance = distance_of("svd")
    sizes = torch.linalg.svdvals(whole)
    width = part(model, 2, "value").shape[1]
    assert distance == pytest.approx(float(sizes[2 * width :].norm()), rel=1e-9)
    assert min(map(distance_of, ("mean-vo", "top-vo", "whole"))) > distance


def test_slices_of_a_latent_keep_their_squares():
    """Of inputs in the span of what is kept; and another sharing out, as of values, has other squares: the control."""
    model = trained(LATENT)
    found = convert(model, "skipv1", "svd")
    kept = part(found, 2, "value").flatten(0, 1)
    before = part(model, 2, "value").flatten(0, 1)
    inputs = torch.linalg.svd(stacked(found, 2)).Vh[: len(kept)]
    squares = [(slices @ inputs.T).square().sum(0) for slices in (kept, before)]
    assert torch.allclose(*squares, rtol=1e-9)
    sizes = torch.linalg.svdvals(stacked(found, 2))[: len(kept)]
    assert not torch.allclose(sizes, squares[1], rtol=0.1)
    assert torch.equal(found.layers[1]["attention"].latent_norm.weight, torch.ones(12, dtype=torch.float64))


def test_a_latent_that_needs_no_more_slices_is_all_but_kept():
    """Of layer 2: with larger and larger slices the answers go to the trained model's, which they never are."""
    model = trained(replace(LATENT, norm_eps=0.0, n_layers=2))
    with torch.no_grad():
        rows = model.layers[1]["attention"].projections.value.weight
        rows.copy_(torch.cat([rows[:6], 0.5 * rows[:6].flip(0)]))
    tokens, apart = some_input(model.config), []
    for size in (1.0, 10.0, 100.0):
        found = convert(model, "skipv1", "svd")
        with torch.no_grad():
            found.layers[1]["attention"].projections.value.weight.mul_(size)
            apart.append(float((found(tokens) - model(tokens)).abs().max()))
    assert apart[0] > 30 * apart[1] > 900 * apart[2] > 0


def test_whole_slices_go_with_what_reads_them():
    model = trained(LATENT)
    found, values = convert(model, "skipv1", "whole"), part(model, 2, "value")
    columns = readers(model, 2)
    chosen = (columns @ values).flatten(1).norm(dim=1).argsort()[-2:].sort().values
    assert torch.equal(part(found, 2, "value"), values[chosen])
    assert torch.allclose(stacked(found, 2), sum(columns[h] @ values[h] for h in chosen))


def test_what_cannot_be_converted_is_refused():
    model = trained(LLAMA)
    for variant, how, says in (
        ("skipv1", "average", "unknown way"),
        (resolve("skipv1", Shape(2, 2)), "mean", "does not fit"),
    ):
        with pytest.raises(BadInput, match=says):
            convert(model, variant, how)
    skipping = Decoder(LLAMA, resolve("skipv1", LLAMA.shape))
    with pytest.raises(BadInput, match="only a vanilla model"):
        convert(skipping, "resformer")
    bare = replace(resolve("skipv1", LLAMA.shape), output_projection=False)
    for how in ("mean-vo", "top-vo", "svd", "whole"):
        with pytest.raises(BadInput, match="there is no output projection"):
            convert(model, bare, how)


def test_layers_are_their_own_where_feed_forwards_are_gone():
    """The plan has none; layer n's values are made of layer n's."""
    model = trained(LLAMA)
    plan = replace(resolve("skipv1", LLAMA.shape), feed_forward=False)
    for how in WAYS:
        found, expected = convert(model, plan, how), convert(model, "skipv1", how)
        for layer in (1, 2, 3):
            for name in ("query", "key", "value", "output"):
                assert torch.equal(part(found, layer, name), part(expected, layer, name))


@pytest.mark.parametrize("how", ["mean-vo", "top-vo", "svd"])
def test_heads_that_are_gone_take_their_outputs_along(how):
    found = convert(trained(LLAMA), "skipv0", how)
    assert part(found, 2, "output").shape == (2, LLAMA.d_model, LLAMA.width)
    assert found(some_input(LLAMA)).isfinite().all()


def test_biases_for_positions():
    """They go with their heads; whole heads would have to take theirs along, and are refused."""
    model = trained(replace(LLAMA, positions="bias"))
    found = convert(model, "skipv0")
    scores = [m.layers[1]["attention"].position_bias.scores for m in (model, found)]
    assert torch.equal(scores[1], scores[0][:2])
    for variant, config in (("skipv1", replace(LLAMA, positions="bias")), ("skipv1-yoco", LLAMA)):
        with pytest.raises(BadInput, match="a query and a key each"):
            convert(trained(config), variant, "whole")


@pytest.mark.parametrize("how", WAYS)
def test_nothing_of_the_model_is_changed(how):
    model = trained(LLAMA)
    before = {name: p.clone() for name, p in model.named_parameters()}
    found = convert(model, "skipv1", how)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert isinstance(found.plan, Plan)
    assert {p.dtype for p in found.parameters()} == {torch.float64}
    assert found(some_input(LLAMA)).isfinite().all()
